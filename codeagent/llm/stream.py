"""Assembles the small pieces a provider streams into one assistant message."""

import json
import os
from collections.abc import Collection
from dataclasses import field, replace
from itertools import takewhile
from operator import attrgetter

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError
from codeagent.core.json_types import JsonObject
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import (
    AssistantMessage,
    ProviderContent,
    StopReason,
    Thinking,
    ToolCall,
    Usage,
    WebSource,
)
from codeagent.core.model import (
    CallClosed,
    CallGrowing,
    ModelEvent,
    ProviderUse,
    ReasoningPiece,
    TextPiece,
)

_PROVIDER_RUN = ("srvtoolu_", "mcptoolu_")
"""Ids of calls the provider runs itself; their results are in the stream too."""
_SHORTEST_ID = 8
"""Shorter ids (`0`, `call_1`) come from servers that number the calls of each answer from the
start."""
CUT = "the connection was lost in the middle of the answer; nothing was changed by it"
_STOPS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "guardrail_intervened": "content_filter",
    "pause_turn": "paused",
}
CITED = "sources"
"""The `tool` of a use that only says what the answer cites."""


@dataclass(frozen=True)
class CallPiece:
    """A fragment of one call; any field but the arguments may be missing in any fragment."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    ends: bool = False
    """Whether the provider said that the call's block has ended."""


@dataclass(frozen=True)
class ProviderWork:
    """What the provider's own tools add."""

    uses: tuple[ProviderUse, ...] = ()
    cited: tuple[WebSource, ...] = ()
    """What the answer cites."""
    content: tuple[JsonObject, ...] = ()
    """At the end, if tools were used: the whole answer, see `ProviderContent`."""


@dataclass(frozen=True)
class Delta:
    """What one chunk of the stream adds."""

    text: str = ""
    thinking: tuple[Thinking, ...] = ()
    """Pieces of blocks: a block ends with its signature, if the provider signs it."""
    calls: tuple[CallPiece, ...] = ()
    work: ProviderWork | None = None
    finish: str | None = None
    """The provider's reason for stopping, sent once."""


@dataclass(frozen=True)
class StreamPiece:
    """What one event of a provider's stream says."""

    delta: Delta = Delta()
    usage: Usage | None = None
    """The provider's own figures so far, if the event has any; with a cost only if the provider
    names one."""


@dataclass
class _OpenCall:
    id: str
    wire_id: str
    name: str = ""
    parts: list[str] = field(default_factory=list)
    ended: bool = False
    closed: bool = False

    @property
    def arguments(self) -> str:
        return _mend("".join(self.parts))

    @property
    def foreign(self) -> bool:
        return self.wire_id.startswith(_PROVIDER_RUN)

    @property
    def whole(self) -> bool:
        """Whether it has a name and complete arguments."""
        return bool(self.name) and is_object(self.arguments)


