"""Who may change the workspace now: the agent's calls side by side, or one command of the person's own."""

import asyncio
from collections import deque


class Floor:
    """First come, first served; who enters `alone` waits until nobody is there and keeps everybody out."""

    def __init__(self) -> None:
        self._together = 0
        self._alone = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> bool:
        """Someone who wants to be alone would have to wait."""
        return self._alone or self._together > 0 or bool(self._waiting)

    async def enter(self, *, alone: bool) -> None:
        """Return once it is the caller's turn; a caller that is cancelled has not entered."""
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
