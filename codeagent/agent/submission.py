"""Asks the hooks about the text of a person before any of it is sent (FEATURES F11)."""

from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny, Hooks, PromptSource, SubmittedPrompt
from codeagent.core.cancel import CancelToken
from codeagent.core.events import Notice
from codeagent.core.messages import UserMessage
from codeagent.core.notices import RunNotBegun


class Submission:
    def __init__(self, hooks: Hooks, emitter: Emitter) -> None:
        self._hooks = hooks
        self._emitter = emitter

    @property
    def judged(self) -> bool:
        """Nothing is sent before the hooks were asked."""
        return self._hooks.judges_prompts

    async def ask(self, text: str, source: PromptSource, token: CancelToken) -> Deny | tuple[UserMessage, ...]:
        """The denial, or the notes that go with the text. Raises RunCancelled."""
        answer = await token.guard(self._hooks.prompt_submit(SubmittedPrompt(text, source)))
        if isinstance(answer, Deny):
            return answer
        return tuple(UserMessage.from_text(added, source="note") for added in answer)

    def tell_denied(self, source: PromptSource, denied: Deny) -> None:
        """Of text that was queued: it is given back with its `steer.delivered`."""
        text = f"a hook denied what you typed, so it was not sent: {denied.reason}"
        self._emitter.emit(Notice(level="warning", code="prompt.denied", text=text, data={"source": source}))

    def tell_not_begun(self, prompt: str | None, why: str) -> None:
        """No run begins. The front end gives the prompt back from here; None: what was queued has been given back."""
        self._emitter.emit(RunNotBegun(text=why, prompt=prompt or ""))
