"""One call of `codeagent tools run`: its arguments, what it prints, and what the user is asked."""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from codeagent.commands.arguments import say
from codeagent.core.acts import Answer, RunGroup, RunRecipe
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import plain_text
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent, Notice, ToolProgress, ToolResultAdded, ToolUpdated
from codeagent.core.messages import text_of
from codeagent.core.notices import TypedNotice
from codeagent.core.policy import Decision
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Session
from codeagent.core.sanitize import folded, one_line

_DENIED = 4
_NOT_CALLED = frozenset({"invalid_args", "not_found"})


class ToolCallReader:
    """Shows one call as it happens, and asks the user."""

    def __init__(self, redactor: Redactor, *, approve: bool) -> None:
        self._redactor = redactor
        self._approve = approve
        self._streamed = ""
        self.code = 1
        """The exit code."""

    def say(self, text: str) -> None:
        say(text)

    def show_outside(self, event: KnownEvent) -> None:
        """Show nothing: only the call itself is shown."""

    async def run(self, session: Session, what: RunRecipe | RunGroup | str) -> None:
        async for event in session.agent.run(what):
            match event:
                case ToolUpdated():
                    self._streamed += event.text
                    target = sys.stderr if event.stream == "stderr" else sys.stdout
                    print(self._redactor.clean(event.text), end="", file=target, flush=True)
                case ToolProgress():
                    say(event.text)
                case ApprovalRequested():
                    session.do(Answer(event.approval_id, await self._answer(event)))
                case ToolResultAdded():
                    self.code = self._show(event)
                case Notice() | TypedNotice() if event.level != "info":
                    say(f"{event.level}: {one_line(event.text, 400)}")
                case _:
                    pass

    async def _answer(self, event: ApprovalRequested) -> Decision:
        say(folded(self._redactor.clean(plain_text(event.blocks) or event.target)))
        if self._approve:
            return Decision("once", source="flag")
        if sys.stdin is None or not sys.stdin.isatty():
            return Decision("deny", "nobody to ask; allow it with --yes", source="auto")
        question = f"{one_line(event.name, 64)} ({one_line(event.reason, 200)}): run it? [y/N] "
        print(question, end="", file=sys.stderr, flush=True)
        answer = await asyncio.to_thread(sys.stdin.readline)
        return (
            Decision("once")
            if answer.strip().lower() in ("y", "yes")
            else Decision("deny", "the user said no")
        )

    def _show(self, event: ToolResultAdded) -> int:
        text = text_of(event.content)
        if event.error is None and (unseen := self._unseen(event, text)):
            print(self._redactor.clean(unseen))
        if event.error is None:
            return 0
        said = (
            text
            if event.error.kind in _NOT_CALLED
            else f"{event.error.kind}: {event.error.message}"
        )
        say(self._redactor.clean(said))
        if event.error.kind in _NOT_CALLED:
            return 2
        return _DENIED if event.error.kind == "denied" else 1

    def _unseen(self, event: ToolResultAdded, text: str) -> str:
        """Return the part of the result that was not already printed while it ran, as a command's
        output was."""
        if not self._streamed:
            return text
        if any(block.type == "terminal" for block in event.blocks):
            return ""
        return text.removeprefix(self._streamed.rstrip("\n")).lstrip("\n")


def call_arguments(given: Sequence[str], schema: dict[str, Any]) -> str:
    """Return the call's arguments as JSON. Raises ConfigError if one is not ARG=VALUE, or not JSON
    if it should be."""
    out: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"{word!r} is not ARG=VALUE; nothing was run")
        if name in out:
            raise ConfigError(f"the argument {name} is given twice; nothing was run")
        kind = schema.get("properties", {}).get(name, {}).get("type", "string")
        out[name] = value if kind == "string" else _parsed(name, value)
    return json.dumps(out)


def _parsed(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{name}={value[:80]} is not JSON, which this argument must be; nothing was run"
        ) from None
