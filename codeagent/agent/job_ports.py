"""Looks now and then which ports are listened on in the sandbox, while some job runs there."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from codeagent.core.errors import CodeagentError
from codeagent.core.ports import Sandbox

_QUIET = 3.0
"""Seconds without output after which more of it means that something happened."""
_MOST = 64
"""Ports of one session; a program that opens ever new ones says nothing by it."""


@dataclass(frozen=True)
class Pace:
    """Seconds between two looks: the first wait, doubled each time up to the longest."""

    first: float = 1.0
    longest: float = 15.0


class PortWatch:
    """One poller for all jobs; nothing is done while none runs. A port is told of once."""

    def __init__(self, sandbox: Sandbox, busy: Callable[[], bool], found: Callable[[int], None], pace: Pace) -> None:
        """`busy`: a job runs in the sandbox; `found` takes each new port."""
        self._sandbox = sandbox
        self._busy = busy
        self._found = found
        self._pace = pace
        self._known: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._sooner = asyncio.Event()
        self._last_output = 0.0

    def begin(self) -> None:
        """A job has started."""
        self._sooner.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    def printed(self) -> None:
        """A job printed something; what it prints without a break says nothing new."""
        now = time.monotonic()
        if now - self._last_output > _QUIET:
            self._sooner.set()
        self._last_output = now

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        delay = self._pace.first
        while self._busy() and len(self._known) < _MOST:
            if await self._waited(delay):
                delay = self._pace.first
                await asyncio.sleep(delay)
            else:
                delay = min(2 * delay, self._pace.longest)
            if self._busy():
                await self._look()

    async def _waited(self, delay: float) -> bool:
        """True where something happened before the time was up."""
        try:
            async with asyncio.timeout(delay):
                await self._sooner.wait()
        except TimeoutError:
            return False
        self._sooner.clear()
        return True

    async def _look(self) -> None:
        try:
            listening = await self._sandbox.listening()
        except CodeagentError:
            return
        for port in sorted(listening - self._known)[: _MOST - len(self._known)]:
            self._known.add(port)
            self._found(port)
