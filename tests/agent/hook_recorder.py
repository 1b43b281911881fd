"""Notes every hook call and every event of an agent, in the order they happen."""

from collections.abc import Callable
from typing import Any

from codeagent.agent.hooks.hook import Hook, HookSession, SubmittedPrompt, TextAnswer, ToolAnswer
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    Notice,
    RunFinished,
    TextDelta,
    ToolResultAdded,
    ToolUpdated,
    TurnFinished,
    TurnStarted,
)
from codeagent.core.messages import ToolCall, UserMessage, text_of
from codeagent.core.notices import TypedNotice
from codeagent.core.tool import ToolResult

_UNRELATED = (TurnStarted, TurnFinished, TextDelta)


class Recorder:
    """`lines` holds `> hook …` for a call of a hook, and the event's type, with the call's id, for
    an event."""

    def __init__(
        self,
        *,
        tool: Callable[[ToolCall], ToolAnswer] = lambda call: True,
        update: Callable[[str], bool] = lambda text: True,
        prompt: Callable[[SubmittedPrompt], TextAnswer] = lambda prompt: True,
        judges_calls: bool = True,
        judges_prompts: bool = False,
    ) -> None:
        self.lines: list[str] = []
        self._tool, self._update, self._prompt = tool, update, prompt
        self.hook = Hook(
            "recorder",
            before_tool=self._before_tool if judges_calls else None,
            after_tool=self._after_tool,
            before_update=self._before_update,
            after_update=self._after_update,
            prompt_submit=self._prompt_submit if judges_prompts else None,
            run_finished=self._run_finished,
            session_start=self._session_start,
            session_end=self._session_end,
        )

    def see(self, event: KnownEvent) -> None:
        match event:
            case ToolResultAdded():
                kind = "ok" if event.error is None else event.error.kind
                self.lines.append(f"tool.result {event.call_id} {kind}")
            case ToolUpdated():
                self.lines.append(f"tool.updated {event.call_id} {event.text}")
            case MessageAdded(message=UserMessage() as message):
                self.lines.append(f"message.added {message.source}: {text_of(message.content)}")
            case MessageAdded():
                self.lines.append("message.added of the model")
            case Notice() | TypedNotice():
                self.lines.append(f"notice {event.code}")
            case event if isinstance(event, _UNRELATED):
                pass
            case _:
                about: Any = getattr(event, "call_id", None) or getattr(event, "reason", None)
                self.lines.append(f"{event.type} {about}" if about else event.type)

    async def _before_tool(self, call: ToolCall) -> ToolAnswer:
        self.lines.append(f"> before_tool {call.id}")
        return self._tool(call)

    async def _after_tool(self, call: ToolCall, result: ToolResult) -> None:
        self.lines.append(f"> after_tool {call.id}")

    async def _before_update(self, call: ToolCall, text: str) -> bool:
        self.lines.append(f"> before_update {call.id} {text}")
        return self._update(text)

    async def _after_update(self, call: ToolCall, text: str) -> None:
        self.lines.append(f"> after_update {call.id} {text}")

    async def _prompt_submit(self, prompt: SubmittedPrompt) -> TextAnswer:
        self.lines.append(f"> prompt_submit {prompt.source}: {prompt.text}")
        return self._prompt(prompt)

    async def _run_finished(self, finished: RunFinished) -> None:
        self.lines.append(f"> run_finished {finished.reason}: {finished.text}")

    async def _session_start(self, session: HookSession) -> None:
        self.lines.append(f"> session_start {session.id}")

    async def _session_end(self, session: HookSession) -> None:
        self.lines.append(f"> session_end {session.id}")
