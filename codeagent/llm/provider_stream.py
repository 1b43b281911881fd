"""Reads one litellm stream at its source, before litellm adds anything, into plain deltas and usage.

litellm's own wrapper says "stop" for a stream that was cut, makes up usage, joins the calls of
sloppy servers and holds text back; it costs most of the time of a chunk. So the provider's stream
below it is read, and the wrapper only translates the formats it alone understands.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.llm.native.chat import read_delta
from codeagent.llm.stream import Delta, StreamPiece
from codeagent.llm.usage import read_usage

_ADDED = "response.output_item.added"
_DELTA = "response.function_call_arguments.delta"


async def read_stream(wrapper: Any) -> AsyncIterator[StreamPiece]:
    """Read `wrapper`, litellm's CustomStreamWrapper. Errors are those of the library that reads the socket.

    Some OpenAI-compatible servers never say why they stop. Their last chunk is the usage alone: after
    that, nothing is missing.
    """
    if wrapper.completion_stream is None:
        await wrapper.fetch_stream()
    source = wrapper.completion_stream
    if not hasattr(source, "__aiter__"):
        source = wrapper
    _keep_whole_inputs(source)
    _keep_whole_calls(source)
    finish, closing = None, False
    async for raw in source:
        if source is not wrapper and hasattr(raw, "choices"):
            piece = StreamPiece(read_delta(raw), read_usage(raw))
            finish = piece.delta.finish or finish
            closing = piece.usage is not None and piece.delta == Delta() and type(raw).__module__.startswith("openai.")
            yield piece
            continue
        if isinstance(raw, dict) and not any(raw.values()):
            continue
        chunk = raw if source is wrapper else wrapper.chunk_creator(chunk=raw)
        if chunk is not None:
            yield StreamPiece(replace(read_delta(chunk), finish=None), read_usage(chunk))
    if wrapper.received_finish_reason:
        yield StreamPiece(Delta(finish=str(wrapper.received_finish_reason)), None)
    elif finish is None and closing:
        yield StreamPiece(Delta(finish="stop"), None)


def _keep_whole_inputs(source: Any) -> None:
    """Make litellm's reader of Anthropic events pass on an input that comes whole with the start of its block."""
    parse: Callable[[dict[str, Any]], Any] | None = getattr(source, "chunk_parser", None)
    if parse is None or not type(source).__module__.startswith("litellm.llms.anthropic"):
        return

    def parse_with_input(chunk: dict[str, Any]) -> Any:
        parsed = parse(chunk)
        block = chunk.get("content_block") if chunk.get("type") == "content_block_start" else None
        if block and block.get("type") == "tool_use" and block.get("input"):
            parsed.choices[0].delta.tool_calls[0].function.arguments = json.dumps(block["input"], ensure_ascii=False)
        return parsed

    source.chunk_parser = parse_with_input


@dataclass
class _Heard:
    """Which parts of one call were passed on."""

    id: bool
    arguments: bool


def _keep_whole_calls(source: Any) -> None:
    """Make litellm's reader of responses events pass on what a server says only at the end of a call or answer.

    It takes arguments only from deltas and the id only from a call's first event; LM Studio and others send neither.
    """
    parse: Callable[[dict[str, Any]], Any] | None = getattr(source, "chunk_parser", None)
    if parse is None or not type(source).__module__.startswith("litellm.completion_extras"):
        return
    heard: dict[int, _Heard] = {}

    def parse_whole(chunk: dict[str, Any]) -> Any:
        kind, index = str(getattr(chunk.get("type"), "value", chunk.get("type"))), chunk.get("output_index", 0)
        match kind, chunk:
            case "response.output_item.added" | "response.output_item.done", {
                "item": {"type": "function_call"} as item
            }:
                return with_item(chunk, index, item)
            case "response.function_call_arguments.delta", {"delta": str(delta)} if delta:
                heard.setdefault(index, _Heard(id=True, arguments=True)).arguments = True
            case "response.function_call_arguments.delta", _:
                return parse({"type": "response.in_progress"})
            case "response.function_call_arguments.done", {"arguments": str(arguments)} if arguments:
                return the_rest(index, arguments, None)
            case "response.completed" | "response.incomplete", {"response": {"output": list(items)}}:
                parsed = parse(chunk)
                parsed.choices[0].delta.tool_calls = list(at_the_end(items, begun=bool(heard))) or None
                return parsed
        return parse(chunk)

    def with_item(chunk: dict[str, Any], index: int, item: dict[str, Any]) -> Any:
        if index in heard:
            return the_rest(index, item.get("arguments") or "", item.get("call_id") or item.get("id"))
        heard[index] = _Heard(id=bool(item.get("call_id")), arguments=bool(item.get("arguments")))
        parsed = parse({**chunk, "type": _ADDED})
        parsed.choices[0].delta.tool_calls[0].id = item.get("call_id") or None
        return parsed

    def the_rest(index: int, arguments: str, call_id: str | None) -> Any:
        """Pass on what no earlier event said."""
        known = heard.setdefault(index, _Heard(id=True, arguments=False))
        new_id = None if known.id else call_id
        if known.arguments and new_id is None:
            return parse({"type": "response.in_progress"})
        parsed = parse({"type": _DELTA, "output_index": index, "delta": arguments or " "})
        call = parsed.choices[0].delta.tool_calls[0]
        call.id, call.function.arguments = new_id, "" if known.arguments else arguments
        heard[index] = _Heard(id=known.id or new_id is not None, arguments=known.arguments or bool(arguments))
        return parsed

    def at_the_end(items: list[Any], begun: bool) -> Iterator[Any]:
        """Yield the calls of the final list; a new one counts only if no call was heard of: the indices may differ."""
        for index, item in enumerate(items):
            if not isinstance(item, dict) or item.get("type") != "function_call" or (begun and index not in heard):
                continue
            whole = with_item({"output_index": index, "item": item}, index, item)
            yield from whole.choices[0].delta.tool_calls or ()

    source.chunk_parser = parse_whole
