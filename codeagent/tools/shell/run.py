"""Runs one command line in the sandbox, and collects its output in bounded memory for the model and
the store."""

import asyncio
import codecs
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.display import TerminalBlock
from codeagent.core.errors import SandboxLost, WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.memory import OutputSink, OutputStore
from codeagent.core.messages import STREAMS, OutputStream, TextPart, text_of
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import Command, CommandResult, RunsCommands
from codeagent.core.tool import (
    Cancelled,
    Denied,
    Failed,
    InvalidArgs,
    TimedOut,
    ToolContext,
    ToolResult,
)
from codeagent.tools.edit.reads import ReadTracker

_KEPT = 64 * 1024
"""Raw characters kept at each end, from which the model's text is cut."""
_LONGEST_LINE = 64 * 1024
_ESCAPES = lazy_regex(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_OVERWRITTEN = lazy_regex(r"[^\n]*\r(?=[^\n])")
_ERASED = lazy_regex(r"[^\n\x08]\x08")
_CONTROLS = lazy_regex(r"[\x00-\x08\x0b-\x1f\x7f]")
DEFAULT_SECONDS = 120.0
MOST_SECONDS = 600.0
"""The longest time limit of a model's command, in seconds; a longer one is reduced to it."""
_LONGEST_TIMEOUT = 3_600
_LONGEST_JOB = 86_400
OnUpdate = Callable[..., Awaitable[None]]
"""As `ToolContext.on_update`."""
_Ending = Literal["done", "timeout", "cancelled"]
_NO_MODULE = lazy_regex(r"ModuleNotFoundError: No module named '([\w.]{1,100})'")
_GIT_HELD = lazy_regex(r"\.git\b[^\n]{0,300}: Read-only file system")
_GIT_HELP = (
    "git in bash only reads, so add, commit, stash and checkout fail; git_commit commits, and anything else is for the "
    "user to do: ask"
)
_ENVIRONMENTS = (".venv", "venv", "env")
_LISTS = (
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "Pipfile.lock",
    "pylock.toml",
    "requirements.txt",
    "pyproject.toml",
    "setup.py",
)
"""Files that list what a Python project needs, the most exact first."""


class CommandOutput:
    """Collects a command's bytes; streams that are told apart are not mixed within a line."""

    def __init__(
        self, open_sink: Callable[[], OutputSink], head: int = 16_000, tail: int = 16_000
    ) -> None:
        """`open_sink` is called once there is more than the model is shown; sizes are
        characters."""
        self._open_sink = open_sink
        self._head_size = head
        self._tail_size = tail
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("backslashreplace") for stream in STREAMS
        }
        self._unfinished: dict[OutputStream, str] = dict.fromkeys(STREAMS, "")
        self._head: list[str] = []
        self._head_length = 0
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._sink: OutputSink | None = None
        self._text: str | None = None
        self.bytes = 0
        self.characters = 0
        self.lines = 0
        self.truncated = False
        self.lines_left_out = 0
        """How many lines the text for the model leaves out."""

    @property
    def handle(self) -> str | None:
        """The id of the full output; None if the model has all of it."""
        return None if self._sink is None else self._sink.handle

    def feed(self, stream: OutputStream, data: bytes) -> str:
        """Add the next bytes, and return their text for watchers."""
        self.bytes += len(data)
        text = self._decoders[stream].decode(data)
        whole = self._unfinished[stream] + text
        cut = whole.rfind("\n") + 1
        if not cut and len(whole) > _LONGEST_LINE:
            cut = len(whole)
        self._unfinished[stream] = whole[cut:]
        self._add(whole[:cut])
        return text

    def finish(self) -> str:
        """Add unfinished lines, close the stored copy, and return the text for the model."""
        if self._text is not None:
            return self._text
        for stream in self._unfinished:
            rest = self._unfinished[stream] + self._decoders[stream].decode(b"", final=True)
            self._unfinished[stream] = ""
            self._add(rest)
        self._text = self._for_model()
        if self._sink is not None:
            self._sink.close()
        return self._text

    def _add(self, text: str) -> None:
        if not text:
            return
        self.characters += len(text)
        self.lines += text.count("\n")
        if self._sink is not None:
            self._sink.write(text)
        room = _KEPT - self._head_length
        if room > 0:
            self._head.append(text[:room])
            self._head_length += len(self._head[-1])
            text = text[room:]
        if not text:
            return
        self._tail.append(text[-_KEPT:])
        self._tail_length += len(self._tail[-1])
        if self._tail_length <= _KEPT:
            return
        if self._sink is None:
            self._spill()
        while self._tail_length - len(self._tail[0]) >= _KEPT:
            self._tail_length -= len(self._tail.popleft())

    def _spill(self) -> None:
        """Write everything so far to the store; called before the first piece is dropped."""
        self._sink = self._open_sink()
        self._sink.write("".join([*self._head, *self._tail]))

    def _for_model(self) -> str:
        head, tail = "".join(self._head), "".join(self._tail)
        complete = self.characters == len(head) + len(tail)
        if complete:
            text = readable(head + tail)
            if len(text) <= self._head_size + self._tail_size:
                return text
            if self._sink is None:
                self._spill()
            first, last = text[: self._head_size], text[-self._tail_size :]
        else:
            first, last = readable(head)[: self._head_size], readable(tail)[-self._tail_size :]
        self.truncated = True
        first, last = first[: first.rfind("\n") + 1] or first, last[last.find("\n") + 1 :] or last
        self.lines_left_out = max(self.lines - first.count("\n") - last.count("\n"), 0)
        left_out = max(self.characters - len(first) - len(last), 0)
        return (
            f"{first}[… about {left_out} of {self.characters} characters left out ({self.lines} lines in all); "
            f'output_read(id="{self.handle}") shows them …]\n{last}'
        )


