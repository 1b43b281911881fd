"""Anthropic's messages: requests of alternating turns made of blocks, and streams of those
blocks."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import Message, ProviderContent, Thinking, Usage
from codeagent.core.model import ModelRequest
from codeagent.llm.errors import ProviderError
from codeagent.llm.per_message import PerMessage, encoded, json_body
from codeagent.llm.provider_tools import (
    MakeProviderTools,
    ProviderTools,
    content_for,
    declared_in,
    sendable,
    sources_of,
    with_calls,
)
from codeagent.llm.providers import Target
from codeagent.llm.stream import CallPiece, Delta, ProviderWork, StreamPiece, is_object
from codeagent.llm.usage import count
from codeagent.llm.wire import (
    MARKED,
    Wire,
    anthropic_message,
    asked_effort,
    thinking_arguments,
    to_tools,
)

_UNUSABLE = lazy_regex("[^A-Za-z0-9_-]")
_NOT_AT_THE_TOP = {"$schema", "$id", "title", "oneOf", "anyOf", "allOf"}
"""Of a tool's schema: refused, or useless to the model."""
_THOUGHTS = ("thinking", "redacted_thinking")
_OWN = ("text", "tool_use", *_THOUGHTS)
"""The types of blocks that the model itself writes; all others are of tools that the provider
runs."""
_NOTHING = (StreamPiece(),)


@dataclass(frozen=True)
class _Turn:
    """One message: its role, its blocks, and both as JSON."""

    role: str
    blocks: list[Wire]
    written: bytes


class AnthropicWriter:
    """Writes the requests of one model."""

    def __init__(self, target: Target, effort: Effort | None) -> None:
        self._effort = effort
        self._turns = {
            thinks: PerMessage(partial(_turn, target=target, thinks=thinks))
            for thinks in (True, False)
        }

    def body(self, request: ModelRequest, target: Target) -> bytes:
        effort, thinks = asked_effort(self._effort, "anthropic", request.messages)
        asked = thinking_arguments(
            effort, "anthropic", target.max_tokens, target.facts, target.room
        )
        if level := asked.pop("reasoning_effort", None):
            asked["thinking"] = {"type": "adaptive", "display": "summarized"}
            asked["output_config"] = {"effort": level}
        head: Wire = {
            "model": target.bare_name,
            "max_tokens": target.max_tokens,
            "stream": True,
            **asked,
        }
        if request.system:
            head["system"] = [{"type": "text", "text": request.system, **MARKED}]
        own = (one.tool for one in declared_in(request, target))
        if tools := [*map(_tool, to_tools(request.tools, "anthropic")), *own]:
            head["tools"] = tools
        turns = self._turns[thinks](sendable(request.messages))
        return json_body(head, "messages", _alternating(turns))


def _alternating(turns: list[_Turn]) -> list[bytes]:
    """Join the messages of one role that follow each other, and mark the last block of all for the
    cache."""
    if turns:
        *blocks, last = turns[-1].blocks
        turns[-1] = _written(turns[-1].role, [*blocks, _marked(last)])
    joined: list[bytes] = []
    role = ""
    for turn in turns:
        if turn.role == role:
            _, _, content = turn.written.partition(b"[")
            joined[-1] = joined[-1][: -len(b"]}")] + b"," + content
        else:
            joined.append(turn.written)
            role = turn.role
    return joined


def _marked(block: Wire) -> Wire:
    """Put the cache marker on the block, or on the last part of a result; on thinking it is not
    allowed."""
    match block["type"]:
        case "tool_result":
            *parts, last = block["content"]
            return {**block, "content": [*parts, {**last, **MARKED}]}
        case "text" | "image":
            return {**block, **MARKED}
        case _:
            return block


def _turn(message: Message, *, target: Target, thinks: bool) -> _Turn:
    wire = anthropic_message(message, error_flag=True, thinks=thinks)
    if (content := content_for(message, target)) is not None:
        return _written("assistant", [*provider_blocks(content, _calls(wire), thinks=thinks)])
    return _written("assistant" if wire["role"] == "assistant" else "user", _blocks(wire))


