"""What the model sees: user, assistant and tool messages, and the rule that every call has exactly
one result; and what a call may print before that."""

from collections.abc import Awaitable, Generator, Iterable, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, get_args

from codeagent.core.dataclass import record
from codeagent.core.display import Thumbnail
from codeagent.core.json_types import JsonForm, JsonObject, OneOf


@record
class TextPart:
    type: Literal["text"] = "text"
    text: str


@record
class ImagePart:
    type: Literal["image"] = "image"
    media_type: str
    data: str
    """Base64 of the image file's bytes."""


ContentPart = Annotated[TextPart | ImagePart, OneOf("type")]


@record
class Thinking:
    """One block of the model's reasoning, sent back to its provider unchanged."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    """The opaque data of a block whose text the provider withholds."""


@record
class ToolCall:
    """A call as the model asked for it."""

    id: str
    """Unique within the session, even if the provider's own ids are not."""
    name: str
    arguments: str = ""
    """Raw text of the arguments: JSON, or whatever the model produced instead."""


@record
class WebSource:
    """A page that the provider found or cited."""

    title: str = ""
    url: str


@record
class ProviderContent:
    """The items of an answer in which the provider used its own tools; they are sent back
    unchanged."""

    origin: str
    """The provider, or address of a server, that it came from. Others are sent only the text and
    the calls."""
    items: tuple[JsonObject, ...]
    """Everything in the answer, in order; a call of ours is only a placeholder here."""

    @property
    def begun(self) -> frozenset[str]:
        """The ids of the calls of its own tools; it rejects them without their results, here or in
        a later answer."""
        return frozenset(
            str(item.get("id")) for item in self.items if item.get("type") == "server_tool_use"
        )

    @property
    def results(self) -> frozenset[str]:
        """The ids of the calls of its own tools whose results are in this answer; a call may be in
        an earlier one."""
        return frozenset(str(item["tool_use_id"]) for item in self.items if "tool_use_id" in item)

    @property
    def unfinished(self) -> frozenset[str]:
        """The ids of the calls of its own tools whose results come with the next answer."""
        return self.begun - self.results


@record
class Usage:
    """Tokens and cost of one or more requests.

    `input_tokens` counts every prompt token, cached ones included.
    """

    json_form: ClassVar[JsonForm] = JsonForm(omitted=("searches",))

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    searches: int = 0
    """The provider's own searches, which are charged beside the tokens."""
    cost_usd: float | None = None
    """None if no price is known for the model."""
    estimated: bool = False
    """Whether the figures are estimated from the text, because the provider sent no usage."""

    def __add__(self, other: "Usage") -> "Usage":
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            searches=self.searches + other.searches,
            cost_usd=sum(costs) if costs else None,
            estimated=self.estimated or other.estimated,
        )


UserSource = Literal["prompt", "steer", "interrupt", "follow_up", "note"]
StopReason = Literal["end", "tool_calls", "length", "content_filter", "cut", "paused"]


@record
class Attachment:
    """What a mention, a name after an `@`, brought into a prompt, as the user sees it."""

    json_form: ClassVar[JsonForm] = JsonForm(omitted=("thumbnail", "details"))

    name: str
    """As it was typed."""
    about: str
    """How large it is, in a few words."""
    thumbnail: Thumbnail | None = None
    details: JsonObject = field(default_factory=dict)
    """Which lines of a file it shows, in the form of the details of a `read` result."""


@record
class UserMessage:
    json_form: ClassVar[JsonForm] = JsonForm(omitted=("attached",))

    role: Literal["user"] = "user"
    content: tuple[ContentPart, ...]
    source: UserSource = "prompt"
    """Where the text came from; `note` is written by codeagent itself."""
    attached: tuple[Attachment, ...] = ()
    """The attachments that it contains, if it is the note about a prompt's mentions."""

    @classmethod
    def from_text(cls, text: str, source: UserSource = "prompt") -> "UserMessage":
        return cls(content=(TextPart(text=text),), source=source)


@record
class AssistantMessage:
    json_form: ClassVar[JsonForm] = JsonForm(omitted=("provider_content",))

    role: Literal["assistant"] = "assistant"
    text: str = ""
    thinking: tuple[Thinking, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason = "end"
    """`cut`: the stream ended early and only the text was kept. `paused`: the provider's own tools
    are still at work, and the next request lets them continue."""
    model: str = ""
    provider_content: ProviderContent | None = None


@record
class ToolMessage:
    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    content: tuple[ContentPart, ...]
    is_error: bool = False


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, OneOf("role")]