def readable(text: str) -> str:
    """Return the text without escape sequences; of an overwritten line, only its last state."""
    plain = (
        _ESCAPES.sub("", text).replace("\r\n", "\n")
        if "\x1b" in text
        else text.replace("\r\n", "\n")
    )
    if "\r" in plain:
        plain = _OVERWRITTEN.sub("", plain)
    if "\x08" in plain:
        before = ""
        while before != plain:
            before, plain = plain, _ERASED.sub("", plain)
    return _CONTROLS.sub("", plain)


def check_seconds(timeout: float | None, *, background: bool = False) -> None:
    """Raise ValueError for a time limit that is most likely in milliseconds instead of seconds."""
    longest = _LONGEST_JOB if background else _LONGEST_TIMEOUT
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
        """Return the result, with `more` among its details. Raises a ToolError with the result if
        it failed."""
        result = self.result
        printed = self.output.finish()
        notes = _notes(result)
        content = (TextPart(text=_with_notes(printed, notes)),)
        shown = TerminalBlock(
            command=self.command, output=_with_notes(printed, notes[1:]), exit_code=result.exit_code
        )
        blocks, details = (
            (shown,),
            more
            | {
                "exit_code": result.exit_code,
                "killed": result.killed,
                "left_running": result.left_running,
                "truncated": self.output.truncated,
                "lines_left_out": self.output.lines_left_out,
                "bytes": self.output.bytes,
                "handle": self.output.handle,
            }
            | ({} if result.changed is None else {"files_changed": result.changed})
            | ({"landed": dict(result.landed)} if result.landed else {}),
        )
        if self.lost is not None:
            text = f"The sandbox was lost during the command ({self.lost}); what it did is unknown. Check first."
            raise Failed(
                text,
                content=(TextPart(text=_with_notes(printed, [text])),),
                blocks=blocks,
                details=details,
            )
        kept = _unless_empty(_with_notes(printed, notes[1:]) if result.notices else printed)
        stopped = (
            "1 process stopped" if result.killed == 1 else f"{result.killed} processes stopped"
        )
        if self.ending == "timeout":
            text = f"Timed out after {self.timeout:g} s; {stopped}"
            raise TimedOut(text, content=kept, blocks=blocks, details=details)
        if self.ending == "cancelled":
            raise Cancelled(stopped, content=kept, blocks=blocks, details=details)
        if result.denied:
            raise Denied(result.denied, content=content, blocks=blocks, details=details)
        if result.exit_code != 0:
            raise Failed(notes[0].strip("[]"), content=content, blocks=blocks, details=details)
        return ToolResult(content=content, blocks=blocks, details=details)


