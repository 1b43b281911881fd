"""A tool made of a user's function that runs inside the sandbox, with the sandbox's python3."""

import base64
import json
import secrets
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any

from codeagent.core.messages import OutputStream, text_of
from codeagent.core.sandbox import Command, CommandResult, OnOutput, RunsCommands
from codeagent.core.tool import (
    Denied,
    Failed,
    InvalidArgs,
    NotFound,
    ToolContext,
    ToolError,
    ToolResult,
)
from codeagent.extensions.user_tools.function_schema import FunctionArgs
from codeagent.extensions.user_tools.function_tool import NOTHING, FunctionTool, as_call, as_result
from codeagent.tools.shell.run import CommandRun, run_command

LARGEST_ANSWER = 16 << 20
"""Bytes."""
_KINDS: dict[str, type[ToolError]] = {
    "not_found": NotFound,
    "invalid_args": InvalidArgs,
    "denied": Denied,
}
_NO_PROGRAM = 127
_START = (
    "import base64,json,os;"
    "job=json.loads(base64.b64decode(os.fdopen(3,'rb').read()));"
    "names={'__name__':'codeagent_sandbox_side'};"
    "exec(compile(job['program'],'codeagent','exec'),names);"
    "names['main'](job)"
)


class AnswerTap:
    """Runs commands in a sandbox and takes one line out of their standard output: the answer, after
    a secret marker.

    `answer` is that line without the marker, once `run` has ended; everything else is passed on.
    """

    def __init__(self, sandbox: RunsCommands, marker: bytes) -> None:
        self.answer: bytes | None = None
        self.too_large = False
        self._sandbox = sandbox
        self._marker = marker
        self._held = b""
        self._inside = False

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        async def take(stream: OutputStream, data: bytes) -> None:
            passed = data if stream == "stderr" else self._without_answer(data)
            if passed:
                await on_output(stream, passed)

        result = await self._sandbox.run(command, take)
        if self._held and not self._inside:
            await on_output("stdout", self._held)
        return result

    def _without_answer(self, data: bytes) -> bytes:
        """Return the data to pass on; what may be the beginning of the marker is held back."""
        self._held += data
        before = b""
        if not self._inside:
            at = self._held.find(self._marker)
            if at < 0:
                begun = (
                    n
                    for n in range(len(self._marker) - 1, 0, -1)
                    if self._held.endswith(self._marker[:n])
                )
                kept = len(self._held) - next(begun, 0)
                passed = self._held[:kept]
                self._held = self._held[kept:]
                return passed
            before = self._held[:at]
            self._held = self._held[at + len(self._marker) :]
            self._inside = True
        end = self._held.find(b"\n")
        if end < 0:
            if len(self._held) > LARGEST_ANSWER:
                self.too_large = True
                self._held = b""
            return before
        answer, after = self._held[:end], self._held[end + 1 :]
        self.answer = None if self.too_large else answer
        self._held = b""
        self._inside = False
        return before + after


class SandboxedFunction(FunctionTool):
    """Sends its file, as it was when loaded, with each call."""

    sandboxed = True

    async def run(self, args: FunctionArgs, ctx: ToolContext) -> ToolResult:
        if ctx.sandbox is None:
            raise Failed("this tool runs only in a sandbox, and none is available; nothing was run")
        marker = f"\x1e{secrets.token_hex(16)}:"
        tap = AnswerTap(ctx.sandbox, marker.encode())
        command = Command(self._command(args, marker), ctx.call_id, ctx.read_only, apart=True)
        run = await run_command(tap, command, self._outputs, ctx.on_update)
        run = replace(run, command=as_call(self.name, args.given))
        if tap.answer is None:
            raise self._without_answer(run, tap.too_large)
        ran = run.answer({})
        printed = text_of(ran.content)
        result = self._result(json.loads(tap.answer), "" if printed == NOTHING else printed)
        return replace(result, details={**result.details, **ran.details})

    def _command(self, args: FunctionArgs, marker: str) -> str:
        """Return the command; its payload is base64 on a separate descriptor, so the shell never
        reads it."""
        job = {
            "program": _program(),
            "source": base64.b64encode(self._found.content or b"").decode(),
            "shown": self._found.shown,
            "tool": self.name,
            "arguments": self._schema.plain(args),
            "marker": marker,
        }
        payload = base64.b64encode(json.dumps(job).encode()).decode()
        return f'exec python3 -IBu -X utf8 -c "{_START}" 3<<END\n{payload}\nEND\n'

    def _without_answer(self, run: CommandRun, too_large: bool) -> Exception:
        if too_large:
            return Failed(
                f"the function returned more than {LARGEST_ANSWER >> 20} MiB; write it to a file instead"
            )
        if run.ending == "done" and run.result.exit_code == _NO_PROGRAM:
            return Failed(
                "the sandbox has no python3, which a tool with sandbox=True needs; choose an image that has it"
            )
        try:
            run.answer({})
        except ToolError as error:
            return error
        return Failed("the function ended its process before it returned")

    def _result(self, answer: dict[str, Any], printed: str) -> ToolResult:
        """Return the function's result. Raises ToolError if the function did."""
        before = f"{printed.rstrip()}\n" if printed else ""
        match answer:
            case {"kind": str(kind), "text": str(text)}:
                raise _KINDS.get(kind, Failed)(before + text)
            case {"raised": str(name), "text": str(text), "line": line}:
                where = f" ({self._found.shown}:{line})" if line else ""
                raise Failed(before + (f"{name}: {text}" if text else name) + where)
            case {"unshown": str(name), "text": str(text)}:
                raise Failed(
                    f"it returned {name}, which cannot be written as JSON ({text}); return text or plain data"
                )
            case {"result": str(text), "details": dict(details)}:
                return ToolResult.from_text(text, details=details)
            case {"bytes": int(size)}:
                return as_result(f"({size} bytes, which a model cannot read; return text)", printed)
            case _:
                return as_result(answer.get("value"), printed)


@lru_cache(maxsize=1)
def _program() -> str:
    return (
        resources.files("codeagent.extensions.user_tools")
        .joinpath("sandbox_side.py")
        .read_text(encoding="utf-8")
    )
