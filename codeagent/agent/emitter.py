"""Emits events: each is numbered, logged, shown to the observers, and put into every reader's
channel."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from codeagent.core.events import (
    JobUpdated,
    KnownEvent,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolProgress,
    ToolUpdated,
)
from codeagent.core.json_types import MAIN, BaseEvent, JsonValue

EventT = TypeVar("EventT", bound=KnownEvent)
_UPDATE_CHARS = 65_536


class Journal(Protocol):
    """One session's log, as its writer sees it: every durable event goes there before anything acts
    on it."""

    @property
    def session_id(self) -> str: ...

    @property
    def next_seq(self) -> int:
        """The number the next event gets; counts on after a resume."""

    def append(self, event: KnownEvent) -> None:
        """Append one durable event. What cannot be written is kept and reported by `sync`."""

    async def sync(self) -> None:
        """Return once everything appended is on disk. Raises SessionWriteError: run nothing
        then."""

    def close(self) -> None: ...


class EventChannel:
    """A queue that a slow reader cannot fill up and that never makes a writer wait.

    Unread deltas of the same agent, kind and call are merged into one. Merged output of a tool is
    cut to its last 64 Ki characters: the result holds all of it.
    """

    def __init__(self) -> None:
        self._queue: deque[_QueuedEvent] = deque()
        self._mergeable: dict[tuple[str, ...], _QueuedEvent] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: KnownEvent) -> None:
        key = _merge_key(event)
        if key is None:
            self._mergeable.clear()
        elif (waiting := self._mergeable.get(key)) is not None:
            waiting.add(event)
            return
        entry = _QueuedEvent(event)
        if key is not None:
            self._mergeable[key] = entry
        self._queue.append(entry)
        self._ready.set()

    def close(self) -> None:
        """End the stream; what is queued is still read."""
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[KnownEvent]:
        while True:
            while self._queue:
                entry = self._queue.popleft()
                if entry.key is not None and self._mergeable.get(entry.key) is entry:
                    del self._mergeable[entry.key]
                yield entry.event()
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()


class _QueuedEvent:
    """One queued event, and the texts merged into it."""

    def __init__(self, event: KnownEvent) -> None:
        self.key = _merge_key(event)
        self._event = event
        self._texts: list[str] = []
        self._chars = 0

    def add(self, event: KnownEvent) -> None:
        text = getattr(event, "text", "")
        self._texts.append(text)
        self._chars += len(text)
        if isinstance(event, ToolUpdated | JobUpdated) and self._chars > 2 * _UPDATE_CHARS:
            self._texts = ["".join(self._texts)[-_UPDATE_CHARS:]]
            self._chars = _UPDATE_CHARS

    def event(self) -> KnownEvent:
        if not self._texts:
            return self._event
        match self._event:
            case ToolProgress():
                return replace(self._event, text=self._texts[-1])
            case ToolUpdated() | JobUpdated():
                merged = (self._event.text + "".join(self._texts))[-_UPDATE_CHARS:]
                return replace(self._event, text=merged)
            case TextDelta() | ReasoningDelta():
                return replace(self._event, text=self._event.text + "".join(self._texts))
            case _:
                return self._event


def _merge_key(event: KnownEvent) -> tuple[str, ...] | None:
    match event:
        case TextDelta() | ReasoningDelta():
            return (event.agent, event.type)
        case ToolUpdated():
            return (event.agent, event.type, event.call_id, event.stream)
        case JobUpdated():
            return (event.agent, event.type, event.job_id, event.stream)
        case ToolProgress():
            return (event.agent, event.type, event.call_id)
        case _:
            return None


class Emitter:
    """Stamps each event, appends it to the journal, puts it into the channels, and tells the
    observers."""

    def __init__(
        self, journal: Journal, *, agent: str = MAIN, above: "Emitter | None" = None
    ) -> None:
        """`above`: the emitter of the agent's parent, whose readers get these events, too; its
        journal does not."""
        self._journal = journal
        self.session_id = journal.session_id
        self.agent = agent
        """The agent's name, as on its events."""
        self._above = above
        self._seq = journal.next_seq
        self._channels: tuple[EventChannel, ...] = ()
        self._early: list[KnownEvent] | None = []
        self._observers: list[tuple[Callable[[Any], None], type[BaseEvent]]] = []

    @property
    def next_seq(self) -> int:
        """The number of the next event."""
        return self._seq

    def emit(self, made: EventT) -> EventT:
        """Emit the event and return it with its number, its time and its agent."""
        now = round(time.time(), 3)
        event = replace(made, seq=self._seq, ts=now, session=self.session_id, agent=self.agent)
        self._seq += 1
        if event.durable:
            self._journal.append(event)
        self._show(event)
        return event

    def _show(self, event: KnownEvent) -> None:
        if self._early is not None:
            self._early.append(event)
        for channel in self._channels:
            channel.put(event)
        for observer, kind in self._observers:
            if isinstance(event, kind):
                observer(event)
        if self._above is not None:
            self._above._show(event)

    def notice(self, code: str, text: str, **data: JsonValue) -> None:
        """Emit a notice of the level `info`."""
        self.emit(Notice(code=code, text=text, data=data))

    def warn(self, code: str, text: str, **data: JsonValue) -> None:
        """Emit a notice of the level `warning`, such as one about a sandbox that did not start."""
        self.emit(Notice(level="warning", code=code, text=text, data=data))

    def sync(self) -> Awaitable[None]:
        """Return what ends once everything emitted is on disk. Awaiting it raises
        SessionWriteError."""
        return self._journal.sync()

    def observe(self, observer: Callable[[EventT], None], kind: type[EventT] | None = None) -> None:
        """Call `observer` with every event of this type as it is emitted; None: with every
        event."""
        self._observers.append((observer, kind or BaseEvent))

    def connect(self, *, early: bool) -> EventChannel:
        """Open a channel for one reader; `early`: with what was emitted before there was any
        reader."""
        channel = EventChannel()
        for event in (self._early or ()) if early else ():
            channel.put(event)
        self._early = None
        self._channels = (*self._channels, channel)
        return channel

    async def follow(
        self, begin: Callable[[], asyncio.Task[None]], stop: Callable[[str], object]
    ) -> AsyncIterator[KnownEvent]:
        """Yield what is emitted until the task that `begin` returns has ended. A reader that stops
        early stops it.

        Raises what `begin` raises.
        """
        channel = self.connect(early=False)
        try:
            task = begin()
        except BaseException:
            self.disconnect(channel)
            raise
        task.add_done_callback(lambda _: self.disconnect(channel))
        try:
            async for event in channel:
                yield event
        finally:
            if not task.done():
                stop("interrupted")
            await asyncio.wait({task})

    async def read(self, channel: EventChannel) -> AsyncIterator[KnownEvent]:
        """Yield what the channel gets, and disconnect it at the end."""
        try:
            async for event in channel:
                yield event
        finally:
            self.disconnect(channel)

    def disconnect(self, channel: EventChannel) -> None:
        """Close the channel; what is unread can still be read. Idempotent."""
        self._channels = tuple(other for other in self._channels if other is not channel)
        channel.close()

    def disconnect_all(self) -> None:
        for channel in self._channels:
            self.disconnect(channel)
