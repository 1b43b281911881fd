"""Times in which nothing may start, because somebody needs the workspace to stay as it is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from codeagent.sandbox.background import to_the_end


class Stillness:
    """Holds nest by counting: the first one stops everything, the last one lets it go on."""

    def __init__(self, stop: Callable[[], Awaitable[None]], go_on: Callable[[], Awaitable[None]]) -> None:
        """`stop` may raise: then `go_on` is called, too. `go_on` must not raise. Neither is cut short by a cancel."""
        self._stop = stop
        self._go_on = go_on
        self._turn = asyncio.Lock()
        self._holds = 0
        self._moves = 0
        self._over = asyncio.Event()
        self._over.set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def held(self) -> bool:
        return not self._over.is_set()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Raises what `stop` raises, and CancelledError only after everything goes on."""
        await self._begin()
        try:
            yield
        finally:
            await _uncut(self._end)

    async def over(self) -> None:
        """Wait until nobody holds it."""
        while self.held:
            await self._over.wait()

    def move(self) -> Callable[[], None]:
        """Something starts: who holds it next waits until the returned function is called. Only while not `held`."""
        self._moves += 1
        self._quiet.clear()
        return self._moved

    @asynccontextmanager
    async def moving(self) -> AsyncIterator[None]:
        """Wait until nobody holds it, and keep the next one waiting meanwhile."""
        await self.over()
        moved = self.move()
        try:
            yield
        finally:
            moved()

    def _moved(self) -> None:
        self._moves -= 1
        if self._moves == 0:
            self._quiet.set()

    async def _begin(self) -> None:
        async with self._turn:
            if self._holds == 0:
                self._over.clear()
                try:
                    await self._quiet.wait()
                    # What was asked of the engine happens, also where nobody waits for it: going on comes after it.
                    await _uncut(self._stop)
                except BaseException:
                    await _uncut(self._let_go)
                    raise
            self._holds += 1

    async def _end(self) -> None:
        async with self._turn:
            self._holds -= 1
            if self._holds == 0:
                await self._let_go()

    async def _let_go(self) -> None:
        try:
            await self._go_on()
        finally:
            self._over.set()


async def _uncut(work: Callable[[], Awaitable[None]]) -> None:
    """Await `work` to its end; a cancel that comes meanwhile is raised after it."""

    async def whole() -> None:
        await work()

    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    await to_the_end(whole())
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
