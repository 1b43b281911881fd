"""Cancel tokens: a tree session → run → call → child agent."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from codeagent.core.errors import RunCancelled

T = TypeVar("T")


class CancelToken:
    """Fires once, with a reason, and takes every token below it along.

    Cancelling a token never touches its parent or its siblings (FEATURES F10).
    Not thread-safe: `cancel` belongs on the event loop's thread; `cancelled` may be read anywhere.
    """

    def __init__(self, parent: "CancelToken | None" = None) -> None:
        self._reason: str | None = None
        self._callbacks: dict[object, Callable[[str], None]] = {}
        if parent is not None:
            self._unlink = parent.on_cancel(self.cancel)
        else:
            self._unlink = _nothing

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
        callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback(reason)

    def on_cancel(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(reason)` on firing, at once if it has fired; returns the undo."""
        if self._reason is not None:
            callback(self._reason)
            return _nothing
        key = object()
        self._callbacks[key] = callback
        return lambda: _discard(self._callbacks, key)

    def close(self) -> None:
        """Leave the parent, so that a long session does not collect finished calls."""
        self._unlink()

    def raise_if_cancelled(self) -> None:
        """Raises RunCancelled when the token has fired."""
        if self._reason is not None:
            raise RunCancelled(self._reason)

    def _fired(self) -> bool:
        return self._reason is not None

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; when the token fires, cancel it and raise RunCancelled.

        The work gets a chance to clean up first. What it returns after having been
        cancelled is returned, so that an answer which raced with the cancel is not lost.
        """
        if self.cancelled:
            work.close()
            raise RunCancelled(self.reason or "cancelled")
        task = asyncio.ensure_future(work)
        undo = self.on_cancel(lambda _: _cancel(task))
        try:
            return await task
        except asyncio.CancelledError:
            if self._fired() and not _being_cancelled():
                raise RunCancelled(self.reason or "cancelled") from None
            task.cancel()
            raise
        finally:
            undo()


def _being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()


def _discard(callbacks: dict[object, Callable[[str], None]], key: object) -> None:
    callbacks.pop(key, None)


def _nothing() -> None:
    return None
