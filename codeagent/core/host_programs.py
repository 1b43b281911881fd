"""Starts every program that runs on this machine itself: the rows of them all, their limits, and
their end with us.

The table of docs/explanation/host-programs.md says which program each row is, where it starts and
what else limits it.

A limit is set on a program right after its start, not before: to do that in the child makes a start
ten times as expensive, and a wrapper program twice (docs/explanation/host-programs.md has the
figures).
"""

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.programs import path_outside
from codeagent.core.watchdog import MARK, Watchdog

Ends = Literal["ended", "hung up", "left"]
_MINIMAL = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
_PLACES = (
    *("HOME", "SHELL", "TMPDIR", "GH_CONFIG_DIR"),
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XAUTHORITY", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""The variables that are a path, of those and of what programs of ours are given besides."""
_GIB = 1 << 30
NOWHERE = Path("/")
"""Where a program starts that might load code from the folder it starts in: only root can put some
there."""


@dataclass(frozen=True)
class HostProgram:
    """One kind of program that runs on this machine, and what holds for it."""

    name: str
    memory: int | None
    """Bytes of memory of its own that each of its processes may have; None: no limit."""
    ends: Ends = "ended"
    """When this process is killed: ended with all it started, told that its terminal hung up, or
    left running."""


SEARCH = HostProgram("search", _GIB)
GIT_STATUS = HostProgram("git status", 2 * _GIB)
GIT_CHECKPOINTS = HostProgram("git for checkpoints", 2 * _GIB)
GIT_COMMIT = HostProgram("git for commits", 2 * _GIB)
COMMIT_HOOKS = HostProgram("git hooks of the repository", 4 * _GIB)
SERVER = HostProgram("MCP server on the machine", 4 * _GIB)
HOOK = HostProgram("hook", 4 * _GIB)
STATUS_LINE = HostProgram("status command", _GIB)
COMMAND = HostProgram("command without a sandbox", 4 * _GIB)
CLIPBOARD = HostProgram("clipboard", _GIB)
EDITOR = HostProgram("editor", None, "hung up")
EDITOR_WINDOW = HostProgram("graphical editor", None, "left")
BROWSER = HostProgram("browser", None, "left")
NOTIFIER = HostProgram("notifier", _GIB)
CREDENTIALS = HostProgram("Docker's credential helper", _GIB)
PAGE_CONVERTER = HostProgram("converter of web pages", _GIB)
IMAGE_BUILD = HostProgram("image build from packages", 4 * _GIB)
GITHUB = HostProgram("gh", _GIB)
NEW_REPOSITORY = HostProgram("git for a new repository", 2 * _GIB)
VERSION = HostProgram("`--version`", _GIB)
WATCHDOG_PROCESS = HostProgram("watchdog of these programs", None, "left")
THAWING = HostProgram("watchdog of a freeze", _GIB, "left")
ID_MAPPING = HostProgram("mounts with mapped ids", _GIB, "left")
WATCHDOG = Watchdog()


def minimal(
    environment: Mapping[str, str], *more: str, outside: Path | None = None
) -> dict[str, str]:
    """Return the variables that any program may have, and those named by `more`, as far as they are
    set.

    `outside`: no folder of PATH is in this one, and no other of `_PLACES` leads into it.
    """
    names = (*_MINIMAL, *more)
    kept = {name: environment[name] for name in names if name in environment}
    if outside is None:
        return kept
    kept["PATH"] = path_outside(kept.get("PATH", os.defpath), outside)
    return {
        name: value
        for name, value in kept.items()
        if name not in _PLACES or path_outside(value, outside) == value
    }


async def start_program(
    row: HostProgram,
    arguments: Sequence[str | Path],
    *,
    folder: str | Path | None,
    environment: Mapping[str, str],
    mark: str | None = None,
    **streams: Any,
) -> asyncio.subprocess.Process:
    """Start a program of this row; `arguments[0]` is its absolute path, `folder` None is the
    current one.

    `mark` is one of `new_mark`, if the caller needs to know it. Raises OSError, ValueError.
    """
    marked = _marked(row, environment, mark)
    process = await asyncio.create_subprocess_exec(*arguments, cwd=folder, env=marked, **streams)
    set_limits(row, process.pid)
    return process


def open_program(
    row: HostProgram,
    arguments: Sequence[str | Path],
    *,
    folder: str | Path | None,
    environment: Mapping[str, str],
    mark: str | None = None,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Start a program as `start_program` does, without an event loop. Raises OSError,
    ValueError."""
    process: subprocess.Popen[bytes] = subprocess.Popen(
        arguments, cwd=folder, env=_marked(row, environment, mark), **streams
    )
    set_limits(row, process.pid)
    return process


def run_program(
    row: HostProgram,
    arguments: Sequence[str | Path],
    *,
    folder: str | Path | None,
    environment: Mapping[str, str],
    seconds: float,
    data: bytes = b"",
    **streams: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Start a program, give it `data` to read, and wait for its end; it is killed after `seconds`.

    What it leaves running once it has ended is left. Raises OSError, subprocess.SubprocessError.
    """
    mark = new_mark(row)
    piped = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    } | streams
    with open_program(
        row, arguments, folder=folder, environment=environment, mark=mark, **piped
    ) as process:
        try:
            out, errors = process.communicate(data, timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                (os.killpg if streams.get("start_new_session") else os.kill)(
                    process.pid, signal.SIGKILL
                )
            raise
    WATCHDOG.leave(mark)
    return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


async def finish_program(
    row: HostProgram,
    arguments: Sequence[str | Path],
    *,
    folder: str | Path,
    environment: Mapping[str, str],
    seconds: float,
    data: bytes | None = None,
    **streams: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Start a program in a session of its own, give it `data` to read, and wait for its end.

    After `seconds`, or if the wait is cancelled, its session is killed, with what it has left there.
    Raises OSError, TimeoutError.
    """
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    process = await start_program(
        row,
        arguments,
        folder=folder,
        environment=environment,
        stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
        start_new_session=True,
        **piped,
    )
    try:
        async with asyncio.timeout(seconds):
            out, errors = await process.communicate(data)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A program that left the session may hold a pipe, for which `wait` would wait.
        close_pipes(process)
        await process.wait()
        raise
    return subprocess.CompletedProcess(arguments, await process.wait(), out, errors)


def close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close our ends of a process that has ended; a child may hold the others for ever."""
    transport = getattr(process, "_transport", None)  # else it warns while a child holds a pipe
    if transport is not None:
        with suppress(PermissionError, ProcessLookupError):
            transport.close()


def _marked(row: HostProgram, environment: Mapping[str, str], mark: str | None) -> dict[str, str]:
    return {**environment, MARK: mark} if mark else marked_environment(row, environment)


def new_mark(row: HostProgram) -> str:
    """Return a mark for a program about to be started; what has it ends as its row says. Raises
    OSError."""
    return WATCHDOG.mark(hangs_up=row.ends == "hung up")


def marked_environment(row: HostProgram, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment with a mark in it, or without one if it is left running.
    Raises OSError."""
    given = {name: value for name, value in environment.items() if name != MARK}
    return given if row.ends == "left" else given | {MARK: new_mark(row)}


def set_limits(row: HostProgram, pid: int) -> None:
    """Limit a program that has just started, and what it has started already; what they start later
    inherits it.

    Only Linux can. Nobody can limit a set-user-ID program, which runs as somebody else.
    """
    set_limit = getattr(resource, "prlimit", None)
    if set_limit is None or row.memory is None:
        return
    waiting, seen = [pid], set[int]()
    while waiting:
        each = waiting.pop()
        seen.add(each)
        with suppress(ProcessLookupError, PermissionError):
            for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, row.memory)):
                _, hard = set_limit(each, kind)
                least = most if hard == resource.RLIM_INFINITY else min(most, hard)
                set_limit(each, kind, (least, least))
        waiting += _children(each) - seen


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # a Path takes twice as long
            found |= set(map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split()))
    return found
