"""The gate at a boundary: a run waits there while the person has paused it."""

import asyncio

from codeagent.agent.emitter import Emitter
from codeagent.core.cancel import CancelToken


class Gate:
    """Open unless paused; a pause holds for one run only."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._open = asyncio.Event()
        self._open.set()

    def pause(self) -> None:
        self._open.clear()

    def go_on(self) -> None:
        self._open.set()

    async def wait(self, batch: int, token: CancelToken) -> None:
        """Return at once where the gate is open. Raises RunCancelled.

        `batch` is the number of the batch that would run next.
        """
        if self._open.is_set():
            return
        token.raise_if_cancelled()
        self._emitter.notice("run.paused", f"paused before batch {batch}", batch=batch)
        await token.guard(self._opened())
        self._emitter.notice("run.resumed", "going on", batch=batch)

    async def _opened(self) -> None:
        await self._open.wait()
