"""The end of a run that nobody watches: when its time is up, whatever it is doing is stopped."""

import asyncio

from codeagent.agent.emitter import Emitter
from codeagent.core.cancel import CancelToken
from codeagent.core.events import LimitReached


class Deadline:
    """Cancels a run's token; what runs then is answered as any call that is stopped."""

    def __init__(self, seconds: float | None, token: CancelToken, emitter: Emitter) -> None:
        """`seconds` from now; None: never. Needs a running event loop."""
        self._token = token
        self._emitter = emitter
        self.passed = False
        self._alarm: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._alarm = asyncio.get_running_loop().call_later(seconds, self._pass, seconds)

    def close(self) -> None:
        """The run has ended; idempotent."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _pass(self, seconds: float) -> None:
        if self._token.cancelled:
            return
        self.passed = True
        self._emitter.emit(LimitReached(limit="max_seconds", maximum=seconds))
        self._token.cancel(f"the limit max_seconds = {seconds:g} is reached")
