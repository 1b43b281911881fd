"""Freezes the sandbox: while somebody needs the workspace unchanged, nothing starts and containers
are paused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.core.errors import EngineError, SandboxError, SandboxLost
from codeagent.sandbox.tasks import run_to_end
from codeagent.sandbox.thaw import FrozenList

if TYPE_CHECKING:  # what stands still on this machine has no engine
    from codeagent.sandbox.engine import Engine

KEEPERS = 2
"""Processes of a container in which nothing runs: the engine's init and the keeper."""
_SHARES_OUR_KERNEL = ("runc", "io.containerd.runc.v2")
_ENDING_SECONDS = 1.0
_TRIES = 3
_MOST_LOOKS = 40
_LOOK_SECONDS = 0.0005
_END_LOOK_SECONDS = 0.005


class FreezeLock:
    """Keeps things from starting while it is held. The first hold stops everything, the last to end
    resumes it."""

    def __init__(
        self, stop: Callable[[], Awaitable[None]], resume: Callable[[], Awaitable[None]]
    ) -> None:
        """`stop` may raise: then `resume` is called too. `resume` must not raise. A cancel cuts
        neither short."""
        self._stop = stop
        self._resume = resume
        self._turn = asyncio.Lock()
        self._holds = 0
        self._activities = 0
        self._released = asyncio.Event()
        self._released.set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def held(self) -> bool:
        return not self._released.is_set()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the lock. Raises what `stop` raises, and CancelledError only after everything was
        resumed."""
        await self._begin()
        try:
            yield
        finally:
            await _uncancelled(self._end)

    async def released(self) -> None:
        """Wait until nobody holds it."""
        while self.held:
            await self._released.wait()

    def begin_activity(self) -> Callable[[], None]:
        """Announce that something starts: the next holder waits until the returned function is
        called.

        Only while not `held`.
        """
        self._activities += 1
        self._quiet.clear()
        return self._activity_ended

    @asynccontextmanager
    async def activity(self) -> AsyncIterator[None]:
        """Wait until nobody holds the lock, and keep the next holder waiting during the block."""
        await self.released()
        moved = self.begin_activity()
        try:
            yield
        finally:
            moved()

    def _activity_ended(self) -> None:
        self._activities -= 1
        if self._activities == 0:
            self._quiet.set()

    async def _begin(self) -> None:
        async with self._turn:
            if self._holds == 0:
                self._released.clear()
                try:
                    await self._quiet.wait()
                    # What the engine was asked happens even if nobody waits for it: resuming must
                    # come after it.
                    await _uncancelled(self._stop)
                except BaseException:
                    await _uncancelled(self._release)
                    raise
            self._holds += 1

    async def _end(self) -> None:
        async with self._turn:
            self._holds -= 1
            if self._holds == 0:
                await self._release()

    async def _release(self) -> None:
        try:
            await self._resume()
        finally:
            self._released.set()


async def _uncancelled(work: Callable[[], Awaitable[None]]) -> None:
    """Await `work` to its end; a cancel during it is raised afterwards."""

    async def whole() -> None:
        await work()

    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    await run_to_end(whole())
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


async def pause(engine: "Engine", container_id: str, frozen: FrozenList) -> None:
    """Pause a container: afterwards nothing runs in it. Raises SandboxLost if that is not
    certain."""
    try:
        frozen.add(containers=[(engine.socket_path, container_id)])
    except OSError as error:
        raise not_paused(f"that cannot be recorded: {error.strerror}") from error
    for left in reversed(range(_TRIES)):
        try:
            await engine.ask("POST", f"/containers/{container_id}/pause")
            return
        except EngineError as error:
            if error.status == 404 or (
                error.status is not None and not await _runs(engine, container_id)
            ):
                return
            if error.status is None or not left:
                raise not_paused(str(error)) from error


def not_paused(reason: str) -> SandboxLost:
    """Return the error for processes that may still be changing the workspace."""
    return SandboxLost(
        f"the sandbox could not be paused ({reason}), so nothing that needs a pause was done; try again"
    )


async def resume(engine: "Engine", container_id: str, frozen: FrozenList) -> bool:
    """Resume a container; False if that failed: then it is removed, at the latest by the next
    start."""
    goes_on = True
    answers = await engine.answers()
    try:
        if answers:
            await engine.ask("POST", f"/containers/{container_id}/unpause")
    except EngineError as error:
        goes_on = error.status in (404, 409)
    if (answers and goes_on) or (answers and await kill(engine, container_id)):
        frozen.remove(containers=[(engine.socket_path, container_id)])
    return answers and goes_on


def process_list(engine: "Engine", container_id: str) -> Path | None:
    """Return the file with the kernel's own list of a container's processes. Blocks.

    None if this machine does not show it: an engine in a virtual machine, a runtime with a kernel
    of its own, or codeagent in a container.
    """
    try:
        facts = engine.call("GET", f"/containers/{container_id}/json")
        groups = (
            Path(f"/proc/{facts['State']['Pid']}/cgroup").read_text(encoding="utf-8").splitlines()
        )
    except (SandboxError, OSError):
        return None
    if facts["HostConfig"]["Runtime"] not in _SHARES_OUR_KERNEL:
        return None
    for _, controllers, path in (group.split(":", 2) for group in groups):
        found = Path(f"/sys/fs/cgroup/{controllers}{path}/cgroup.procs")
        if controllers in ("pids", "") and container_id in path and found.exists():
            return found
    return None


async def is_idle(
    engine: "Engine", container_id: str, processes: Path | None, beside: int = 0
) -> bool:
    """Tell whether only its keepers and `beside` others live in it, without the dead.

    `processes` is what `process_list` returned. The engine, which takes 13 ms to say it, is asked
    only if the kernel's list is not enough. False when in doubt. A command is not asked about
    itself: it may lie.
    """
    if 0 < len(living(processes)) <= KEEPERS + beside:
        return True
    try:
        listed = await engine.ask(
            "GET", f"/containers/{container_id}/top", {"ps_args": "-eo pid,stat"}
        )
    except EngineError as error:
        return error.status == 404
    alive = [state for *_, state in listed["Processes"] if not state.startswith(("Z", "X"))]
    return 0 < len(alive) <= KEEPERS + beside


def living(processes: Path | None) -> frozenset[int]:
    """Return the pids on a container's list (see `process_list`); none without a list or a
    container."""
    try:
        return (
            frozenset()
            if processes is None
            else frozenset(map(int, processes.read_bytes().split()))
        )
    except OSError:
        return frozenset()


def processor_time(processes: Path | None) -> int | None:
    """Return what a container's processes have used of the processors, dead ones included: it grows
    if one runs.

    `processes` is what `process_list` returned. None if this machine does not show it.
    """
    if processes is None:
        return None
    old = Path("/sys/fs/cgroup/pids")
    try:
        if processes.is_relative_to(old):
            accounts = Path("/sys/fs/cgroup/cpuacct") / processes.parent.relative_to(old)
            return int((accounts / "cpuacct.usage").read_bytes())
        used = processes.with_name("cpu.stat").read_bytes().split()
        return int(used[used.index(b"usage_usec") + 1])
    except (OSError, ValueError):
        return None


async def only_keepers(processes: Path | None) -> bool:
    """Tell whether the last of a container's commands has just ended, with all it started; soon, or
    it is False."""
    for _ in range(_MOST_LOOKS):
        if not (alive := living(processes)):
            break
        if len(alive) == KEEPERS:
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def kill(engine: "Engine", container_id: str) -> bool:
    """Kill and remove a container; return whether it is gone."""
    try:
        await engine.ask("DELETE", f"/containers/{container_id}", {"force": 1, "v": 1})
    except EngineError as error:
        if error.status != 409:
            return error.status == 404
    else:
        return True
    try:  # it is being removed already
        await _waited(engine, container_id, "removed", engine.seconds)
    except EngineError as error:
        return error.status == 404
    return True


async def ended(processes: Path | None) -> bool:
    """Tell whether a container whose keeper was let go has ended, by the kernel's list; the engine
    then removes it."""
    for _ in range(_MOST_LOOKS if processes is not None else 0):
        if not living(processes):
            return True
        await asyncio.sleep(_END_LOOK_SECONDS)
    return False


async def is_ending(engine: "Engine", container_id: str) -> bool:
    """Tell whether the container is about to end: its processes end before the engine reports
    it."""
    try:
        await _waited(engine, container_id, "not-running", _ENDING_SECONDS)
    except EngineError as error:
        return error.status is not None
    return True


async def _waited(engine: "Engine", container_id: str, condition: str, seconds: float) -> None:
    path = f"/containers/{container_id}/wait"
    await engine.ask("POST", path, {"condition": condition}, seconds=seconds)


async def _runs(engine: "Engine", container_id: str) -> bool:
    try:
        state = (await engine.ask("GET", f"/containers/{container_id}/json"))["State"]
    except EngineError as error:
        return error.status != 404
    return bool(state["Running"]) and not state["Paused"]
