"""Hooks that are programs: the call as JSON on standard input, the answer as JSON on standard output.

A `before_tool` program allows by ending with 0 and printing nothing or `{"decision": "allow"}`; it denies with
`{"decision": "deny", "reason": …}`, changes the arguments with `{"decision": "modify", "arguments": {…}}`, and lets or
suppresses an update likewise. Ending with another code denies, with its standard error as the reason.
"""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codeagent.agent.hooks import Allow, Deny, Hook, Modify
from codeagent.core.messages import ToolCall, text_of
from codeagent.core.tool import ToolResult

HookEvent = Literal["before_tool", "after_tool", "before_update", "after_update"]
_LONGEST_REASON = 500
_LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True)
class CommandHook:
    """One configured program."""

    event: HookEvent
    command: tuple[str, ...]
    """Program and arguments; no shell."""
    folder: Path
    """Where it runs."""

    def hook(self) -> Hook:
        match self.event:
            case "before_tool":
                return Hook(self._name, before_tool=self._before_tool)
            case "after_tool":
                return Hook(self._name, after_tool=self._after_tool)
            case "before_update":
                return Hook(self._name, before_update=self._before_update)
            case "after_update":
                return Hook(self._name, after_update=self._after_update)

    @property
    def _name(self) -> str:
        return self.command[0]

    async def _before_tool(self, call: ToolCall) -> Allow | Deny | Modify:
        answer = await self._ask(call, {})
        match answer:
            case {"decision": "deny"}:
                return Deny(str(answer.get("reason") or f"denied by the hook {self._name}"))
            case {"decision": "modify", "arguments": dict(arguments)}:
                return Modify(arguments)
            case {"decision": "allow"}:
                return Allow()
            case _:
                return Deny(f"the hook {self._name} answered what is no decision")

    async def _after_tool(self, call: ToolCall, result: ToolResult) -> None:
        error = None if result.error is None else result.error.model_dump()
        facts = {"content": text_of(result.content), "is_error": result.is_error, "executed": result.executed}
        await self._ask(call, {"result": {**facts, "error": error}})

    async def _before_update(self, call: ToolCall, text: str) -> bool:
        return (await self._ask(call, {"text": text})).get("decision") == "allow"

    async def _after_update(self, call: ToolCall, text: str) -> None:
        await self._ask(call, {"text": text})

    async def _ask(self, call: ToolCall, more: dict[str, Any]) -> dict[str, Any]:
        """The program's answer. Raises OSError where it does not start, ValueError where it makes no sense."""
        told = {"event": self.event, "call": call.model_dump(), **more}
        process = await asyncio.create_subprocess_exec(
            *self.command, cwd=self.folder, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        try:
            out, err = await process.communicate(json.dumps(told).encode())
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                # Read to the end: asyncio tells of an exit only when the pipes were.
                await asyncio.wait({asyncio.ensure_future(process.communicate())}, timeout=_LAST_WORDS_SECONDS)
        if process.returncode != 0:
            reason = err.decode(errors="replace").strip()[:_LONGEST_REASON]
            return {"decision": "deny", "reason": reason or f"the hook ended with {process.returncode}"}
        answer = json.loads(out) if out.strip() else {"decision": "allow"}
        if not isinstance(answer, dict):
            raise ValueError(f"the answer is no JSON object: {out[:80]!r}")
        return answer


def command_hooks(hooks: Sequence[CommandHook]) -> tuple[Hook, ...]:
    """In the order of the configuration, which is the order they are called in."""
    return tuple(hook.hook() for hook in hooks)
