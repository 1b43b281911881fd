"""The events: everything that happens, as plain data; the session log consists of them.

An event holds data only. Durable events are logged and never lost; the others may be merged.
"""

from dataclasses import field
from typing import Annotated, ClassVar, Literal, get_args

from codeagent.core.acts import QueueKind
from codeagent.core.approval_events import (
    ApprovalRequested,
    ApprovalResolved,
    EffectsFound,
    HostDecided,
    PlannedCall,
)
from codeagent.core.compaction import ContextCompacted
from codeagent.core.dataclass import record
from codeagent.core.display import DisplayBlock
from codeagent.core.jobs import TriggerEvent
from codeagent.core.json_types import WITH_MORE, BaseEvent, JsonForm, JsonObject, OneOf
from codeagent.core.memory import TodoChanged
from codeagent.core.messages import (
    AssistantMessage,
    ContentPart,
    ErrorInfo,
    OutputStream,
    StopReason,
    Usage,
    UserMessage,
    WebSource,
)
from codeagent.core.notices import AnyNotice, NoticeLevel, TypedNotice
from codeagent.core.policy import ApprovalSource, Mode

_TOLD_SOURCES = 5
RunReason = Literal["done", "failed", "limit", "denied", "interrupted"]


@record
class RunStarted(BaseEvent):
    json_form: ClassVar[JsonForm] = JsonForm(omitted=("server",))

    type: Literal["run.started"] = "run.started"
    model: str
    workspace: str
    mode: Mode
    strategy: str
    codeagent: str
    """Version of the program."""
    resumed: bool = False
    server: str = ""
    """The host that the model's requests go to; empty if it sends none, and in older logs."""


@record
class RunFinished(BaseEvent):
    type: Literal["run.finished"] = "run.finished"
    reason: RunReason
    text: str
    """The last text of the model."""
    usage: Usage
    turns: int
    calls: int
    error: str | None = None
    duration_ms: int


@record
class TurnStarted(BaseEvent):
    type: Literal["turn.started"] = "turn.started"
    turn: int
    """From 1, within the run."""


@record
class TurnFinished(BaseEvent):
    type: Literal["turn.finished"] = "turn.finished"
    turn: int
    stop: StopReason
    usage: Usage


@record
class AsideAnswered(BaseEvent):
    """The model answered a side question; only its cost is kept."""

    type: Literal["aside.answered"] = "aside.answered"
    usage: Usage


@record
class MessageAdded(BaseEvent):
    """A user or assistant message; tool messages are made from `tool.result`."""

    type: Literal["message.added"] = "message.added"
    message: Annotated[UserMessage | AssistantMessage, OneOf("role")]


