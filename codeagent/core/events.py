"""Everything that happens, as plain data: the session log is made of these (FEATURES, Events).

An event holds data only. Durable events are logged and never lost; the others may be merged.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, TypeAdapter

from codeagent.core.display import DisplayBlock
from codeagent.core.messages import AssistantMessage, ContentPart, Frozen, StopReason, Usage, UserMessage
from codeagent.core.policy import Answer, ApprovalSource, Mode, Permission
from codeagent.core.tool import ErrorInfo, OutputStream

VERSION = 1
RunReason = Literal["done", "failed", "limit", "denied", "interrupted"]
QueueKind = Literal["steer", "interrupt", "follow_up"]


class BaseEvent(Frozen):
    """The envelope of every event."""

    durable: ClassVar[bool] = True

    v: int = VERSION
    seq: int
    """Strictly increasing within a session; deltas that are merged or not logged leave gaps."""
    ts: float
    """Seconds since the epoch, UTC. Order is `seq`, never `ts`."""
    session: str
    agent: str = "main"


class RunStarted(BaseEvent):
    type: Literal["run.started"] = "run.started"
    model: str
    workspace: str
    mode: Mode
    strategy: str
    codeagent: str
    """Version of the program."""
    resumed: bool = False


class RunFinished(BaseEvent):
    type: Literal["run.finished"] = "run.finished"
    reason: RunReason
    text: str
    """The last thing the model said."""
    usage: Usage
    turns: int
    calls: int
    error: str | None = None
    duration_ms: int


class TurnStarted(BaseEvent):
    type: Literal["turn.started"] = "turn.started"
    turn: int
    """From 1, within the run."""


class TurnFinished(BaseEvent):
    type: Literal["turn.finished"] = "turn.finished"
    turn: int
    stop: StopReason
    usage: Usage


class MessageAdded(BaseEvent):
    """A user or assistant message; tool messages follow from `tool.result`."""

    type: Literal["message.added"] = "message.added"
    message: Annotated[UserMessage | AssistantMessage, Field(discriminator="role")]


class TextDelta(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["text.delta"] = "text.delta"
    text: str


class ReasoningDelta(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["reasoning.delta"] = "reasoning.delta"
    text: str


class ToolCallAdded(BaseEvent):
    """A call's block closed in the stream; nothing has run yet."""

    type: Literal["tool.call"] = "tool.call"
    call_id: str
    name: str
    arguments: str


class PlannedCall(Frozen):
    call_id: str
    name: str
    target: str
    permission: Permission
    """What the policy will say, before hooks."""
    reason: str = ""
    """Why, as a phrase."""


class BatchPlanned(BaseEvent):
    type: Literal["batch.planned"] = "batch.planned"
    batch: int
    """From 1, within the run."""
    calls: tuple[PlannedCall, ...]


class BatchFinished(BaseEvent):
    """The boundary: the point where a person can step in."""

    type: Literal["batch.finished"] = "batch.finished"
    batch: int
    executed: int
    skipped: int
    duration_ms: int


class SteerQueued(BaseEvent):
    type: Literal["steer.queued"] = "steer.queued"
    id: str
    kind: QueueKind
    text: str


class SteerDelivered(BaseEvent):
    """The text left its queue; unless `taken_back`, a user message follows."""

    type: Literal["steer.delivered"] = "steer.delivered"
    id: str
    kind: QueueKind
    taken_back: bool = False


class ApprovalRequested(BaseEvent):
    type: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    call_id: str
    name: str
    target: str
    reason: str
    blocks: tuple[DisplayBlock, ...]
    binding: str
    """SHA-256 over tool, arguments, root and the preview's base: what the answer is bound to."""
    arguments: str = ""
    """JSON: what `edit` begins with; empty where they cannot be edited."""
    proposal: str = ""
    """A rule that would allow this and its like, for the person to edit; empty where none can be proposed."""
    by_hunk: bool = False
    """Its DiffBlock may be answered hunk by hunk."""


class ApprovalResolved(BaseEvent):
    type: Literal["approval.resolved"] = "approval.resolved"
    approval_id: str
    call_id: str
    answer: Answer | Literal["cancelled"]
    source: ApprovalSource
    reason: str = ""
    rule: str = ""
    """The rule that was made of the answer."""
    keep: bool = False
    """It holds in later sessions of this workspace, too."""


class ToolStarted(BaseEvent):
    type: Literal["tool.started"] = "tool.started"
    call_id: str
    name: str
    target: str
    arguments: dict[str, JsonValue]


