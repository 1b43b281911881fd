"""Carries events to one reader: durable events are kept, deltas are merged."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace

from codeagent.core.events import JobUpdated, KnownEvent, ReasoningDelta, TextDelta, ToolProgress, ToolUpdated

_UPDATE_CHARS = 65_536


class EventChannel:
    """A queue that a slow reader cannot fill up and that never makes a writer wait.

    Unread deltas of the same kind and call are merged into one. Merged output of a tool is cut to its last 64 Ki
    characters: the result holds all of it.
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
            return (event.type,)
        case ToolUpdated():
            return (event.type, event.call_id, event.stream)
        case JobUpdated():
            return (event.type, event.job_id, event.stream)
        case ToolProgress():
            return (event.type, event.call_id)
        case _:
            return None
