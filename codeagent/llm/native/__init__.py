"""Requests and streams without litellm: how each wire format writes a request and reads the stream
that answers it."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, assert_never

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.model import ModelRequest
from codeagent.llm.provider_tools import MakeProviderTools, ProviderTools
from codeagent.llm.providers import Target, WireFormat
from codeagent.llm.stream import StreamPiece


class RequestWriter(Protocol):
    """Writes the requests of one model; it keeps the JSON of each message of the last history."""

    def body(self, request: ModelRequest, target: Target) -> bytes:
        """Return the JSON that is posted; `target` has the limits of this request."""


class StreamReader(Protocol):
    """Reads one stream."""

    def read(self, event: dict[str, Any]) -> Iterable[StreamPiece]:
        """Read one decoded event. Raises ProviderError for the provider's error event."""

    def end(self) -> Iterable[StreamPiece]:
        """Return what follows from the stream's proper end, for servers that never say why they
        stop."""


@dataclass(frozen=True)
class Format:
    writer: Callable[[Target, Effort | None], RequestWriter]
    """One per model."""
    reader: Callable[[], StreamReader]
    """One per answer."""


def format_of(wire: WireFormat, tools: MakeProviderTools = ProviderTools) -> Format:
    """Return one format, importing only what it needs; `tools` reads what a provider's own tools
    did."""
    match wire:
        case "chat":
            from codeagent.llm.native.chat import ChatReader, ChatWriter

            return Format(ChatWriter, ChatReader)
        case "responses":
            from codeagent.llm.native.responses import ResponsesReader, ResponsesWriter

            return Format(ResponsesWriter, partial(ResponsesReader, tools))
        case "anthropic":
            from codeagent.llm.native.anthropic import AnthropicReader, AnthropicWriter

            return Format(AnthropicWriter, partial(AnthropicReader, tools))
        case _:
            assert_never(wire)
