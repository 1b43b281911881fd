"""Reads the body of a provider's 200 response as the events it stands for, whatever it is.

Most are streams of server-sent events. Some servers ignore the wish for a stream and send the whole
completion: it becomes the events it stands for. A login page or an error becomes an exception that
says what came.
"""

import json
from collections.abc import Iterator
from typing import Any

from codeagent.core.lazy_regex import lazy_regex
from codeagent.llm.errors import NotAStream
from codeagent.llm.providers import WireFormat

_DONE = "[DONE]"
"""What ends a stream of chat completions, instead of an event."""
_EVENT = lazy_regex(rb"(?:data|event|id|retry)[ \t]*:|:")
_ENOUGH = len(b"event :")
"""Bytes needed to tell an event from anything else."""
_BEGINNINGS = (b"data", b"event", b"id", b"retry")
_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n" + _MARK
_LARGEST = 16 << 20
"""Bytes of an event, and of a body that is not a stream."""


class EventParser:
    """Cuts a stream into the data of its events, following the standard: three line ends, comments
    and fields."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Pieces of the line that has not ended."""
        self._data: list[bytes] = []
        """Lines of data of the event that has not ended."""
        self._first = True
        self._after_return = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of each event that ends in the chunk. Raises ValueError for one of more
        than 16 MB."""
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if not chunk:
            return []
        self._after_return = chunk.endswith(b"\r")
        lines = chunk.splitlines()
        rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        if lines:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
        if lines and self._first:
            lines[0] = lines[0].removeprefix(_MARK)
            self._first = False
        events = [event for line in lines if (event := self._take(line)) is not None]
        if rest:
            self._line.append(rest)
        if (self._line or self._data) and sum(map(len, (*self._line, *self._data))) > _LARGEST:
            raise ValueError(f"an event of the stream is larger than {_LARGEST >> 20} MB")
        return events

    def end(self) -> list[str]:
        """Return the event that lacks only the blank line after it, if there is one: some servers
        leave it out."""
        return self.feed(b"\n\n") if self._line or self._data else []

    def _take(self, line: bytes) -> str | None:
        """Take a line in; return the data of the event that it ends, if it ends one."""
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            self._data.append(b"")
        elif not line and self._data:
            data = b"\n".join(self._data).decode("utf-8", "replace")
            self._data.clear()
            return data
        return None


class EventReader:
    """Reads one body, piece by piece."""

    def __init__(self, wire: WireFormat, content_type: str) -> None:
        self._body = StreamOrWhole(wire, content_type)
        self._parser = EventParser()
        self.done = False
        """The stream said that nothing more follows."""

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """Yield the events that end in the chunk. Raises NotAStream, and ValueError for bad JSON or
        a huge event."""
        return self._decoded(self._parser.feed(self._body.feed(chunk)))

    def end(self) -> Iterator[dict[str, Any]]:
        """Yield the events that the end of the body completes. Raises as `feed` does."""
        if self.done:
            return
        yield from self._decoded(self._parser.end())
        yield from self._body.end()

    def _decoded(self, events: list[str]) -> Iterator[dict[str, Any]]:
        for data in events:
            if data == _DONE:
                self.done = True
                return
            if isinstance(event := json.loads(data), dict):
                yield event


class StreamOrWhole:
    """Tells a stream of events from a whole completion, and from anything else."""

    def __init__(self, wire: WireFormat, content_type: str) -> None:
        self._wire = wire
        self._content_type = content_type
        self._begun = b""
        self._streams = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the part of a stream that has come; nothing until it is known to be one.

        Raises NotAStream for a huge body.
        """
        if self._streams:
            return chunk
        self._begun += chunk
        start = self._begun.lstrip(_BLANK)
        if len(start) >= _ENOUGH and _EVENT.match(start):
            self._streams = True
            return self._begun
        if len(self._begun) > _LARGEST:
            raise NotAStream(start, self._content_type, None)
        return b""

    def end(self) -> list[dict[str, Any]]:
        """Return the events of a whole completion; none after a stream, however short. Raises
        NotAStream."""
        start = self._begun.lstrip(_BLANK)
        if (
            self._streams
            or _EVENT.match(start)
            or any(word.startswith(start) for word in _BEGINNINGS)
        ):
            return []
        return list(_events(start.rstrip(_BLANK), self._wire, self._content_type))


def _events(body: bytes, wire: WireFormat, content_type: str) -> Iterator[dict[str, Any]]:
    """Yield the events a provider would have sent for this whole completion. Raises NotAStream if
    it is not one."""
    try:
        whole = json.loads(body)
    except (ValueError, RecursionError):
        whole = None
    match wire, whole:
        case "chat", {"choices": [{"message": dict()}, *_]}:
            yield _chat_chunk(whole)
        case "anthropic", {"type": "message", "content": list(blocks)}:
            yield from _message_events(whole, blocks)
        case "responses", {"object": "response", "output": list()}:
            yield {"type": "response.completed", "response": whole}
        case _:
            raise NotAStream(body, content_type, whole)


def _chat_chunk(whole: dict[str, Any]) -> dict[str, Any]:
    """Return one chunk with the whole of the first choice."""
    choice = whole["choices"][0]
    delta = dict(choice["message"])
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [
            {"index": index, **call} for index, call in enumerate(calls) if isinstance(call, dict)
        ]
    finish = choice.get("finish_reason") or "stop"
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {**whole, "object": "chat.completion.chunk", "choices": choices}


def _message_events(whole: dict[str, Any], blocks: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of Anthropic's format."""
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(block for block in blocks if isinstance(block, dict)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    stop = {
        "stop_reason": whole.get("stop_reason") or "end_turn",
        "stop_sequence": whole.get("stop_sequence"),
    }
    yield {"type": "message_delta", "delta": stop, "usage": whole.get("usage") or {}}
    yield {"type": "message_stop"}