ErrorKind = Literal[
    "invalid_args",
    "not_found",
    "denied",
    "skipped",
    "cancelled",
    "timeout",
    "unavailable",
    "failed",
]
OutputStream = Literal["output", "stdout", "stderr"]
STREAMS: tuple[OutputStream, ...] = get_args(OutputStream)


@record
class ErrorInfo:
    """Why a call did not succeed."""

    kind: ErrorKind
    message: str


def is_at_work(messages: Sequence[Message]) -> bool:
    """Whether the provider's own tools are still running.

    If so, only results of our calls may follow the last answer, and the next request lets the tools
    continue.
    """
    answer = next(
        (message for message in reversed(messages) if not isinstance(message, ToolMessage)), None
    )
    if not isinstance(answer, AssistantMessage):
        return False
    if not answer.calls:
        return answer.stop == "paused"
    return answer.provider_content is not None and bool(answer.provider_content.unfinished)


def text_of(content: tuple[ContentPart, ...]) -> str:
    """Return the text parts joined by newlines; images are left out."""
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def shows_images(message: Message) -> bool:
    return not isinstance(message, AssistantMessage) and any(
        isinstance(part, ImagePart) for part in message.content
    )


def attached_to(messages: Iterable[Message]) -> tuple[Attachment, ...]:
    """Return the attachments of the prompts among the messages."""
    return tuple(
        one for message in messages if isinstance(message, UserMessage) for one in message.attached
    )


class TranscriptCheck:
    """Checks a transcript message by message, so that a growing one is read only once."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[str] = []
        self.call_ids: set[str] = set()

    def read(self, message: Message) -> list[str]:
        """Return what is wrong with the next message, one sentence each."""
        self._count += 1
        if isinstance(message, ToolMessage):
            return self._read_result(message)
        problems = [
            f"call {call_id} has no result before message {self._count}" for call_id in self._open
        ]
        self._open = []
        if self._count == 1 and message.role != "user":
            problems.append(
                f"message 1 is from the {message.role}; a transcript begins with the user"
            )
        if isinstance(message, AssistantMessage):
            problems += self._read_answer(message)
        return problems

    def unanswered(self) -> list[str]:
        """Return what is wrong if no further message follows."""
        return [f"call {call_id} has no result" for call_id in self._open]

    def _read_result(self, message: ToolMessage) -> list[str]:
        if message.call_id not in self._open:
            return [
                f"message {self._count} is a result for {message.call_id}, which no open call has"
            ]
        expected = self._open[0]
        self._open.remove(message.call_id)
        if message.call_id != expected:
            return [
                f"message {self._count} answers {message.call_id} before {expected}: wrong order"
            ]
        return []

    def _read_answer(self, message: AssistantMessage) -> list[str]:
        number, problems = self._count, []
        if not (message.text or message.calls or message.thinking or message.provider_content):
            problems.append(f"message {number} from the assistant is empty")
        self._open = [call.id for call in message.calls]
        known = self.call_ids.intersection(self._open)
        problems += [
            f"message {number} uses the call id {call_id} again"
            for call_id in self._open
            if call_id in known
        ]
        if len(set(self._open)) != len(self._open):
            problems.append(f"message {number} uses one call id twice")
        self.call_ids.update(self._open)
        return problems


def transcript_problems(messages: Sequence[Message]) -> list[str]:
    """Return what a provider would reject, one sentence each; empty if the transcript is valid.

    Used by the scripted model, by resume and by `codeagent sessions check`.
    """
    check = TranscriptCheck()
    problems = [problem for message in messages for problem in check.read(message)]
    return problems + check.unanswered()


class Done:
    """Returned by a callback that has already done its work: awaiting it returns at once."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


DONE = Done()


def require_text(what: str, text: object) -> None:
    """Raises TypeError: a tool may be user-defined, and pass anything."""
    if not isinstance(text, str):
        raise TypeError(f"{what} takes text, not {type(text).__name__}")


def require_update(text: object, stream: object) -> None:
    """Raises TypeError, ValueError for what `on_update` does not take."""
    require_text("on_update", text)
    if stream not in STREAMS:
        raise ValueError(f"stream is one of {', '.join(STREAMS)}, not {stream!r}")


def ignored(*_: object) -> Awaitable[None]:
    """The `on_update` and `on_progress` of a call that nobody watches."""
    return DONE
