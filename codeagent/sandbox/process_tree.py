"""Finds, pauses and stops the processes of a command on this machine: by its mark, its session, or
their parents."""

import asyncio
import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

from codeagent.core.dataclass import dataclass
from codeagent.core.watchdog import MARK
from codeagent.sandbox.freeze import not_paused
from codeagent.sandbox.thaw import FrozenList

_TERM_SECONDS = 2.0
_KILL_SECONDS = 2.0
_PAUSE_SECONDS = 1.0
_STEP = 0.02
_PAUSE_STEP = 0.002
_MARKED = f"{MARK}=".encode()
_LOOKS_AGAIN = 8
_AGAIN_SECONDS = 0.0005
"""Between two looks at processes without an environment; an `execve` takes a fraction of it."""
_KERNEL_THREAD = 0x200000
"""The flag in /proc/PID/stat."""
_STOPPED = "Tt"
_OVER = "ZX"


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    session: int
    state: str
    started: int
    """In ticks since boot: together with the pid it identifies the process for ever."""
    marks: frozenset[bytes]


class ProcessTree:
    """A command's processes, while it runs and after."""

    def __init__(self, leader: int, mark: str, since: int = 0) -> None:
        """`since`: ticks since boot, see `ticks`, before the leader was started; nothing older has
        its mark."""
        self._leader = leader
        self.since = since
        self._mark = f"{MARK}={mark}".encode()
        self.left: frozenset[tuple[int, int]] = frozenset()
        """Pid and start of what the command left behind; only after `ended`."""
        self.runs = True

    def ended(self) -> int:
        """Note that the leader has ended; return how many processes it left behind."""
        self.left = frozenset(
            (process.pid, process.started) for process in self.members(tuple(processes(self.since)))
        )
        self.runs = False
        return len(self.left)

    def members(self, everything: tuple[_Process, ...]) -> tuple[_Process, ...]:
        """Return the tree's processes; the session counts only while the command runs: its number
        may be reused."""
        found = {
            process.pid: process
            for process in everything
            if self._mark in process.marks
            or (self.runs and process.session == self._leader)
            or (process.pid, process.started) in self.left
        }
        while more := [
            each for each in everything if each.parent in found and each.pid not in found
        ]:
            found |= {process.pid: process for process in more}
        return tuple(found.values())


def living(trees: Collection[ProcessTree]) -> set[ProcessTree]:
    """Return the trees that run or still have processes."""
    everything = tuple(processes(_since(trees))) if trees else ()
    return {tree for tree in trees if tree.runs or tree.members(everything)}


async def stop_all(process: asyncio.subprocess.Process, tree: ProcessTree) -> int:
    """Send TERM, and KILL after two seconds, to everything the command started; return how many
    there were."""
    seen: set[int] = set()
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        end = time.monotonic() + seconds
        signalled: set[int] = set()
        while (pids := _pids(tree)) and time.monotonic() < end:
            for pid in pids if number == signal.SIGKILL else pids - signalled:
                _signal(pid, number)
            signalled |= pids
            seen |= pids
            await asyncio.sleep(_STEP)
    if process.returncode is None:
        _signal(-process.pid, signal.SIGKILL)
    return len(seen)


async def pause_all(
    trees: Collection[ProcessTree], frozen: FrozenList
) -> frozenset[tuple[int, int]]:
    """Stop all running processes; return the pids and starts of those to resume, which are recorded
    first.

    Raises SandboxLost if some cannot be stopped; then those that were stopped are resumed.
    """
    if next(processes(), None) is None:
        raise not_paused("this system does not list its processes")
    stopped: set[tuple[int, int]] = set()
    end = time.monotonic() + _PAUSE_SECONDS
    try:
        while running := _running(trees):
            if time.monotonic() > end:
                raise not_paused(f"{len(running)} processes did not stop")
            try:
                frozen.add(running - stopped)
            except OSError as error:
                raise not_paused(f"that cannot be recorded: {error.strerror}") from error
            for pid, _ in running - stopped:
                _signal(pid, signal.SIGSTOP)
            stopped |= running
            await asyncio.sleep(_PAUSE_STEP)
    except BaseException:
        resume_all(stopped, frozen)
        raise
    return frozenset(stopped)


def resume_all(stopped: Collection[tuple[int, int]], frozen: FrozenList) -> None:
    for pid, _ in stopped:
        _signal(pid, signal.SIGCONT)
    frozen.remove(stopped)


def processes(since: int = 0) -> Iterator[_Process]:
    """Yield all living processes of this machine, those that are older than `since` without marks.

    None if there is no /proc. During `execve` a process has no environment for a moment, so one
    without is looked at again.
    """
    try:
        names = [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208  # a Path takes twice as long
    except OSError:
        return
    for last in (*[False] * _LOOKS_AGAIN, True):
        unsure = []
        for name in names:
            try:
                found = _look(name, since, sure=last)
            except OSError:
                continue
            if found is None:
                unsure.append(name)
            elif found.state not in _OVER:
                yield found
        if not unsure:
            return
        names = unsure
        time.sleep(_AGAIN_SECONDS)


def _look(name: str, since: int, *, sure: bool) -> _Process | None:
    """Return what /proc says of a process; None if it has no environment, unless `sure`. Raises
    OSError."""
    fields = _read(f"/proc/{name}/stat").rpartition(b") ")[2].split()
    state = fields[0].decode()
    started = int(fields[19])
    environment = b""
    if started >= since and state not in _OVER and not int(fields[6]) & _KERNEL_THREAD:
        with suppress(ProcessLookupError):  # it has none at all for an even shorter moment
            environment = _read(f"/proc/{name}/environ")
        if not environment and not sure:
            return None
    words = environment.split(b"\0") if _MARKED in environment else []
    marks = frozenset(word for word in words if word.startswith(_MARKED))
    return _Process(int(name), int(fields[1]), int(fields[3]), state, started=started, marks=marks)


def ticks() -> int:
    """Return the ticks since boot, by the clock of a process's start, and one less: the kernel
    rounds down.

    Return 0 on a system without such a clock, which has no list of processes either.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0 if clock is None else int(time.clock_gettime(clock) * os.sysconf("SC_CLK_TCK")) - 1


def _since(trees: Collection[ProcessTree]) -> int:
    return min((tree.since for tree in trees), default=0)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # as above
        return file.readall()


def _pids(tree: ProcessTree) -> set[int]:
    return {process.pid for process in tree.members(tuple(processes(tree.since)))}


def _running(trees: Collection[ProcessTree]) -> set[tuple[int, int]]:
    everything = tuple(processes(_since(trees)))
    members = {process for tree in trees for process in tree.members(everything)}
    return {(process.pid, process.started) for process in members if process.state not in _STOPPED}


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
