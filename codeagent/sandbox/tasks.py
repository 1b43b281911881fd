"""Runs blocking work in threads, carries work through to its end, and keeps it within the room on
the disk."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sandbox import CommandResult

T = TypeVar("T")
GIB = 1024**3
LONGEST_ARGUMENT = 100_000
"""Bytes of a command that is an argument of bash (the kernel's limit is 128 KiB); it reads longer
ones from a file."""
DRAIN_SECONDS = 0.2
"""How long to wait for output once the command has ended."""
_TELL_SECONDS = 2.0
LOOK_SECONDS = 0.5
_MUST_STAY_FREE = GIB
_MOST_TAKEN = 5 * GIB
_ALWAYS_TAKEN = GIB // 64
"""What a command may take even if less than `_MUST_STAY_FREE` was left before it."""


async def in_thread(work: Callable[[], T], unwanted: Callable[[T], None] = lambda _: None) -> T:
    """Run `work` in a thread that never keeps the program from ending; return its result.

    If the caller is cancelled before that, `unwanted` gets the result.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            if error is None:
                unwanted(result)  # type: ignore[arg-type]  # without an error it is the result
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # without an error it is the result

    def target() -> None:
        result = None
        error = None
        try:
            result = work()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            if error is None:
                unwanted(result)  # type: ignore[arg-type]  # the loop is closed; nobody is waiting

    threading.Thread(target=target, name="sandbox", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        if not future.cancelled() and future.exception() is None:
            unwanted(future.result())  # it came in the same moment
        raise


async def finish_left(state_dir: Path, root: Path) -> tuple[str, ...]:
    """Finish landings in the workspace that killed processes had begun, see
    `layers.finish_landings`; also if the caller is cancelled, as by a run that ends at once."""
    if not (state_dir / "sandbox" / "layers").exists():
        return ()
    from codeagent.sandbox.layers import finish_landings  # only if a command was tried out

    return await run_to_end(in_thread(partial(finish_landings, state_dir, root)))


@asynccontextmanager
async def report_waiting(
    what: str, tell: Callable[[str], None]
) -> AsyncIterator[Callable[[str], None]]:
    """Report every two seconds, until the block ends, what is being waited for and for how long.

    What it gives reports progress, from any thread; from then on that is what is being waited for.
    """
    loop = asyncio.get_running_loop()
    doing = what

    def report(text: str) -> None:
        nonlocal doing
        doing = text
        loop.call_soon_threadsafe(tell, text)

    async def again() -> None:
        began = loop.time()
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            tell(f"{doing} ({loop.time() - began:.0f} s)")

    task = asyncio.create_task(again())
    try:
        yield report
    finally:
        task.cancel()


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` even while this task is being cancelled; the caller must know that it ends
    soon."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    return task.result()


def started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work in the background; its error is raised to whoever awaits the task, and otherwise
    dropped."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


async def all_done(*work: Awaitable[object]) -> None:
    """Wait until every one has ended, however; then raise what the first that failed raised."""
    for end in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(end, BaseException):
            raise end


@contextmanager
def keeping(problem: str) -> Iterator[None]:
    """Raise SandboxUnavailable with the problem, and why, if a file of the sandbox's own cannot be
    kept."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(
            f"{problem} ({error.strerror})",
            "make it writable, or set XDG_STATE_HOME to a folder that is",
        ) from error


class Room:
    """The room on the file systems of some folders, and how much of it may be taken from now on."""

    def __init__(self, *folders: Path) -> None:
        self._before = {folder: free_bytes(folder) for folder in folders}

    def exceeded(self) -> str:
        """Return why commands must be stopped, as a phrase; empty while they need not."""
        return next(filter(None, map(self._exceeded, self._before)), "")

    def taken(self) -> int:
        """Return how many bytes less are free than before, on the file system where that is
        most."""
        return max(before - free_bytes(folder) for folder, before in self._before.items())

    def _exceeded(self, folder: Path) -> str:
        free = free_bytes(folder)
        taken = self._before[folder] - free
        if taken > _MOST_TAKEN:
            return (
                f"{taken / GIB:.1f} GiB of disk space were used while it ran, and the limit is "
                f"{_MOST_TAKEN // GIB} GiB"
            )
        if free < _MUST_STAY_FREE and taken > _ALWAYS_TAKEN:
            return f"the disk has only {free / GIB:.1f} GiB left, and {_MUST_STAY_FREE // GIB} GiB must stay free"
        return ""


def free_bytes(folder: Path) -> int:
    """Return the bytes free for this user where the folder is, or will be made; a huge number if
    that is unknown."""
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            break
    return 2**63


async def within_disk(work: Coroutine[Any, Any, CommandResult], *folders: Path) -> CommandResult:
    """Return the result of a `Sandbox.run`, cancelling it if it fills the disk of one of the
    folders.

    A cancel is passed on to it.
    """
    task = asyncio.ensure_future(work)
    room = Room(*folders)
    why = ""
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            continue
        if not why and not task.done() and (why := room.exceeded()):
            task.cancel()
    if task.cancelled():
        return CommandResult(exit_code=None, stopped=True)
    result = task.result()
    return (
        replace(result, notices=(*result.notices, f"it was stopped: {why}"))
        if why and result.stopped
        else result
    )