class Accumulator:
    """Assembles one answer.

    A call is closed, and may be acted on, when its arguments are complete and its block has ended
    or another call begins, or else when the provider says that it has stopped; but never before an
    earlier one. An answer that ends without saying so was cut.
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        """`taken` holds the call ids of the session so far."""
        self._taken = set(taken)
        self._text: list[str] = []
        self._held = ""
        self._thinking: list[list[Thinking]] = []
        self._thinking_open = False
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._shown: set[str] = set()
        """Addresses that a use has named."""
        self._cited: dict[str, WebSource] = {}
        self._content: tuple[JsonObject, ...] = ()
        self._finish: str | None = None

    def add(self, delta: Delta) -> list[ModelEvent]:
        """Take one chunk in. Raises ModelError if a closed call continues."""
        events: list[ModelEvent] = []
        for thought in delta.thinking:
            if not self._thinking_open or thought.redacted is not None:
                self._thinking.append([])
            self._thinking[-1].append(thought)
            self._thinking_open = thought.redacted is None and not thought.signature
            if thought.text:
                events.append(ReasoningPiece(_mend(thought.text)))
        if delta.text:
            self._thinking_open = False
            text = self._whole_characters(delta.text)
            if text:
                self._text.append(text)
                events.append(TextPiece(text))
        for piece in delta.calls:
            self._thinking_open = False
            events += self._call(piece)
        if delta.work is not None:
            events += self._work(delta.work)
        self._finish = delta.finish or self._finish
        return events

    def finish(self, model: str, origin: str = "") -> tuple[list[ModelEvent], AssistantMessage]:
        """Close what is open; `origin` is that of a `ProviderContent`.

        Raises ModelError `cut` if the provider never said it was done.
        """
        if self._finish is None:
            raise ModelError(f"{model}: {CUT}", kind="cut", retryable=True)
        calls = [call for call in self._calls if not call.foreign]
        stop = _STOPS.get(self._finish.lower(), "tool_calls" if calls else "end")
        closed = (
            [] if stop == "length" else self._close([call for call in calls if not call.closed])
        )
        kept = [call for call in self._calls if not call.foreign]
        whole = self._content and stop not in ("length", "content_filter")
        message = AssistantMessage(
            text="".join(self._text),
            thinking=tuple(
                replace(pieces[-1], text=_mend("".join(piece.text for piece in pieces)))
                for pieces in self._thinking
            ),
            calls=tuple(_tool_call(call) for call in kept),
            stop=stop,
            model=model,
            provider_content=ProviderContent(origin=origin, items=self._content) if whole else None,
        )
        cited = tuple(source for url, source in self._cited.items() if url not in self._shown)
        return [*closed, *([ProviderUse(tool=CITED, sources=cited)] if cited else [])], message

    def _work(self, work: ProviderWork) -> tuple[ProviderUse, ...]:
        self._shown.update(source.url for use in work.uses for source in use.sources)
        for source in work.cited:
            self._cited.setdefault(source.url, source)
        self._content = _mended(work.content) or self._content
        return work.uses

    def _whole_characters(self, text: str) -> str:
        """Join the halves of surrogate pairs across chunks, and replace lone ones."""
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held = text[-1]
            text = text[:-1]
        return _mend(text)

    def _call(self, piece: CallPiece) -> list[ModelEvent]:
        call = self._find(piece)
        if call is not None:
            if piece.id and not call.wire_id and not call.closed:
                call.wire_id = piece.id
                call.id = self._new_id(piece.id)
            return [*_extend(call, piece), *self._end(call, piece)]
        closed = self._close_whole(self._calls)
        call = _OpenCall(id=self._new_id(piece.id or ""), wire_id=piece.id or "")
        self._calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        return [*closed, *_extend(call, piece), *self._end(call, piece)]

    def _end(self, call: _OpenCall, piece: CallPiece) -> list[CallClosed]:
        call.ended = call.ended or piece.ends
        return self._close_whole(list(takewhile(_is_over, self._calls))) if piece.ends else []

    def _close_whole(self, calls: list[_OpenCall]) -> list[CallClosed]:
        """Close the calls that are complete, up to the first that is not."""
        open_calls = (call for call in calls if not call.closed and not call.foreign)
        return self._close(list(takewhile(attrgetter("whole"), open_calls)))

    def _find(self, piece: CallPiece) -> _OpenCall | None:
        """Return the call that the piece continues; None if it begins one."""
        if piece.index is not None:
            call = self._by_index.get(piece.index)
        elif piece.id:
            call = next((c for c in reversed(self._calls) if c.wire_id == piece.id), None)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or (piece.id and call.wire_id and piece.id != call.wire_id):
            return None
        if piece.id or not piece.name:
            return call
        another = piece.name != call.name if piece.index is None else bool(piece.arguments)
        begins = (
            another
            and not _repeats(call, piece)
            and (piece.index is None or is_object(call.arguments))
        )
        return None if begins else call

    def _new_id(self, wire_id: str) -> str:
        usable = len(wire_id) >= _SHORTEST_ID and wire_id not in self._taken
        call_id = wire_id if usable else f"call_{os.urandom(16).hex()}"
        self._taken.add(call_id)
        return call_id

    def _close(self, calls: list[_OpenCall]) -> list[CallClosed]:
        """Close the calls; one that a server sent twice is dropped."""
        closed = []
        for call in calls:
            call.closed = True
            others = [other for other in self._calls if other is not call]
            mine = call.wire_id, call.name, call.arguments
            if call.wire_id and mine in (
                (one.wire_id, one.name, one.arguments) for one in others if one.closed
            ):
                self._calls = others
                continue
            closed.append(CallClosed(_tool_call(call)))
        return closed


def _is_over(call: _OpenCall) -> bool:
    return call.ended or call.closed or call.foreign


def _extend(call: _OpenCall, piece: CallPiece) -> list[ModelEvent]:
    """Add the piece. Raises ModelError if the call was closed, and maybe acted on, before."""
    if _repeats(call, piece):
        return []
    if piece.name and piece.name != call.name:
        call.name += piece.name
    if not piece.arguments:
        return []
    if call.closed and piece.arguments.strip():
        raise ModelError(
            f"the provider continued the call of {call.name} after it had ended",
            kind="server",
            retryable=True,
        )
    if call.parts == ["{}"] and piece.arguments.strip():
        call.parts.clear()
    call.parts.append(piece.arguments)
    return (
        []
        if call.foreign or call.closed
        else [CallGrowing(call.id, _mend(call.name), _mend(piece.arguments))]
    )


def _repeats(call: _OpenCall, piece: CallPiece) -> bool:
    """Tell whether the server repeats the whole call, or closes a call that has arguments with an
    empty object."""
    if piece.arguments == "{}" and not piece.name:
        return is_object(call.arguments)
    return bool(piece.name) and piece.name == call.name and piece.arguments == call.arguments != ""


def _tool_call(call: _OpenCall) -> ToolCall:
    return ToolCall(id=call.id, name=_mend(call.name), arguments=call.arguments)


def is_object(text: str) -> bool:
    """Tell whether the text is one JSON object, so that nothing but white space could follow."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _mended(items: tuple[JsonObject, ...]) -> tuple[JsonObject, ...]:
    """Mend every text in the items: each is sent back, and written to the log."""
    text = json.dumps(items, ensure_ascii=False)
    mended = _mend(text)
    return items if mended is text else tuple(json.loads(mended))


_SURROGATE = lazy_regex("[\ud800-\udfff]")


def _mend(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates: the text can be written as UTF-8."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
