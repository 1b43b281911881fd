"""Reads one litellm stream at its source, where nothing is invented yet.

litellm's own wrapper says "stop" for a stream that was cut, makes up usage, joins the calls of
sloppy servers and holds text back; it costs most of the time of a chunk. So the provider's stream
below it is read, and the wrapper only translates the formats it alone understands.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

from codeagent.llm.chunks import read_delta, read_usage
from codeagent.llm.stream import Delta


@dataclass(frozen=True)
class Piece:
    delta: Delta
    usage: Any | None
    """The provider's own figures, where this chunk has them."""


async def read_pieces(wrapper: Any) -> AsyncIterator[Piece]:
    """`wrapper` is litellm's CustomStreamWrapper. Errors are those of the library that reads the socket.

    Some OpenAI-compatible servers never say why they stop. Their last chunk is the usage alone: after
    that nothing is missing.
    """
    if wrapper.completion_stream is None:
        await wrapper.fetch_stream()
    source = wrapper.completion_stream
    if not hasattr(source, "__aiter__"):
        source = wrapper
    _keep_whole_inputs(source)
    finish, closing = None, False
    async for raw in source:
        if source is not wrapper and hasattr(raw, "choices"):
            piece = Piece(read_delta(raw), read_usage(raw))
            finish = piece.delta.finish or finish
            closing = piece.usage is not None and piece.delta == Delta() and type(raw).__module__.startswith("openai.")
            yield piece
            continue
        if isinstance(raw, dict) and not any(raw.values()):
            continue
        chunk = raw if source is wrapper else wrapper.chunk_creator(chunk=raw)
        if chunk is not None:
            yield Piece(replace(read_delta(chunk), finish=None), read_usage(chunk))
    if wrapper.received_finish_reason:
        yield Piece(Delta(finish=str(wrapper.received_finish_reason)), None)
    elif finish is None and closing:
        yield Piece(Delta(finish="stop"), None)


def _keep_whole_inputs(source: Any) -> None:
    """Make litellm's reader of Anthropic events pass on an input that comes whole with its block's start."""
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
