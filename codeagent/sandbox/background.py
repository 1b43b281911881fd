"""Blocking work in a thread that never keeps the program from ending, and work that must not be cut short."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_TELL_SECONDS = 2.0


async def in_thread(work: Callable[[], T], unwanted: Callable[[T], None] = lambda _: None) -> T:
    """The result of `work()`. Where the caller was cancelled meanwhile, `unwanted` gets the result."""
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
        result, error = None, None
        try:
            result = work()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            if error is None:
                unwanted(result)  # type: ignore[arg-type]  # the loop is closed; nobody waits any more

    threading.Thread(target=target, name="sandbox", daemon=True).start()
    return await future


@asynccontextmanager
async def telling(what: str, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Says every two seconds, until the block ends, what is waited for and for how long."""

    async def again() -> None:
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            tell(f"{what} ({asyncio.get_running_loop().time() - began:.0f} s)")

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        task.cancel()


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` even while this task is being cancelled; the caller answers for it ending soon."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    return task.result()
