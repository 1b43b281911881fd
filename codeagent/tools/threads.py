"""Work in a thread that nobody can stop and nobody has to wait for."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
THREAD_NAME = "tool function"


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How the work ended: with a value, or with anything that can be raised."""

    value: T | None = None
    raised: BaseException | None = None

    def result(self) -> T:
        """Raises what the work raised."""
        if self.raised is not None:
            raise self.raised
        return self.value  # type: ignore[return-value]  # T may itself be None


def started(work: Callable[[], T]) -> "asyncio.Future[Ended[T]]":
    """Run `work` in a thread of its own, in this context; what it raises is in the result.

    A daemon thread, and not the loop's pool: work that never ends keeps neither the others nor the end of the
    program waiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Ended[T]] = loop.create_future()

    def settle(ended: Ended[T]) -> None:
        if not future.done():
            future.set_result(ended)

    def run() -> None:
        ended = outcome(work)
        try:
            loop.call_soon_threadsafe(settle, ended)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=copy_context().run, args=(run,), name=THREAD_NAME, daemon=True).start()
    return future


def within(seconds: float, work: Callable[[], T]) -> Ended[T] | None:
    """Run `work` in a thread and wait; None where it has not ended in time: then it goes on, unheard. Blocks."""
    done: list[Ended[T]] = []
    run = copy_context().run
    thread = threading.Thread(target=run, args=(lambda: done.append(outcome(work)),), name=THREAD_NAME, daemon=True)
    thread.start()
    thread.join(seconds)
    return done[0] if done else None


def outcome(work: Callable[[], T]) -> Ended[T]:
    try:
        return Ended(value=work())
    except BaseException as error:
        return Ended(raised=error)
