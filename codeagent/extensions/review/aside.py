"""Answers a side question from the conversation as it is, and adds nothing to it but the cost."""

from collections.abc import AsyncGenerator, Sequence

from codeagent.agent.hooks.hook import Deny
from codeagent.agent.model_request import AnswerSoFar, close_stream
from codeagent.agent.parts import Host, LatePart
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError
from codeagent.core.events import AsideAnswered
from codeagent.core.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
    is_at_work,
)
from codeagent.core.model import FellBack, ModelAnswer, ModelRequest, Retrying, TextPiece

_ASK = (
    "(A side question from the user. Answer it now from what you know, in a few sentences, without "
    "calling a tool; afterwards, continue your work as if it had not been asked.)\n\n"
)
_RUNNING = "(still running)"
_NO_TEXT = "The model gave no answer: it tried to use a tool, which a side question does not allow."


class SideQuestions(LatePart):
    """Asks the conversation's model, with the same prompt and tools, so that the provider's cache
    is used; no call of the answer is run."""

    def connect(self, host: Host) -> None:
        self._host = host

    async def ask(self, question: str) -> AsyncGenerator[str, None]:
        """Yield the answer so far, each time it has grown. Raises CodeagentError, also if a hook
        denies the question or the budget is used up."""
        host = self._host
        if (why := host.shared.spending.exhausted()) is not None:
            raise CodeagentError(f"{why}; nothing was asked")
        verdict = await host.context.queue.check(question, "prompt", CancelToken())
        if isinstance(verdict, Deny):
            raise CodeagentError(f"not asked: {verdict.why}")
        await host.context.emitter.sync()
        so_far, text, used = AnswerSoFar(host.environment.limits.max_repeated_tokens), "", None
        events = host.runs.conversation.model.stream(self._request(question, verdict))
        try:
            async for event in events:
                if repeats := so_far.take(event):
                    raise CodeagentError(f"{repeats}; it was stopped")
                match event:
                    case TextPiece(piece):
                        text += piece
                        yield text
                    case Retrying() | FellBack():
                        text = ""
                    case ModelAnswer(message, usage):
                        used = usage
                        yield message.text.strip() or _NO_TEXT
                    case _:
                        pass
        finally:
            if used is None:
                await close_stream(events)
                used = await so_far.usage()
            self._count(used)

    def _request(self, question: str, notes: Sequence[Message]) -> ModelRequest:
        conversation = self._host.runs.conversation
        told = conversation.prompt_builder or conversation
        tools = tuple(tool for tool in told.tools if not tool.at_provider)
        asked = UserMessage.from_text(_ASK + question)
        messages = (*closed(self._host.context.line.items), *notes, asked)
        return ModelRequest(told.system_prompt, messages, tools)

    def _count(self, usage: Usage) -> None:
        if usage == Usage():
            return
        host = self._host
        host.shared.spending.add_request(usage)
        if (meter := host.runs.meter) is not None:
            meter.add_request(usage)
        host.context.emitter.emit(AsideAnswered(usage=usage))


def closed(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with a result for each call that is running, so that a question can
    follow; an answer that the provider is still working on is left out."""
    at = next(
        (at for at in reversed(range(len(messages))) if isinstance(messages[at], AssistantMessage)),
        len(messages),
    )
    before, after = messages[: at + 1], messages[at + 1 :]
    if is_at_work(messages):
        return tuple(messages[:at])
    known = {each.call_id: each for each in after if isinstance(each, ToolMessage)}
    calls = before[-1].calls if before and isinstance(before[-1], AssistantMessage) else ()
    running = (TextPart(text=_RUNNING),)
    results = [
        known.get(call.id) or ToolMessage(call_id=call.id, name=call.name, content=running)
        for call in calls
    ]
    return (*before, *results, *(each for each in after if not isinstance(each, ToolMessage)))