class ToolUpdated(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["tool.updated"] = "tool.updated"
    call_id: str
    name: str
    text: str
    """A further piece of the result."""
    stream: OutputStream = "output"


class ToolProgress(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["tool.progress"] = "tool.progress"
    call_id: str
    name: str
    text: str


class ToolFinished(BaseEvent):
    type: Literal["tool.finished"] = "tool.finished"
    call_id: str
    name: str
    is_error: bool
    duration_ms: int


class ToolResultAdded(BaseEvent):
    """The one result of a call, executed or not; it becomes the tool message."""

    type: Literal["tool.result"] = "tool.result"
    call_id: str
    name: str
    content: tuple[ContentPart, ...]
    is_error: bool
    executed: bool
    error: ErrorInfo | None = None
    blocks: tuple[DisplayBlock, ...] = ()
    details: dict[str, JsonValue] = Field(default_factory=dict)
    started_at: float | None = None
    duration_ms: int = 0
    approval: ApprovalSource | None = None
    """Who allowed or denied it; None where it never came that far."""
    rule: str | None = None
    """The rule that did."""
    sandbox: Literal["docker", "host"] | None = None
    child_session: str | None = None


class JobStarted(BaseEvent):
    """A call goes on in the background; its `tool.result` is, or was, the placeholder that names the job."""

    type: Literal["job.started"] = "job.started"
    job_id: str
    call_id: str
    name: str
    title: str
    promoted: bool = False
    """By the person; the call had begun as one that is waited for."""
    takes_input: bool = False


class JobUpdated(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["job.updated"] = "job.updated"
    job_id: str
    text: str
    """A further piece of what it prints."""
    stream: OutputStream = "output"


class JobFinished(BaseEvent):
    """A job has ended; the model is told once, by a message that is a pure function of this."""

    type: Literal["job.finished"] = "job.finished"
    job_id: str
    call_id: str
    name: str
    title: str
    status: Literal["done", "failed", "stopped", "lost"]
    summary: str
    """One line."""
    tail: str
    """The end of what it printed, or its answer; what the model is told."""
    exit_code: int | None = None
    lines: int = 0
    handle: str | None = None
    """Where `output_read` finds all of it; None where `tail` is all."""
    duration_ms: int = 0


class CheckpointCreated(BaseEvent):
    """A snapshot of the workspace, and a mark in the conversation; `checkpoint.restored` goes back to either."""

    type: Literal["checkpoint.created"] = "checkpoint.created"
    checkpoint_id: str
    """Unique within the session; a mark is one moment, also where the content is the same."""
    snapshot: str
    """The content, in the store."""
    cause: Literal["prompt", "batch", "after", "restore"]
    """Before a prompt's run; before or after a batch that may change files; before going back."""
    batch: int | None = None
    label: str = ""
    """The prompt, or the targets of the batch, in one line."""
    left_out: tuple[str, ...] = ()
    """What the snapshot does not cover, a phrase each."""


class CheckpointRestored(BaseEvent):
    """The files are, or the conversation is, as at the checkpoint again."""

    type: Literal["checkpoint.restored"] = "checkpoint.restored"
    checkpoint_id: str
    kind: Literal["undo", "redo", "rewind", "files"]
    """`files`: only some of them."""
    files: tuple[str, ...]
    """Paths that were changed by it."""
    conversation: bool
    """What was said after the checkpoint is no part of the conversation any more."""
    before: str
    """Id of the checkpoint of just before, where `redo` leads."""


class LimitReached(BaseEvent):
    type: Literal["limit.reached"] = "limit.reached"
    limit: str
    maximum: float


class Notice(BaseEvent):
    """Something a person should know; `code` is stable, `text` is for reading."""

    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"] = "info"
    code: str
    text: str
    data: dict[str, JsonValue] = Field(default_factory=dict)


class UnknownEvent(BaseModel):
    """An event of a newer version: kept, passed on, never interpreted."""

    model_config = ConfigDict(frozen=True, extra="allow")
    durable: ClassVar[bool] = True

    type: str
    v: int = VERSION
    seq: int
    ts: float
    session: str
    agent: str = "main"


KnownEvent = (
    RunStarted
    | RunFinished
    | TurnStarted
    | TurnFinished
    | MessageAdded
    | TextDelta
    | ReasoningDelta
    | ToolCallAdded
    | BatchPlanned
    | BatchFinished
    | SteerQueued
    | SteerDelivered
    | ApprovalRequested
    | ApprovalResolved
    | ToolStarted
    | ToolUpdated
    | ToolProgress
    | ToolFinished
    | ToolResultAdded
    | JobStarted
    | JobUpdated
    | JobFinished
    | CheckpointCreated
    | CheckpointRestored
    | LimitReached
    | Notice
)
EVENT_TYPES: dict[str, type[BaseEvent]] = {kind.model_fields["type"].default: kind for kind in KnownEvent.__args__}


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "known" if kind in EVENT_TYPES else "unknown"


Event = Annotated[
    Annotated[KnownEvent, Field(discriminator="type"), Tag("known")] | Annotated[UnknownEvent, Tag("unknown")],
    Discriminator(_tag),
]
_adapter: TypeAdapter[KnownEvent | UnknownEvent] = TypeAdapter(Event, config=ConfigDict(defer_build=True))


def parse_event(value: object) -> KnownEvent | UnknownEvent:
    """The event a decoded log line stands for. Raises pydantic.ValidationError."""
    return _adapter.validate_python(value)


def parse_event_json(line: str | bytes) -> KnownEvent | UnknownEvent:
    """As `parse_event`, from the line itself. Raises pydantic.ValidationError."""
    return _adapter.validate_json(line)
