"""Holds a run up: the pause gate at a boundary, and the workspace lock."""

import asyncio
from collections import deque
from collections.abc import Sequence

from codeagent.agent.emitter import Emitter
from codeagent.core.cancel import CancelToken
from codeagent.core.notices import PauseReason, RunPaused, RunPausing, RunResumed, StepModeChanged


class PauseGate:
    """Where a run waits while the user has paused it, steps, or has used up a limit.

    A pause ends with its run; step mode stays on.
    """

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
        """Shut the gate; `run.pausing` is emitted, as the run still has to get there."""
        if self._open.is_set():
            self._open.clear()
            self._emitter.emit(RunPausing(text="pausing at the next boundary"))

    def resume(self) -> bool:
        """Open the gate and emit `run.resumed`, even before the run has reached it; False where it was open."""
        if self._open.is_set():
            return False
        self._open.set()
        self._emitter.emit(RunResumed(text="going on"))
        return True

    def end(self) -> None:
        """Open the gate at the end of a run that did not reach it."""
        self._open.set()

    async def wait(self, batch: int, token: CancelToken, calls: Sequence[str] = ()) -> None:
        """Wait until the gate is open. Raises RunCancelled.

        `batch` is the number of the next batch, `calls` the ids of its calls where it is planned.
        """
        asked = not self._open.is_set()
        if not asked and not (self._stepping and calls):
            return
        await self.hold("asked" if asked else "step", f"paused before batch {batch}", batch, token, calls)

    async def hold(
        self, why: PauseReason, text: str, batch: int, token: CancelToken, calls: Sequence[str] = ()
    ) -> None:
        """Shut the gate and wait until it is opened. Raises RunCancelled."""
        token.raise_if_cancelled()
        self._open.clear()
        self._emitter.emit(RunPaused(text=text, batch=batch, why=why, calls=tuple(calls)))
        await token.guard(self._opened())

    async def _opened(self) -> None:
        await self._open.wait()


class WorkspaceLock:
    """Admits the agent's calls side by side, but a command of the user's own `alone`; first come, first served."""

    def __init__(self) -> None:
        self._together = 0
        self._alone = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> bool:
        """Whether a caller that wants to be alone would have to wait."""
        return self._alone or self._together > 0 or bool(self._waiting)

    async def enter(self, *, alone: bool) -> None:
        """Wait for the caller's turn; a caller that is cancelled has not entered."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((alone, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()
            else:
                self.leave(alone=alone)
            raise

    def leave(self, *, alone: bool) -> None:
        if alone:
            self._alone = False
        else:
            self._together -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            alone, turn = self._waiting[0]
            if not turn.cancelled() and (self._alone or (alone and self._together)):
                return
            self._waiting.popleft()
            if turn.cancelled():
                continue
            if alone:
                self._alone = True
            else:
                self._together += 1
            turn.set_result(None)
