"""Runs one command line in the sandbox, from its start to a result that the model and the user can read."""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from codeagent.core.display import TerminalBlock
from codeagent.core.errors import SandboxLost, WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.messages import TextPart, text_of
from codeagent.core.ports import Command, CommandResult, OutputStore, Sandbox, Workspace
from codeagent.core.tool import Cancelled, Failed, InvalidArgs, TimedOut, ToolContext, ToolResult
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.shell.output import CommandOutput

_LONGEST = 3_600
_LONGEST_IN_BACKGROUND = 86_400
OnUpdate = Callable[..., Awaitable[None]]
"""As `ToolContext.on_update`."""
_Ending = Literal["done", "timeout", "cancelled"]


def check_seconds(timeout: float | None, *, background: bool = False) -> None:
    """Raises ValueError for a time limit in seconds that nobody can mean: most likely it is in milliseconds."""
    longest = _LONGEST_IN_BACKGROUND if background else _LONGEST
    if timeout is not None and timeout > longest:
        raise ValueError(
            f"timeout is in seconds, and {timeout:.0f} seconds are {timeout / 3600:.0f} hours; if you mean "
            f"milliseconds, write {timeout / 1000:g}"
        )


@dataclass(frozen=True)
class CommandRun:
    """A command that has ended, or was stopped."""

    command: str
    timeout: float | None
    ending: _Ending
    output: CommandOutput
    result: CommandResult
    lost: SandboxLost | None = None

    def answer(self, more: dict[str, JsonValue]) -> ToolResult:
        """The result, with `more` among its details. Raises the ToolError that carries it where it failed."""
        result = self.result
        printed = self.output.finish()
        notes = _notes(result)
        content = (TextPart(text=_with_notes(printed, notes)),)
        shown = TerminalBlock(command=self.command, output=_with_notes(printed, notes[1:]), exit_code=result.exit_code)
        blocks, details = (shown,), self._details() | more
        if self.lost is not None:
            text = f"The sandbox was lost during the command ({self.lost}); what it did is unknown. Check first."
            raise Failed(text, content=(TextPart(text=_with_notes(printed, [text])),), blocks=blocks, details=details)
        stopped = "1 process stopped" if result.killed == 1 else f"{result.killed} processes stopped"
        if self.ending == "timeout":
            text = f"Timed out after {self.timeout:g} s; {stopped}"
            raise TimedOut(text, content=_unless_empty(printed), blocks=blocks, details=details)
        if self.ending == "cancelled":
            raise Cancelled(stopped, content=_unless_empty(printed), blocks=blocks, details=details)
        if result.exit_code != 0:
            raise Failed(notes[0].strip("[]"), content=content, blocks=blocks, details=details)
        return ToolResult(content=content, blocks=blocks, details=details)

    def _details(self) -> dict[str, JsonValue]:
        return {
            "exit_code": self.result.exit_code,
            "killed": self.result.killed,
            "left_running": self.result.left_running,
            "truncated": self.output.truncated,
            "bytes": self.output.bytes,
            "handle": self.output.handle,
        }


async def run_for_model(
    sandbox: Sandbox,
    command: Command,
    ctx: ToolContext,
    outputs: OutputStore,
    reads: ReadTracker,
    *,
    title: str | None = None,
) -> ToolResult:
    """Run it and answer with what it printed; lines of files in the output count as read.

    `title` is what the user is shown as the command. The output of a job does not count: it is not in this result.
    Raises SandboxUnavailable, and what `CommandRun.answer` raises.
    """
    run = await run_command(sandbox, command, outputs, ctx.on_update)
    shown: dict[str, JsonValue] = {}
    if not ctx.is_job():
        shown = await asyncio.to_thread(reads.printed, command.text, run.output.finish())
    if run.result.exit_code and (help_ := await asyncio.to_thread(_import_help, run.output.finish(), ctx.workspace)):
        run = replace(run, result=replace(run.result, notices=(*run.result.notices, help_)))
    return (run if title is None else replace(run, command=title)).answer(shown)


async def run_command(
    sandbox: Sandbox, command: Command, outputs: OutputStore, on_update: OnUpdate, timeout: float | None = None
) -> CommandRun:
    """Run to the end, to the timeout (seconds) or to the cancel, and wait until everything has stopped.

    A cancel shows in the result's `ending`, not as CancelledError. Raises SandboxUnavailable.
    """
    output = CommandOutput(lambda: outputs.create(command.call_id))
    work = asyncio.ensure_future(sandbox.run(command, _Live(output, on_update)))
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
        return CommandRun(command.text, timeout, ending, output, CommandResult(exit_code=None, stopped=True))
    match work.exception():
        case SandboxLost() as lost:
            return CommandRun(command.text, timeout, ending, output, CommandResult(exit_code=None), lost)
        case None:
            result = work.result()
            return CommandRun(command.text, timeout, ending if result.stopped else "done", output, result)
        case error:
            raise error


_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]{1,100})'")
_ENVIRONMENTS = (".venv", "venv", "env")
_LISTS = (
    "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "requirements.txt", "pyproject.toml",
    "setup.py",
)  # fmt: skip
"""Files that say what a project of Python needs, the most exact first."""


def _import_help(printed: str, workspace: Workspace) -> str:
    """What would help if an import failed and the project has, or lists, what it needs; else empty."""
    missing = _NO_MODULE.search(printed)
    if missing is None:
        return ""
    if name := _first_file(workspace, [f"{folder}/pyvenv.cfg" for folder in _ENVIRONMENTS]):
        python = name.replace("pyvenv.cfg", "bin/python")
        return f"Python has no module {missing[1]}; {python} may have it: it is the project's own environment"
    if name := _first_file(workspace, _LISTS):
        return (
            f"Python has no module {missing[1]}, and the project has no virtual environment here; {name} says what it "
            "needs: ask the user to install it into .venv, or install it there in a command with network access"
        )
    return ""


def _first_file(workspace: Workspace, names: Iterable[str]) -> str:
    for name in names:
        try:
            if workspace.stat(name).kind == "file":
                return name
        except WorkspaceError:
            continue
    return ""


class _Live:
    """Passes output on as it comes."""

    def __init__(self, output: CommandOutput, on_update: OnUpdate) -> None:
        self._output = output
        self._on_update = on_update

    async def __call__(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if text := self._output.feed(stream, data):
            await self._on_update(text, stream)


def _notes(result: CommandResult) -> list[str]:
    """Notes besides the output; the first is about how it ended, empty if that is as usual."""
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


class CommandRunner:
    """`ToolContext.run` of one call: runs commands in the sandbox for a user-defined tool."""

    def __init__(self, ctx: ToolContext, outputs: OutputStore) -> None:
        self._ctx = ctx
        self._outputs = outputs

    async def __call__(
        self, command: str | Sequence[str], *, timeout: float | None = None, hosts: tuple[str, ...] = ()
    ) -> str:
        ctx = self._ctx
        if ctx.sandbox is None:
            raise Failed("there is no sandbox, so this tool cannot run commands; nothing was run")
        text = command if isinstance(command, str) else shlex.join(command)
        if not text.strip() or "\0" in text:
            raise InvalidArgs("the command is empty" if not text.strip() else "a command cannot hold a NUL character")
        asked = Command(text, ctx.call_id, ctx.read_only, tuple(hosts))
        run = await run_command(ctx.sandbox, asked, self._outputs, ctx.on_update, timeout)
        return text_of(run.answer({}).content)
