"""Reads one litellm stream at its source, before litellm adds anything, into plain deltas and
usage.

litellm's own wrapper says "stop" for a stream that was cut, makes up usage, joins the calls of
sloppy servers and holds text back; it costs most of the time of a chunk. So the provider's stream
below it is read, by the readers of the native lane if it has one of their formats, and the wrapper
only translates the formats it alone understands.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.llm.native import format_of
from codeagent.llm.native.chat import read_delta
from codeagent.llm.provider_tools import MakeProviderTools, ProviderTools
from codeagent.llm.providers import WireFormat
from codeagent.llm.stream import Delta, StreamPiece
from codeagent.llm.usage import read_usage

_GEMINI = "litellm.llms.vertex_ai"
"""Where litellm's reader of Gemini's events is: it says "stop" for every event that does not say
why it is the last."""
_TYPED: Mapping[str, WireFormat] = {
    "litellm.llms.anthropic": "anthropic",
    "litellm.completion_extras": "responses",
}
"""Where litellm's readers of typed events are, and whose events they read."""


@dataclass(frozen=True)
class _Event:
    chunk: dict[str, Any]
    """Named as litellm names the argument of its parsers."""


async def read_stream(
    wrapper: Any, tools: MakeProviderTools = ProviderTools
) -> AsyncIterator[StreamPiece]:
    """Read `wrapper`, litellm's CustomStreamWrapper. Errors are those of the library that reads the
    socket.

    Raises ProviderError for an error event.
    """
    if wrapper.completion_stream is None:
        await wrapper.fetch_stream()
    source = wrapper.completion_stream
    if not hasattr(source, "__aiter__"):
        source = wrapper
    reader = format_of(_pass_events_on(source), tools).reader()
    from_server = True
    async for raw in source:
        if isinstance(raw, _Event) or (source is not wrapper and hasattr(raw, "choices")):
            from_server = isinstance(raw, _Event) or type(raw).__module__.startswith("openai.")
            for piece in reader.read(raw.chunk if isinstance(raw, _Event) else raw):
                yield piece
            continue
        if isinstance(raw, dict) and not any(raw.values()):
            continue
        chunk = raw if source is wrapper else wrapper.chunk_creator(chunk=raw)
        if chunk is not None:
            yield StreamPiece(replace(read_delta(chunk), finish=None), read_usage(chunk))
    if wrapper.received_finish_reason:
        yield StreamPiece(Delta(finish=str(wrapper.received_finish_reason)))
    elif from_server:
        for piece in reader.end():
            yield piece


def _pass_events_on(source: Any) -> WireFormat:
    """Make litellm's reader of typed events pass them on as they are; return the format of what
    comes.

    It loses inputs that come whole with the start of their block, and what a server says only at
    the end of a call or an answer.
    """
    if type(source).__module__.startswith(_GEMINI) and hasattr(source, "chunk_parser"):
        source.chunk_parser = partial(_as_said, source.chunk_parser)
        return "chat"
    wire = next(
        (wire for place, wire in _TYPED.items() if type(source).__module__.startswith(place)), None
    )
    if wire is None or not hasattr(source, "chunk_parser"):
        return "chat"
    source.chunk_parser = _Event
    return wire


def _as_said(parse: Callable[..., Any], chunk: dict[str, Any]) -> Any:
    """Parse one of Gemini's events; it ends the answer only if it gives a reason."""
    parsed = parse(chunk=chunk)
    blocked = (chunk.get("promptFeedback") or {}).get("blockReason")
    if not blocked and not any(one.get("finishReason") for one in chunk.get("candidates") or ()):
        for choice in getattr(parsed, "choices", None) or ():
            choice.finish_reason = None
    return parsed
