"""Cancel tokens, a tree of session → run → call → child agent; and work that a cancellation waits
for."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from codeagent.core.errors import RunCancelled

T = TypeVar("T")


class CancelToken:
    """Fires once, with a reason, and fires every token below it.

    Cancelling a token never touches its parent or its siblings.
    Not thread-safe: `cancel` belongs on the event loop's thread; `cancelled` may be read anywhere.
    """

    def __init__(self, parent: "CancelToken | None" = None) -> None:
        self._reason: str | None = None
        self._callbacks: dict[object, Callable[[str], None]] = {}
        self._unlink = (lambda: None) if parent is None else parent.on_cancel(self.cancel)

    @property
    def cancelled(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        return self._reason

    def child(self) -> "CancelToken":
        return CancelToken(self)

    def cancel(self, reason: str) -> None:
        """Fire; a second call is a no-op, so the first reason stays."""
        if self._reason is not None:
            return
        self._reason = reason
        callbacks = list(self._callbacks.values())
        self._callbacks = {}
        for callback in callbacks:
            callback(reason)

    def on_cancel(self, callback: Callable[[str], None]) -> Callable[[], object]:
        """Call `callback(reason)` when the token fires, at once if it has; return a function that
        undoes this."""
        if self._reason is not None:
            callback(self._reason)
            return lambda: None
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None)

    def close(self) -> None:
        """Leave the parent, so that a long session does not collect finished calls."""
        self._unlink()

    def raise_if_cancelled(self) -> None:
        """Raises RunCancelled when the token has fired."""
        if self._reason is not None:
            raise RunCancelled(self._reason)

    async def guard(self, work: Coroutine[Any, Any, T], grace: float = 10.0) -> T:
        """Await `work`; when the token fires, cancel it and raise RunCancelled.

        The work may clean up for `grace` seconds; what it then returns or raises counts, so that
        partial output and an answer which raced with the cancel are not lost. Work that does not
        end within the grace is left behind.
        """
        if self.cancelled:
            work.close()
            raise RunCancelled(self.reason or "cancelled")
        task = asyncio.ensure_future(work)
        fired: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        undo = self.on_cancel(fired.set_result)
        try:
            either: set[asyncio.Future[Any]] = {task, fired}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            undo()
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=grace)
        if not task.done() or task.cancelled():
            raise RunCancelled(self.reason or "cancelled")
        return task.result()


async def completed(work: Callable[[], T]) -> T:
    """Do the work in a thread; a caller that is cancelled, however often, waits for its end."""
    # Not a task, which a loop that is shut down would cancel too.
    thread = asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
    cancelled: asyncio.CancelledError | None = None
    while not thread.done():
        try:
            await asyncio.wait({thread})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        thread.exception()  # else it would be reported as one that nobody has seen
        raise cancelled
    return thread.result()
