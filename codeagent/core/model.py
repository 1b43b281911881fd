"""The model port: one request in, a stream of small events out."""

from collections.abc import AsyncIterator
from typing import Protocol

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.messages import AssistantMessage, ImagePart, Message, ToolCall, Usage, WebSource
from codeagent.core.tool import ToolDefinition

PROVIDER_TOOLS = ("web_search", "code_execution", "image_generation")
"""The tools that some providers run themselves, by our names."""


@dataclass(frozen=True)
class ModelRequest:
    """Everything a provider is sent; its prefix is byte-identical from turn to turn."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True)
class TextPiece:
    text: str


@dataclass(frozen=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True)
class CallClosed:
    """A call's block ended in the stream; it may still be discarded with the answer."""

    call: ToolCall


@dataclass(frozen=True)
class Heartbeat:
    """Something came that is not shown yet, such as part of a call's arguments; it only ends the silence."""


@dataclass(frozen=True, kw_only=True)
class ProviderUse:
    """The provider used one of its own tools, on its own machines. All texts are harmless to a terminal."""

    tool: str
    target: str = ""
    """What it was for: the query, the command, the page; on one line."""
    output: str = ""
    sources: tuple[WebSource, ...] = ()
    images: tuple[ImagePart, ...] = ()
    files: tuple[str, ...] = ()
    """Ids or names of files that stay with the provider."""
    error: str = ""


@dataclass(frozen=True)
class ToolsLeftOut:
    """Tools that only a provider could run, which that of `model` does not have: they were not sent."""

    model: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Retrying:
    """The attempt failed and is repeated after `delay` seconds: forget its deltas and calls."""

    reason: str
    attempt: int
    """Number of the next attempt, from 2."""
    delay: float


@dataclass(frozen=True)
class FellBack:
    """The model was given up, and another one answers from now on: forget its deltas and calls."""

    reason: str
    model: str
    """The name of the one that takes over."""


@dataclass(frozen=True)
class ModelAnswer:
    """The whole answer, once, at the end."""

    message: AssistantMessage
    usage: Usage


ModelEvent = (
    TextPiece | ReasoningPiece | CallClosed | ProviderUse | ToolsLeftOut | Heartbeat | Retrying | FellBack | ModelAnswer
)


class Model(Protocol):
    @property
    def name(self) -> str:
        """As the user gave it."""

    @property
    def context_window(self) -> int | None:
        """Tokens; None if unknown."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask. Ends with exactly one Answer or raises ModelError; cancelling closes the connection."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class ModelInUse:
    """What a conversation is held with."""

    name: str
    """As the user gave it."""
    api_base: str | None = None
    effort: Effort | None = None
    """None: as the provider has it."""
    context_window: int | None = None
    """Tokens; None if unknown."""
    lane: str = ""
    """How its requests are sent, in a few words; empty if none are."""


class ModelOpener(Protocol):
    """Opens the model that a conversation continues with."""

    async def __call__(self, name: str, api_base: str | None, effort: Effort | None) -> tuple[Model, ModelInUse]:
        """Raises CodeagentError: nothing is left open then."""
