"""Ends the programs that this process started on this machine once it is gone itself, even by `kill
-9`.

The watchdog is a process of its own that waits for its standard input to end. It finds the programs
and all they started by the mark in their environment, by their parents, and by the session that a
marked one leads. A shell waits, which needs a fraction of Python's memory; it becomes Python with
this file as its program, which therefore imports only the standard library.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "CODEAGENT_CALL"
"""The environment variable that holds a program's mark."""
_HANGS_UP = "-terminal"
"""The end of the mark of a program that gets the hang-up of its terminal, and nothing worse."""
_MARKED = f"{MARK}=".encode()
_WAIT = 'while read -r mark; do set -- "$@" "$mark"; done; exec "$0" "$@"'
"""The shell's program: each line of its input is one more argument for what it becomes."""
_TERM_SECONDS = 2.0
_MOST_SECONDS = 8.0
_STEP = 0.02
_EMPTY_LOOKS = 5
"""Looks in a row that find nothing: a program that is just being started has no environment for a
moment."""


class Watchdog:
    """Marks the programs of this process, and starts the process that ends them when it is first
    needed.

    On a system without /proc it marks programs, but cannot end them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = -1
        self._instance = ""
        self._left: set[str] = set()

    def mark(self, *, hangs_up: bool = False) -> str:
        """Return a new mark for a program about to be started, which ends with this process. Raises
        OSError."""
        with self._lock:
            self._ready()
            return f"{self._instance}-{secrets.token_hex(8)}{_HANGS_UP if hangs_up else ''}"

    def leave(self, mark: str) -> None:
        """Let what has this mark outlive this process: a command has ended and left it running on
        purpose."""
        with self._lock:
            self._left.add(mark)
            self._tell(mark)

    def _ready(self) -> None:
        if self._owner != os.getpid():  # a fork of that process has programs of its own
            self._owner = os.getpid()
            self._instance = secrets.token_hex(8)
            self._left = set()
            self._process = None
        if not Path("/proc/self/environ").exists() or (
            self._process is not None and self._process.poll() is None
        ):
            return
        self._process = _start(self._instance)
        for mark in self._left:
            self._tell(mark)

    def _tell(self, mark: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):  # it has ended: the next one is told again
            self._process.stdin.write(f"{mark}\n".encode())


def _start(instance: str) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own. Raises OSError.

    Its command line does not name this package, so that `pkill -9 -f` with that name leaves it
    alive.
    """
    program = os.open(__file__, os.O_RDONLY | os.O_CLOEXEC)
    python = getattr(sys, "_base_executable", sys.executable)
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _WAIT, python, "-I", "-S", f"/dev/fd/{program}", instance],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={},
            pass_fds=(program,),
            start_new_session=True,
        )
    finally:
        os.close(program)


def end_marked(instance: str, left: frozenset[str]) -> None:
    """End every program with a mark of `instance` and what it started: TERM, and KILL after two
    seconds.

    `left`: marks of programs that are left alone. Those of a terminal get HUP only.
    """
    told: set[tuple[int, signal.Signals]] = set()
    started, empty_looks = time.monotonic(), 0
    while empty_looks < _EMPTY_LOOKS and time.monotonic() < started + _MOST_SECONDS:
        ending, hanging_up = _found(instance, left)
        number = signal.SIGTERM if time.monotonic() < started + _TERM_SECONDS else signal.SIGKILL
        wanted = {(pid, number) for pid in ending} | {(pid, signal.SIGHUP) for pid in hanging_up}
        for pid, each in wanted if number == signal.SIGKILL else wanted - told:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, each)
                os.kill(pid, signal.SIGCONT)  # a stopped one would take no signal but KILL
        told |= wanted
        empty_looks = 0 if ending else empty_looks + 1
        time.sleep(_STEP)


class _Seen(NamedTuple):
    pid: int
    parent: int
    session: int
    mark: str


def _found(instance: str, left: frozenset[str]) -> tuple[set[int], set[int]]:
    """Return the processes to end, and those whose terminal hangs up."""
    everything = [each for each in _processes() if each.mark not in left]
    ours = [each for each in everything if each.mark.startswith(f"{instance}-")]
    hanging_up = _with_descendants(
        {each.pid for each in ours if each.mark.endswith(_HANGS_UP)}, everything
    )
    return _with_descendants(
        {each.pid for each in ours} - hanging_up, everything
    ) - hanging_up, hanging_up


def _with_descendants(found: set[int], everything: list[_Seen]) -> set[int]:
    while more := {each.pid for each in everything if {each.parent, each.session} & found} - found:
        found = found | more
    return found


def _processes() -> Iterator[_Seen]:
    for name in os.listdir("/proc"):  # noqa: PTH208  # a Path takes twice as long
        if not name.isdecimal():
            continue
        try:
            status = Path("/proc", name, "stat").read_bytes().rpartition(b") ")[2].split()
            if status[0] in b"ZX":
                continue
            yield _Seen(int(name), int(status[1]), int(status[3]), _mark_of(name))
        except OSError:
            continue  # it has just ended


def _mark_of(pid: str) -> str:
    """Return the mark of a process; empty if it has none, or is another user's."""
    with suppress(OSError):
        for variable in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
            if variable.startswith(_MARKED):
                return variable[len(_MARKED) :].decode(errors="replace")
    return ""


if __name__ == "__main__":
    end_marked(sys.argv[1], frozenset(sys.argv[2:]))
