"""The gate at a boundary: a run waits there while the person has paused it, steps, or has used up a budget."""

import asyncio
from collections.abc import Sequence

from codeagent.agent.emitter import Emitter
from codeagent.core.cancel import CancelToken
from codeagent.core.notices import PauseReason, RunPaused, RunPausing, RunResumed, StepModeChanged


class Gate:
    """Open unless paused; a pause holds for one run only, step mode for all."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._open = asyncio.Event()
        self._open.set()
        self._stepping = False

    @property
    def stepping(self) -> bool:
        return self._stepping

    def step(self, on: bool) -> None:
        if on == self._stepping:
            return
        self._stepping = on
        text = "pausing before every batch" if on else "no longer pausing before every batch"
        self._emitter.emit(StepModeChanged(text=text, on=on))

    def pause(self) -> None:
        """Shut the gate; `run.pausing` says so until the run gets there."""
        if self._open.is_set():
            self._open.clear()
            self._emitter.emit(RunPausing(text="pausing at the next boundary"))

    def resume(self) -> bool:
        """Open the gate, also where the run had not come to it yet, with `run.resumed`; False: it was open."""
        if self._open.is_set():
            return False
        self._open.set()
        self._emitter.emit(RunResumed(text="going on"))
        return True

    def end(self) -> None:
        """The run is over, and with it a pause that was not reached."""
        self._open.set()

    async def wait(self, batch: int, token: CancelToken, calls: Sequence[str] = ()) -> bool:
        """Return at once where the gate is open, else once it was opened; True where it was shut. Raises RunCancelled.

        `batch` is the number of the batch that would run next, `calls` the ids of its calls where it is planned.
        """
        asked = not self._open.is_set()
        if not asked and not (self._stepping and calls):
            return False
        await self.hold("asked" if asked else "step", f"paused before batch {batch}", batch, token, calls)
        return True

    async def hold(
        self, why: PauseReason, text: str, batch: int, token: CancelToken, calls: Sequence[str] = ()
    ) -> None:
        """Shut the gate and wait until somebody opens it. Raises RunCancelled."""
        token.raise_if_cancelled()
        self._open.clear()
        self._emitter.emit(RunPaused(text=text, batch=batch, why=why, calls=tuple(calls)))
        await token.guard(self._opened())

    async def _opened(self) -> None:
        await self._open.wait()
