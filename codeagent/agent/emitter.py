"""Where an event comes to be: numbered, logged, observed, and put into every reader's channel."""

import time
from collections.abc import Callable
from typing import TypeVar

from codeagent.agent.channel import EventChannel
from codeagent.core.envelope import stamped
from codeagent.core.events import KnownEvent, Notice
from codeagent.core.journal import Journal
from codeagent.core.json_types import JsonValue

EventT = TypeVar("EventT", bound=KnownEvent)


class Emitter:
    """Emitting is: append to the journal, put into the channels, tell the observers."""

    def __init__(self, journal: Journal, *, agent: str = "main", clock: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._agent = agent
        self._clock = clock
        self._seq = journal.next_seq
        self._channels: tuple[EventChannel, ...] = ()
        self._early: list[KnownEvent] | None = []
        self._observers: list[Callable[[KnownEvent], None]] = []

    @property
    def session_id(self) -> str:
        return self._journal.session_id

    @property
    def agent(self) -> str:
        """The name that stands on every event."""
        return self._agent

    @property
    def next_seq(self) -> int:
        """The number of the event that is emitted next."""
        return self._seq

    def emit(self, made: EventT) -> EventT:
        """The event as it was emitted: with its number, its time, and whose it is."""
        now = round(self._clock(), 3)
        event = stamped(made, seq=self._seq, ts=now, session=self._journal.session_id, agent=self._agent)
        self._seq += 1
        if event.durable:
            self._journal.append(event)
        if self._early is not None:
            self._early.append(event)
        for channel in self._channels:
            channel.put(event)
        for observer in self._observers:
            observer(event)
        return event

    def notice(self, code: str, text: str, **data: JsonValue) -> None:
        """Emit a notice of the level `info`."""
        self.emit(Notice(code=code, text=text, data=data))

    async def sync(self) -> None:
        """Return once everything emitted is on disk. Raises SessionWriteError."""
        await self._journal.sync()

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._observers.append(observer)

    def connect(self, *, early: bool) -> EventChannel:
        """A channel for one reader; `early`: with what was emitted before there was any reader."""
        channel = EventChannel()
        for event in (self._early or ()) if early else ():
            channel.put(event)
        self._early = None
        self._channels = (*self._channels, channel)
        return channel

    def disconnect(self, channel: EventChannel) -> None:
        """Nothing more goes there; what is unread is still read. Idempotent."""
        self._channels = tuple(other for other in self._channels if other is not channel)
        channel.close()

    def disconnect_all(self) -> None:
        for channel in self._channels:
            self.disconnect(channel)