def first_line(text: str) -> str:
    """Return what a list shows of a command: its first line, and whether there are more."""
    first, _, rest = text.strip().partition("\n")
    return f"{first} …" if rest.strip() else first


async def run_for_model(
    command: Command,
    ctx: ToolContext,
    outputs: OutputStore,
    reads: ReadTracker,
    *,
    title: str | None = None,
) -> ToolResult:
    """Run a command in the call's sandbox and return its output; lines of files in the output count
    as read.

    `title` is what the user is shown as the command. The output of a job does not count: it is not
    in this result. Raises SandboxUnavailable, Failed without a sandbox, and whatever
    `CommandRun.answer` raises.
    """
    if ctx.sandbox is None:
        raise Failed(f"without a sandbox, {ctx.name} cannot run; the file tools still work")
    run = await run_command(ctx.sandbox, command, outputs, ctx.on_update)
    shown: dict[str, JsonValue] = {}
    if not ctx.is_job():
        shown = await asyncio.to_thread(reads.printed, command.text, run.output.finish())
    if run.result.exit_code and (
        help_ := await asyncio.to_thread(_help, run.output.finish(), ctx.workspace)
    ):
        run = replace(run, result=replace(run.result, notices=(*run.result.notices, help_)))
    return (run if title is None else replace(run, command=title)).answer(shown)


async def run_command(
    sandbox: RunsCommands,
    command: Command,
    outputs: OutputStore,
    on_update: OnUpdate,
    timeout: float | None = None,
) -> CommandRun:
    """Run to the end, to the timeout (seconds) or to the cancel, and wait until everything has
    stopped.

    A cancel shows in the result's `ending`, not as CancelledError. Raises SandboxUnavailable.
    """
    output = CommandOutput(lambda: outputs.create(command.call_id))

    async def pass_on(stream: OutputStream, data: bytes) -> None:
        if text := output.feed(stream, data):
            await on_update(text, stream)

    work = asyncio.ensure_future(sandbox.run(command, pass_on))
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
        return CommandRun(
            command.text, timeout, ending, output, CommandResult(exit_code=None, stopped=True)
        )
    match work.exception():
        case SandboxLost() as lost:
            return CommandRun(
                command.text, timeout, ending, output, CommandResult(exit_code=None), lost=lost
            )
        case None:
            result = work.result()
            return CommandRun(
                command.text, timeout, ending if result.stopped else "done", output, result
            )
        case error:
            raise error


def _help(printed: str, workspace: Workspace) -> str:
    """Return a hint if git could not write, or if an import failed and the project has, or lists,
    what it needs; else an empty text."""
    if _GIT_HELD.search(printed):
        return _GIT_HELP
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


def _notes(result: CommandResult) -> list[str]:
    """Return notes besides the output; the first says how it ended, and is empty if normally."""
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


async def run_for_tool(
    ctx: ToolContext,
    outputs: OutputStore,
    command: str | Sequence[str],
    *,
    timeout: float | None = None,
    hosts: tuple[str, ...] = (),
) -> str:
    """Run a command in the sandbox for a user-defined tool: `ToolContext.run` of one call. Raises
    ToolError."""
    if ctx.sandbox is None:
        raise Failed("without a sandbox, this tool cannot run commands; nothing was run")
    text = command if isinstance(command, str) else shlex.join(command)
    if not text.strip() or "\0" in text:
        raise InvalidArgs(
            "the command is empty"
            if not text.strip()
            else "a command cannot contain a NUL character"
        )
    asked = Command(text, ctx.call_id, ctx.read_only, tuple(hosts))
    run = await run_command(ctx.sandbox, asked, outputs, ctx.on_update, timeout)
    return text_of(run.answer({}).content)
