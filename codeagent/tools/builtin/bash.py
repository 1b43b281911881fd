"""The `bash` tool: one command line in the sandbox."""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from codeagent.core.display import TerminalBlock
from codeagent.core.errors import SandboxLost
from codeagent.core.messages import TextPart
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Command, CommandResult, OutputStore, Sandbox
from codeagent.core.tool import Cancelled, Failed, Preview, TimedOut, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.command_output import CommandOutput
from codeagent.tools.seen import SeenFiles
from codeagent.tools.shell_syntax import command_key

_LIVE_BYTES_PER_SECOND = 1 << 20
_Ending = Literal["done", "timeout", "cancelled"]


def _command(value: str) -> str:
    if not value.strip():
        raise ValueError("the command is empty")
    if "\0" in value:
        raise ValueError("a command cannot hold a NUL character")
    return value


class BashArgs(ToolArgs):
    command: Annotated[str, AfterValidator(_command)]
    timeout: Annotated[float | None, Field(gt=0, description="Seconds")] = None


@dataclass(frozen=True)
class _Outcome:
    ending: _Ending
    result: CommandResult
    lost: SandboxLost | None = None


class Bash(Tool[BashArgs]):
    """Runs alone: nothing is known about what a command touches."""

    name = "bash"
    label = "Bash"
    description = (
        "Run a command with bash in the workspace root. Nothing is kept between calls but files. "
        "Standard input is empty. Long output is cut in the middle; output_read shows the rest."
    )
    Args = BashArgs
    permission = "prompt"
    effect = "anything"
    sandboxed = True

    def __init__(
        self,
        outputs: OutputStore,
        seen: SeenFiles,
        default_timeout: float = 120,
        max_timeout: float = 600,
        always_ask: str | None = None,
    ) -> None:
        """Timeouts in seconds; a longer one than `max_timeout` is cut to it.

        `always_ask` is why no mode may answer for the person, only a rule of theirs.
        """
        self._outputs = outputs
        self._seen = seen
        self._default_timeout = min(default_timeout, max_timeout)
        self._max_timeout = max_timeout
        self._always_ask = always_ask

    def approval_key(self, args: BashArgs) -> ApprovalKey:
        return replace(command_key(args.command), sensitive=self._always_ask)

    def target(self, args: BashArgs) -> str:
        first, _, rest = args.command.strip().partition("\n")
        return f"{first} …" if rest.strip() else first

    async def preview(self, args: BashArgs, ctx: ToolContext) -> Preview:
        return Preview(self.target(args), (TerminalBlock(command=args.command),))

    async def run(self, args: BashArgs, ctx: ToolContext) -> ToolResult:
        if ctx.sandbox is None:
            raise Failed("there is no sandbox, so commands cannot run; the file tools still work")
        timeout = min(args.timeout or self._default_timeout, self._max_timeout)
        output = CommandOutput(lambda: self._outputs.create(ctx.call_id))
        live = _Live(output, ctx)
        command = Command(args.command, ctx.call_id)
        await asyncio.to_thread(self._seen.before_command)
        try:
            outcome = await _outcome(ctx.sandbox, command, live, timeout)
        finally:
            rehashed = await asyncio.to_thread(self._seen.after_command)
        return _answer(args.command, output, outcome, timeout, rehashed)


class _Live:
    """Passes output on as it comes; a flood is thinned out for whoever watches, never for the result."""

    def __init__(self, output: CommandOutput, ctx: ToolContext) -> None:
        self._output = output
        self._ctx = ctx
        self._window = time.monotonic()
        self._shown = 0
        self._held_back = 0

    async def __call__(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        text = self._output.feed(stream, data)
        now = time.monotonic()
        if now - self._window >= 1:
            self._window, self._shown = now, 0
        self._shown += len(data)
        if self._shown > _LIVE_BYTES_PER_SECOND:
            self._held_back += len(text)
            return
        if self._held_back:
            text = f"\n[… {self._held_back} characters went by too fast to show …]\n{text}"
            self._held_back = 0
        if text:
            await self._ctx.on_update(text, stream)


async def _outcome(sandbox: Sandbox, command: Command, live: _Live, timeout: float) -> _Outcome:
    """Run to the end, to the timeout or to the cancel, and wait until everything has stopped."""
    work = asyncio.ensure_future(sandbox.run(command, live))
    ending: _Ending = "done"
    try:
        finished, _ = await asyncio.wait({work}, timeout=timeout)
        ending = "done" if finished else "timeout"
    except asyncio.CancelledError:
        ending = "cancelled"
    if ending != "done":
        work.cancel()
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            ending = "cancelled"
            work.cancel()
    if work.cancelled():
        return _Outcome(ending, CommandResult(exit_code=None, stopped=True))
    match work.exception():
        case SandboxLost() as lost:
            return _Outcome(ending, CommandResult(exit_code=None), lost)
        case None:
            result = work.result()
            return _Outcome(ending if result.stopped else "done", result)
        case error:
            raise error


def _answer(
    command: str, output: CommandOutput, outcome: _Outcome, timeout: float, rehashed: dict[str, JsonValue]
) -> ToolResult:
    """The result, or the ToolError that carries it."""
    result = outcome.result
    printed = output.finish()
    notes = _notes(result)
    content = (TextPart(text=_with_notes(printed, notes)),)
    blocks = (TerminalBlock(command=command, output=_with_notes(printed, notes[1:]), exit_code=result.exit_code),)
    details: dict[str, JsonValue] = {
        "exit_code": result.exit_code,
        "killed": result.killed,
        "left_running": result.left_running,
        "truncated": output.truncated,
        "bytes": output.bytes,
        "handle": output.handle,
        **rehashed,
    }
    if outcome.lost is not None:
        text = f"The sandbox was lost during the command ({outcome.lost}); what it did is unknown. Check first."
        raise Failed(text, content=(TextPart(text=_with_notes(printed, [text])),), blocks=blocks, details=details)
    stopped = "1 process stopped" if result.killed == 1 else f"{result.killed} processes stopped"
    if outcome.ending == "timeout":
        text = f"Timed out after {timeout:g} s; {stopped}"
        raise TimedOut(text, content=_unless_empty(printed), blocks=blocks, details=details)
    if outcome.ending == "cancelled":
        raise Cancelled(stopped, content=_unless_empty(printed), blocks=blocks, details=details)
    if result.exit_code != 0:
        raise Failed(notes[0].strip("[]"), content=content, blocks=blocks, details=details)
    return ToolResult(content=content, blocks=blocks, details=details)


def _notes(result: CommandResult) -> list[str]:
    """What there is to say beside the output; the first is about the end, empty where that is as usual."""
    end = "" if result.exit_code == 0 else f"[exit code {result.exit_code}]"
    if result.exit_code is None:
        end = "[ended without an exit code]"
    if result.out_of_memory:
        end = f"{end} [the sandbox ran out of memory]".strip()
    notes = [end]
    if result.left_running:
        notes.append(f"[left running: {result.left_running}]")
    return notes + [f"[{notice}]" for notice in result.notices]


def _with_notes(printed: str, notes: list[str]) -> str:
    lines = [printed.rstrip("\n")] if printed.strip() else []
    lines += [note for note in notes if note]
    return "\n".join(lines) or "(no output)"


def _unless_empty(printed: str) -> tuple[TextPart, ...]:
    return (TextPart(text=printed.rstrip("\n")),) if printed.strip() else ()
