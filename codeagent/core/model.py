"""The model port: one request in, a stream of small events out."""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, replace
from typing import Literal, Protocol

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass, record
from codeagent.core.messages import AssistantMessage, ImagePart, Message, ToolCall, Usage, WebSource
from codeagent.core.tool import ToolDefinition

PROVIDER_TOOLS = ("web_search", "code_execution", "image_generation")
"""Tools that some providers run themselves, under our names for them."""


@dataclass(frozen=True)
class ModelRequest:
    """Everything that is sent to a provider; its prefix is byte-identical from turn to turn."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    purpose: Literal["turn", "summary"] = "turn"
    """What the answer is for; providers are not told."""


@dataclass(frozen=True)
class AnswerBegun:
    """The provider begins to answer."""

    count: Callable[[AssistantMessage], Usage]
    """Estimates what the request used if it is stopped once that much of its answer came. May take
    milliseconds."""


@dataclass(frozen=True)
class TextPiece:
    text: str


@dataclass(frozen=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True)
class CallGrowing:
    """A piece of a call's arguments; the call may still be discarded with the answer."""

    call_id: str
    """As in the CallClosed that follows, unless the provider gives the call another id in
    between."""
    name: str
    """As far as it is known."""
    text: str


@dataclass(frozen=True)
class CallClosed:
    """A call's block ended in the stream; it may still be discarded with the answer."""

    call: ToolCall
    certain: bool = True
    """Whether nothing that follows in the answer can take the call back."""


@dataclass(frozen=True)
class Heartbeat:
    """Something arrived that is not shown; the stream is alive."""


@record
class ProviderUse:
    """The provider used one of its own tools, on its own machines. All texts are safe for a
    terminal."""

    tool: str
    target: str = ""
    """The query, command or page, on one line."""
    output: str = ""
    sources: tuple[WebSource, ...] = ()
    images: tuple[ImagePart, ...] = ()
    files: tuple[str, ...] = ()
    """Ids or names of files that stay with the provider."""
    error: str = ""


@dataclass(frozen=True)
class ToolsLeftOut:
    """Tools that only a provider can run and that the provider of `model` does not have: they were
    not sent."""

    model: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Adapted:
    """From now on the model is asked in another way, which the user should know of: what came so
    far is void."""

    text: str
    """What happened and what is done about it, on one line."""


@dataclass(frozen=True)
class Retrying:
    """The attempt failed and is repeated after `delay` seconds: forget its deltas and calls."""

    reason: str
    attempt: int
    """Number of the next attempt, from 2."""
    delay: float
    attempts: int = 0
    """How many are made at most; 0 if that is unknown."""


@dataclass(frozen=True)
class FellBack:
    """The model was given up and another one answers from now on: forget its deltas and calls."""

    reason: str
    model: str
    """The name of the model that takes over."""
    server: str = ""
    """The host that requests go to from now on; empty if that has not changed."""


@dataclass(frozen=True)
class ModelAnswer:
    """The whole answer, sent once at the end."""

    message: AssistantMessage
    usage: Usage


ModelEvent = (
    AnswerBegun
    | TextPiece
    | ReasoningPiece
    | CallGrowing
    | CallClosed
    | ProviderUse
    | ToolsLeftOut
    | Adapted
    | Heartbeat
    | Retrying
    | FellBack
    | ModelAnswer
)


class Model(Protocol):
    @property
    def name(self) -> str:
        """The name as the user gave it."""

    @property
    def context_window(self) -> int | None:
        """The context window in tokens; None if unknown."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request. Ends with exactly one Answer or raises ModelError; cancelling closes
        the connection."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class ModelFacts:
    """What is known about a model; a fact that is not known is None."""

    window: int | None = None
    """In tokens, for the prompt and the answer together."""
    tools: bool | None = None
    """Whether it can be given tools: it takes them, and its chat template has them."""
    thinking: bool | None = None
    images: bool | None = None
    prices: tuple[float, float] | None = None
    """US dollars per million tokens, of input and of output."""

    def or_else(self, other: "ModelFacts") -> "ModelFacts":
        """Return these facts, completed from `other`."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(other, **known)


@dataclass(frozen=True)
class ModelInUse:
    """The model of a conversation, and how it is used."""

    name: str
    """The name as the user gave it."""
    api_base: str | None = None
    effort: Effort | None = None
    """None: the provider's default."""
    context_window: int | None = None
    """The context window in tokens; None if unknown."""
    lane: str = ""
    """How its requests are sent, in a few words; empty if it sends none."""
    server: str = ""
    """The host, with its port if one is given, that its requests go to; empty if it sends none."""
    images: bool | None = None
    """Whether it sees images; None if that is not known."""


def same_provider(name: str, other: str) -> bool:
    """Whether a model named `name` is asked at the server of `other`: it names no provider, or the
    same one."""
    provider, slash, _ = name.partition("/")
    return not slash or provider == other.partition("/")[0]


def from_now_on(server: str, before: str = "") -> str:
    """Return how a sentence ends after which text goes to `server`; empty if it goes to no other
    host than before."""
    return f"; from now on: {server}" if server not in ("", before) else ""


class ModelOpener(Protocol):
    """Opens the model that a conversation continues with."""

    async def __call__(
        self, name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        """Raises CodeagentError: nothing is left open then."""
