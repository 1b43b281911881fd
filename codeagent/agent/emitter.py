"""Where an event comes to be: numbered, logged, observed, and put in the reader's channel."""

import time
from collections.abc import Callable
from typing import Any

from codeagent.agent.channel import EventChannel
from codeagent.core.events import KnownEvent
from codeagent.core.journal import Journal


class Emitter:
    """Emitting is: append to the journal, tell the observers, put into the channel."""

    def __init__(self, journal: Journal, *, agent: str = "main", clock: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._agent = agent
        self._clock = clock
        self._seq = journal.next_seq
        self._channel: EventChannel | None = None
        self._observers: list[Callable[[KnownEvent], None]] = []

    def head(self) -> dict[str, Any]:
        """The envelope of the event that is emitted next; takes one sequence number."""
        seq, self._seq = self._seq, self._seq + 1
        return {"seq": seq, "ts": round(self._clock(), 3), "session": self._journal.session_id, "agent": self._agent}

    def emit(self, event: KnownEvent) -> None:
        if event.durable:
            self._journal.append(event)
        if self._channel is not None:
            self._channel.put(event)
        for observer in self._observers:
            observer(event)

    async def sync(self) -> None:
        """Return once everything emitted is on disk. Raises SessionWriteError."""
        await self._journal.sync()

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._observers.append(observer)

    def connect(self, channel: EventChannel | None) -> None:
        """Send what follows to this reader."""
        self._channel = channel