def provider_blocks(
    content: ProviderContent, calls: Sequence[Wire], *, thinks: bool
) -> Iterator[Wire]:
    """Yield an answer as it came, with these blocks in the places of its calls, and its thinking if
    it gets that."""
    blocks = with_calls(content, "tool_use", calls)
    return (block for block in blocks if thinks or block["type"] not in _THOUGHTS)


def _written(role: str, blocks: list[Wire]) -> _Turn:
    return _Turn(role, blocks, encoded({"role": role, "content": blocks}))


def _blocks(wire: Wire) -> list[Wire]:
    match wire["role"]:
        case "user":
            return [*map(_part, wire["content"])]
        case "tool":
            result = {"type": "tool_result", "tool_use_id": _call_id(wire["tool_call_id"])}
            failed = {"is_error": True} if wire.get("is_error") else {}
            return [{**result, "content": [*map(_part, wire["content"])], **failed}]
    said = [{"type": "text", "text": wire["content"]}] if wire["content"] else []
    return [*wire.get("thinking_blocks", ()), *said, *_calls(wire)]


def _calls(wire: Wire) -> list[Wire]:
    return [
        {
            "type": "tool_use",
            "id": _call_id(call["id"]),
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in wire.get("tool_calls", ())
    ]


def _part(part: Wire) -> Wire:
    if part["type"] == "text":
        return part
    media_type, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _call_id(call_id: str) -> str:
    """Return an id in Anthropic's alphabet: other providers' ids may be in the history."""
    return _UNUSABLE.sub("_", call_id)


def _tool(tool: Wire) -> Wire:
    function = tool["function"]
    given = {
        key: value for key, value in function["parameters"].items() if key not in _NOT_AT_THE_TOP
    }
    schema = {"type": "object", "properties": {}, **given}
    wire = {
        "name": function["name"],
        "description": function["description"],
        "input_schema": schema,
        "type": "custom",
    }
    return {**wire, **MARKED} if "cache_control" in tool else wire


@dataclass
class _Block:
    """One block as it comes in."""

    begun: Wire
    pieces: list[str] = field(default_factory=list)
    """Of its text, its thinking, or the JSON of its input."""
    signature: str = ""
    citations: list[Any] = field(default_factory=list)

    def whole(self) -> Wire:
        """Return the block to send back; of a call of ours only the place is kept."""
        said = "".join(self.pieces)
        match self.begun:
            case {"type": "tool_use"}:
                return {"type": "tool_use"}
            case {"type": "text"}:
                cited = [*(self.begun.get("citations") or ()), *self.citations]
                text = f"{self.begun.get('text') or ''}{said}"
                return {"type": "text", "text": text, **({"citations": cited} if cited else {})}
            case {"type": "thinking"}:
                thought, signature = (
                    str(self.begun.get("thinking") or ""),
                    self.begun.get("signature"),
                )
                return {
                    "type": "thinking",
                    "thinking": thought + said,
                    "signature": signature or self.signature,
                }
            case _:
                return {**self.begun, "input": json.loads(said)} if is_object(said) else self.begun


class AnthropicReader:
    """Reads one stream. If it has blocks of the provider's own tools, its end comes with all its
    blocks."""

    def __init__(self, tools: MakeProviderTools = ProviderTools) -> None:
        self._tools = tools
        self._calls: dict[Any, tuple[int, bool]] = {}
        """By the index of its block: the number of an open call, and whether its arguments have
        begun."""
        self._count = 0
        self._blocks: dict[Any, _Block] = {}
        """By index, in order."""
        self._usage: dict[str, Any] = {}
        self._finished = False

    def read(self, event: dict[str, Any]) -> Iterable[StreamPiece]:
        """Read one event. Raises ProviderError."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event.get("index"), event.get("delta") or {})
            case "content_block_start":
                return self._start(event.get("index"), event.get("content_block") or {})
            case "content_block_stop":
                return self._stop(event.get("index"))
            case "message_start":
                message = event.get("message") or {}
                return (StreamPiece(Delta(), self._figures(message.get("usage"))),)
            case "message_delta":
                finish = (event.get("delta") or {}).get("stop_reason") or None
                self._finished = self._finished or finish is not None
                return (StreamPiece(self._end(finish), self._figures(event.get("usage"))),)
            case "message_stop" if not self._finished:
                return (StreamPiece(self._end("end_turn")),)
            case "error":
                raise ProviderError(event.get("error"))
            case _:
                return _NOTHING

    def end(self) -> Iterable[StreamPiece]:
        return ()

    def _start(self, index: Any, block: dict[str, Any]) -> Sequence[StreamPiece]:
        self._calls.pop(index, None)
        self._blocks[index] = _Block(block if block.get("type") else {"type": "text"})
        match block:
            case {"type": str(kind), "tool_use_id": used} if kind.endswith("_tool_result"):
                call = next(
                    (one.whole() for one in self._blocks.values() if one.begun.get("id") == used),
                    {},
                )
                use = self._tools().of_block(call, block)
                return _NOTHING if use is None else _piece(work=ProviderWork(uses=(use,)))
            case {"type": "text", "text": str(text)} if text:
                return _piece(text=text)
            case {"type": "thinking"}:
                return self._thought(block.get("thinking"), block.get("signature"))
            case {"type": "redacted_thinking", "data": str(data)}:
                return _piece(thinking=(Thinking(redacted=data),))
            case {"type": "tool_use"}:
                number = self._count
                self._count += 1
                given = block.get("input")
                arguments = json.dumps(given, ensure_ascii=False) if given else ""
                self._calls[index] = number, bool(given)
                return _piece(
                    calls=(
                        CallPiece(
                            number, block.get("id") or None, block.get("name") or None, arguments
                        ),
                    )
                )
            case _:
                return _NOTHING

    def _delta(self, index: Any, delta: dict[str, Any]) -> Sequence[StreamPiece]:
        block = self._blocks.get(index) or self._blocks.setdefault(index, _Block({"type": "text"}))
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block.pieces.append(text)
                return _piece(text=text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block.pieces.append(text)
                return self._thought(text, None)
            case {"type": "signature_delta", "signature": str(signature)}:
                block.signature += signature
                return self._thought("", signature)
            case {"type": "input_json_delta", "partial_json": str(part)} if part:
                block.pieces.append(part)
                return self._arguments(index, part)
            case {"type": "citations_delta", "citation": citation}:
                block.citations.append(citation)
                return _NOTHING
            case _:
                return _NOTHING

    def _arguments(self, index: Any, part: str) -> Sequence[StreamPiece]:
        """Pass a part of a call's arguments on, if the call is one of ours."""
        if index not in self._calls:
            return _NOTHING
        number, _ = self._calls[index]
        self._calls[index] = number, True
        return _piece(calls=(CallPiece(number, arguments=part),))

    def _stop(self, index: Any) -> Sequence[StreamPiece]:
        if index not in self._calls:
            return _NOTHING
        number, begun = self._calls.pop(index)
        return _piece(calls=(CallPiece(number, arguments="" if begun else "{}", ends=True),))

    def _end(self, finish: str | None) -> Delta:
        if finish is None or all(
            block.begun.get("type") in _OWN for block in self._blocks.values()
        ):
            return Delta(finish=finish)
        blocks = [block.whole() for block in self._blocks.values()]
        kept = tuple(
            block
            for block in blocks
            if str(block.get("text", "x")).strip() and block.get("signature", "x")
        )
        cited = sources_of(
            citation for block in self._blocks.values() for citation in block.citations
        )
        return Delta(work=ProviderWork(cited=cited, content=kept), finish=finish)

    def _thought(self, text: Any, signature: Any) -> Sequence[StreamPiece]:
        if not (text or signature):
            return _NOTHING
        return _piece(thinking=(Thinking(text=text or "", signature=signature or None),))

    def _figures(self, usage: Any) -> Usage | None:
        """Add to the figures so far: later ones count everything again, but may leave some out."""
        if not isinstance(usage, dict):
            return None
        self._usage |= {name: figure for name, figure in usage.items() if figure}
        read = count(self._usage, "cache_read_input_tokens")
        written = count(self._usage, "cache_creation_input_tokens")
        return Usage(
            input_tokens=count(self._usage, "input_tokens") + read + written,
            output_tokens=count(self._usage, "output_tokens"),
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=count(self._usage.get("output_tokens_details"), "thinking_tokens"),
            searches=count(self._usage.get("server_tool_use"), "web_search_requests"),
        )


def _piece(**fields: Any) -> Sequence[StreamPiece]:
    return (StreamPiece(Delta(**fields)),)
