"""Runs the functions of hook files away from the program's own event loop, which they can neither block nor end."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class HookThreads:
    """A thread for each call of a plain function, and one event loop, in a thread of its own, for all async ones.

    All are daemons: a hook that hangs does not keep the program from ending.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """The same function to be awaited anywhere; what it raises, even an exit, comes as an Exception."""
        if inspect.iscoroutinefunction(function):

            async def in_loop(*arguments: object) -> Any:
                future = asyncio.run_coroutine_threadsafe(_contained(function(*arguments)), self._running())
                return await asyncio.wrap_future(future)

            return in_loop

        async def in_thread(*arguments: object) -> Any:
            return await _in_thread(lambda: function(*arguments))

        return in_thread

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="async hooks", daemon=True).start()
            return self._loop


async def _contained(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error


async def _in_thread(work: Callable[[], Any]) -> Any:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def target() -> None:
        result, failure = None, None
        try:
            result = context.run(work)
        except Exception as error:
            failure = error
        except BaseException as error:
            failure = RuntimeError(f"it raised {type(error).__name__}")
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the program's loop is closed: nobody waits any more

    threading.Thread(target=target, name="hook", daemon=True).start()
    return await future