@record
class TextDelta(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["text.delta"] = "text.delta"
    text: str


@record
class ReasoningDelta(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["reasoning.delta"] = "reasoning.delta"
    text: str


@record
class ToolCallDelta(BaseEvent):
    """A piece of a call's arguments came in the stream; `tool.call` has them whole, if the answer
    is not discarded.

    `--output jsonl` leaves these out: in pieces, a secret could not be masked.
    """

    durable: ClassVar[bool] = False
    type: Literal["tool.arguments"] = "tool.arguments"
    call_id: str
    name: str
    text: str
    """A further piece of the arguments, as the model writes them."""


@record
class ToolCallAdded(BaseEvent):
    """A call's block closed in the stream. A call that only reads may begin before `message.added`
    and `batch.planned`.

    If its answer is discarded, no message has the call, but it still has a result, `executed` if it
    had begun.
    """

    type: Literal["tool.call"] = "tool.call"
    call_id: str
    name: str
    arguments: str


@record
class ProviderToolUsed(BaseEvent):
    """The provider used one of its own tools while answering; nothing ran on this machine."""

    type: Literal["provider.used"] = "provider.used"
    tool: str
    target: str = ""
    """What it was used for: the query, the command or the page."""
    output: str = ""
    sources: tuple[WebSource, ...] = ()
    images: tuple[str, ...] = ()
    """Paths of the images that were saved."""
    files: tuple[str, ...] = ()
    """Ids or names of files that stay with the provider."""
    error: str = ""

    def told(self, most: int | None = _TOLD_SOURCES) -> str:
        """Describe the use in a line, with one for each source, image and file; its output is only
        counted.

        `most`: how many sources are named; None for all.
        """
        printed = f" ({len(self.output.splitlines())} lines of output)" if self.output else ""
        sources = [f"  {source.url}  {source.title}".rstrip() for source in self.sources[:most]]
        if (more := len(self.sources) - len(sources)) > 0:
            sources.append(f"  and {more} more, which are in the log")
        images = (f"  image saved: {path}" for path in self.images)
        files = (f"  file kept by the provider: {name}" for name in self.files)
        failed = [f"  failed: {self.error}"] if self.error else []
        head = f"{self.tool}: {self.target}" if self.target else self.tool
        return "\n".join((head + printed, *sources, *images, *files, *failed))


@record
class BatchPlanned(BaseEvent):
    type: Literal["batch.planned"] = "batch.planned"
    batch: int
    """From 1, within the run."""
    calls: tuple[PlannedCall, ...]


@record
class BatchFinished(BaseEvent):
    """The boundary: the point where a user can step in."""

    type: Literal["batch.finished"] = "batch.finished"
    batch: int
    executed: int
    skipped: int
    duration_ms: int


@record
class SteerQueued(BaseEvent):
    type: Literal["steer.queued"] = "steer.queued"
    id: str
    kind: QueueKind
    text: str


@record
class SteerDelivered(BaseEvent):
    """The text left its queue; unless `taken_back`, a user message follows."""

    type: Literal["steer.delivered"] = "steer.delivered"
    id: str
    kind: QueueKind
    taken_back: bool = False


@record
class ToolStarted(BaseEvent):
    type: Literal["tool.started"] = "tool.started"
    call_id: str
    name: str
    target: str
    arguments: JsonObject


@record
class ToolUpdated(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["tool.updated"] = "tool.updated"
    call_id: str
    name: str
    text: str
    """A further piece of the result."""
    stream: OutputStream = "output"


@record
class ToolProgress(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["tool.progress"] = "tool.progress"
    call_id: str
    name: str
    text: str


@record
class ToolFinished(BaseEvent):
    type: Literal["tool.finished"] = "tool.finished"
    call_id: str
    name: str
    is_error: bool
    duration_ms: int


@record
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
    details: JsonObject = field(default_factory=dict)
    started_at: float | None = None
    duration_ms: int = 0
    approval: ApprovalSource | None = None
    """Who allowed or denied it; None if it never got that far."""
    rule: str | None = None
    """The rule that did."""
    sandbox: Literal["docker", "host"] | None = None
    child_session: str | None = None


@record
class JobStarted(BaseEvent):
    """A call continues in the background; its `tool.result` is the placeholder that names the
    job."""

    type: Literal["job.started"] = "job.started"
    job_id: str
    call_id: str
    name: str
    title: str
    promoted: bool = False
    """Whether the call began in the foreground and was moved by the user, or automatically as
    configured."""
    takes_input: bool = False


@record
class JobUpdated(BaseEvent):
    durable: ClassVar[bool] = False
    type: Literal["job.updated"] = "job.updated"
    job_id: str
    text: str
    """A further piece of its output."""
    stream: OutputStream = "output"


@record
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
    """The end of its output, or its answer, as the model is told."""
    exit_code: int | None = None
    lines: int = 0
    handle: str | None = None
    """Where `output_read` finds all of it; None if `tail` is all."""
    duration_ms: int = 0


@record
class CheckpointCreated(BaseEvent):
    """A snapshot of the workspace and a mark in the conversation; `checkpoint.restored` goes back
    to either."""

    json_form: ClassVar[JsonForm] = JsonForm(omitted=("moment",))

    type: Literal["checkpoint.created"] = "checkpoint.created"
    checkpoint_id: str
    """Unique within the session, even if two snapshots have the same content."""
    snapshot: str
    """The snapshot's id in the store."""
    cause: Literal["prompt", "batch", "after", "restore"]
    """Before a prompt's run; before or after a batch that may change files; before going back."""
    batch: int | None = None
    label: str = ""
    """The prompt, or the targets of the batch, in one line."""
    left_out: tuple[str, ...] = ()
    """What the snapshot does not cover, a phrase each."""
    moment: str = ""
    """Its entry in the store's record of which session changed what."""


@record
class CheckpointRestored(BaseEvent):
    """The files, or the conversation, are as they were at the checkpoint."""

    type: Literal["checkpoint.restored"] = "checkpoint.restored"
    checkpoint_id: str
    kind: Literal["undo", "redo", "rewind", "files"]
    """`files`: only some files."""
    files: tuple[str, ...]
    """Paths that were changed by it."""
    conversation: bool
    """Whether the conversation went back, too: what was said after the checkpoint is no longer part
    of it."""
    before: str
    """Id of the checkpoint taken just before, to which `redo` leads."""


@record
class LimitReached(BaseEvent):
    type: Literal["limit.reached"] = "limit.reached"
    limit: str
    maximum: float


@record
class Notice(BaseEvent):
    """Something a user should know; `code` is stable, `text` is for reading."""

    type: Literal["notice"] = "notice"
    level: NoticeLevel = "info"
    code: str
    text: str
    data: JsonObject = field(default_factory=dict)


@record
class UnknownEvent(BaseEvent):
    """An event from a newer version: kept, passed on, never interpreted."""

    json_form: ClassVar[JsonForm] = WITH_MORE

    type: str
    more: JsonObject = field(default_factory=dict)
    """Its other fields as they came; in JSON they are beside its type."""


KnownEvent = (
    RunStarted
    | RunFinished
    | TurnStarted
    | TurnFinished
    | AsideAnswered
    | MessageAdded
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ToolCallAdded
    | ProviderToolUsed
    | BatchPlanned
    | BatchFinished
    | SteerQueued
    | SteerDelivered
    | ApprovalRequested
    | ApprovalResolved
    | EffectsFound
    | HostDecided
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
    | ContextCompacted
    | LimitReached
    | TodoChanged
    | TriggerEvent
    | Notice
    | AnyNotice
)
EVENT_TYPES: dict[str, type[KnownEvent]] = {
    kind.__dataclass_fields__["type"].default: kind
    for kind in get_args(KnownEvent)
    if not issubclass(kind, TypedNotice)
}
Event = Annotated[KnownEvent | UnknownEvent, OneOf("type", then="code", other=UnknownEvent)]
