"""Starts every program that runs on this machine itself: the table of them all, their limits, and
their end with us.

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
_FOLDERS = ("HOME", "SHELL", "TMPDIR")
"""Those of them that are a path."""
_GIB = 1 << 30
NOWHERE = Path("/")
"""Where a program starts that might load code from the folder it starts in: only root can put some
there."""


@dataclass(frozen=True)
class HostProgram:
    """One kind of program that runs on this machine, and what holds for it."""

    name: str
    modules: tuple[str, ...]
    """Those that start it, below `codeagent`."""
    found: str
    """Which program it is, and where it is looked for."""
    folder: str
    environment: str
    memory: int | None
    """Bytes of memory of its own that each of its processes may have; None: no limit."""
    bounds: str
    """What else limits it: time, output."""
    ends: Ends
    """When this process is killed: ended with all it started, told that its terminal hung up, or
    left running."""


_PATH = "on `PATH`, in absolute folders outside the workspace"
_OWN_GIT = "git's own variables; no configuration of the user, the system or the repository"
SEARCH = HostProgram(
    "search",
    ("tools.ripgrep",),
    f"`rg` installed with codeagent, else {_PATH}",
    "the workspace, by its descriptor: `rg` reads no configuration and loads no code",
    "`LC_ALL` only",
    _GIB,
    "files up to 16 MiB, 60 s; stops at the last match that is shown",
    "ended",
)
GIT_STATUS = HostProgram(
    "git status",
    ("workspace.git_status",),
    f"`git` {_PATH}",
    "an empty git directory of ours; the workspace is only its work tree",
    _OWN_GIT,
    2 * _GIB,
    "5 s; its output is counted, not kept",
    "ended",
)
GIT_CHECKPOINTS = HostProgram(
    "git for checkpoints",
    ("workspace.snapshots.store", "workspace.snapshots.coverage"),
    f"`git` {_PATH}",
    "the store of the checkpoints, outside the workspace",
    f"{_OWN_GIT}; the user's only to read `core.excludesFile`",
    2 * _GIB,
    "files up to 20 MiB, 2 GiB in all; 20 s to read the index",
    "ended",
)
GIT_COMMIT = HostProgram(
    "git for commits",
    ("workspace.git",),
    f"`git` {_PATH}",
    "the workspace, because git takes paths relative to it; the git directory is ours",
    _OWN_GIT,
    2 * _GIB,
    "60 s; files up to 100 MiB",
    "ended",
)
COMMIT_HOOKS = HostProgram(
    "git hooks of the repository",
    ("workspace.commits",),
    f"`git` {_PATH}, then the repository's own hooks; only with `commit_hooks`",
    "the top of the repository, as git runs hooks: they are its code, and you allowed them",
    "yours without git's variables, as from your shell",
    4 * _GIB,
    "300 s for each",
    "ended",
)
SERVER = HostProgram(
    "MCP server on the machine",
    ("sandbox.programs",),
    f"{_PATH}, or the absolute path in your configuration",
    "an empty folder of its own; the workspace only if its configuration says so",
    "a minimal one without folders of the workspace, and the variables of its configuration",
    4 * _GIB,
    "the size of a message",
    "ended",
)
HOOK = HostProgram(
    "hook",
    ("agent.hooks.command",),
    f"{_PATH}, or the absolute path in your configuration",
    "`/`; the workspace only with `in_workspace`",
    "a minimal one without folders of the workspace, `CODEAGENT_WORKSPACE`, and the `variables` that you name",
    4 * _GIB,
    "10 s, 1 MiB of output",
    "ended",
)
COMMAND = HostProgram(
    "command without a sandbox",
    ("sandbox.host",),
    f"`bash` {_PATH}",
    "the workspace: you approved the command, and it means files there",
    "yours without secrets",
    4 * _GIB,
    "the time limit of the call; what is left running after its end stays",
    "ended",
)
EDITOR = HostProgram(
    "editor",
    ("tui.parts.external_editor",),
    f"`$VISUAL` or `$EDITOR`: {_PATH}, or an absolute path",
    "the folder that you started codeagent in, like its terminal",
    "yours: it is the program that you use in this terminal",
    None,
    "none",
    "hung up",
)
BROWSER = HostProgram(
    "browser",
    ("extensions.mcp.browser",),
    f"`$BROWSER`, `xdg-open` or `open`: {_PATH}, or an absolute path",
    "`/`",
    "yours: it is the browser that you use",
    None,
    "none",
    "left",
)
CREDENTIALS = HostProgram(
    "Docker's credential helper",
    ("sandbox.credentials",),
    f"`docker-credential-NAME` as `~/.docker/config.json` names it, {_PATH}",
    "`/`",
    "yours: it asks your own key store",
    _GIB,
    "60 s",
    "ended",
)
PAGE_CONVERTER = HostProgram(
    "converter of web pages",
    ("extensions.web.markdown",),
    "this Python",
    "`/`",
    "a minimal one, and where Python finds its modules",
    _GIB,
    "20 s of processor time",
    "ended",
)
IMAGE_BUILD = HostProgram(
    "image build from packages",
    ("sandbox.image",),
    f"`debootstrap` and `tar` {_PATH}; only for `codeagent sandbox build --offline`",
    "`/`",
    "a minimal one, and the proxy's variables",
    4 * _GIB,
    "none: you see each step",
    "ended",
)
NEW_REPOSITORY = HostProgram(
    "git for a new repository",
    ("commands.demo",),
    f"`git` {_PATH}",
    "the new folder, which codeagent has just filled itself",
    "a minimal one without git's variables and configuration",
    2 * _GIB,
    "600 s",
    "ended",
)
VERSION = HostProgram(
    "`--version`",
    ("commands.doctor",),
    f"`git` and `rg` {_PATH}",
    "`/`",
    "`LC_ALL` only",
    _GIB,
    "10 s",
    "ended",
)
WATCHDOG_PROCESS = HostProgram(
    "watchdog of these programs",
    ("core.watchdog",),
    "`/bin/sh`, which becomes this Python with its own library only",
    "`/`",
    "empty",
    None,
    "10 s after the end of codeagent",
    "left",
)
THAWING = HostProgram(
    "watchdog of a freeze",
    ("sandbox.thaw",),
    "this Python, with its own library only",
    "`/`",
    "empty",
    _GIB,
    "none: it waits for codeagent to end, and ends then",
    "left",
)
ID_MAPPING = HostProgram(
    "mounts with mapped ids",
    ("sandbox.work_user",),
    "this Python, with its own library only; only as root, for a workspace that belongs to root",
    "`/`",
    "empty",
    _GIB,
    "none: it waits until the container has started or codeagent ends, and ends then",
    "left",
)
HOST_PROGRAMS = (
    SEARCH,
    GIT_STATUS,
    GIT_CHECKPOINTS,
    GIT_COMMIT,
    COMMIT_HOOKS,
    SERVER,
    HOOK,
    COMMAND,
    EDITOR,
    BROWSER,
    CREDENTIALS,
    PAGE_CONVERTER,
    IMAGE_BUILD,
    NEW_REPOSITORY,
    VERSION,
    WATCHDOG_PROCESS,
    THAWING,
    ID_MAPPING,
)
WATCHDOG = Watchdog()


def minimal(
    environment: Mapping[str, str], *more: str, outside: Path | None = None
) -> dict[str, str]:
    """Return the variables that any program may have, and those named by `more`, as far as they are
    set.

    `outside`: no folder of PATH is in this one, and no other variable that any program may have
    leads into it.
    """
    kept = {name: environment[name] for name in _MINIMAL if name in environment}
    if outside is not None:
        kept["PATH"] = path_outside(kept.get("PATH", os.defpath), outside)
        kept = {
            n: value
            for n, value in kept.items()
            if n not in _FOLDERS or path_outside(value, outside) == value
        }
    return kept | {name: environment[name] for name in more if name in environment}


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
