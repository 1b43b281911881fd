"""Notices that readers act on, each a type with its fields; in JSON each is a `notice` with `code`
and `data`.

Scripts and old logs see them as they always were, and a reader that lacks a case, or a writer that
lacks a field, fails the type checker. What is only to be read is a plain `core.events.Notice`.
"""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from codeagent.core.budget import Effort
from codeagent.core.compaction import CompactionCause
from codeagent.core.dataclass import record
from codeagent.core.json_types import BaseEvent, JsonForm, kept_in
from codeagent.core.messages import Usage
from codeagent.core.policy import Mode, NetworkLevel, Permission

OWN_TEXT_FILLS = "context.own_text"
"""The code of the notice that the user's own text fills the window; their next prompt sends it as a
file."""
TOOLSET_USE = "toolset_use"
"""The tool with which the model turns toolsets on and off."""
NoticeLevel = Literal["info", "warning", "error"]
PauseReason = Literal["asked", "step", "budget", "limit"]
IN_DATA = JsonForm(
    inner="data", outside=("v", "seq", "ts", "session", "agent", "type", "level", "code", "text")
)
"""For typed notices: their own fields are in `data`."""


@record
class TypedNotice(BaseEvent):
    """The common part: `code` is stable, `text` is for reading, and the other fields are the `data`
    in JSON."""

    json_form: ClassVar[JsonForm] = IN_DATA

    type: Literal["notice"] = "notice"
    level: NoticeLevel = "info"
    code: str
    text: str

    @classmethod
    def __get_pydantic_core_schema__(cls, kind: Any, handler: Any) -> Any:
        return kept_in("data", kind, handler(kind), outside=TypedNotice)


@record
class ModeChanged(TypedNotice):
    """The mode changed: what is asked about from the next call on."""

    code: Literal["mode.changed"] = "mode.changed"
    mode: Mode


@record
class NetworkChanged(TypedNotice):
    """The network level changed: what commands with network access may reach from now on."""

    code: Literal["network.changed"] = "network.changed"
    network: NetworkLevel


@record
class ModelChanged(TypedNotice):
    """Requests go to another model, or with another effort, from now on."""

    code: Literal["model.changed"] = "model.changed"
    model: str
    api_base: str | None
    effort: Effort | None = None
    """None: as the provider has it."""


@record
class ModelRetried(TypedNotice):
    """The request failed and is sent again: what was streamed of its answer is replaced by the next
    attempt."""

    json_form: ClassVar[JsonForm] = replace(IN_DATA, omitted=("attempts",))

    level: NoticeLevel = "warning"
    code: Literal["model.retry"] = "model.retry"
    reason: str
    attempt: int
    """The number of the next attempt, from 2."""
    delay_s: float
    """Seconds until the next attempt."""
    attempts: int = 0
    """How many are made at most; 0 if that is unknown, and in older logs."""


@record
class ModelFellBack(TypedNotice):
    """The model was given up and another one answers from now on; what was streamed of the answer
    is discarded."""

    level: NoticeLevel = "warning"
    code: Literal["model.fallback"] = "model.fallback"
    reason: str
    model: str
    """The one that takes over."""
    server: str = ""
    """The host that requests go to from now on; empty if that has not changed, and in older
    logs."""


@record
class BudgetChanged(TypedNotice):
    """The user set or removed a budget."""

    code: Literal["budget.changed"] = "budget.changed"
    budget: str
    """Empty if it was removed."""
    left: str


@record
class StepModeChanged(TypedNotice):
    """The run pauses before every batch, or stops doing so."""

    code: Literal["step.changed"] = "step.changed"
    on: bool


@record
class QueueOrdered(TypedNotice):
    """The user put the queued texts in another order."""

    code: Literal["queue.ordered"] = "queue.ordered"
    ids: tuple[str, ...]
    """Ids of the queued texts, the next one first."""


@record
class CallMarked(TypedNotice):
    """The user wants a call of the waiting batch to be skipped, or to run after all."""

    code: Literal["call.marked"] = "call.marked"
    call_id: str
    skipped: bool
    """Whether it is skipped once the pause ends."""
    reason: str = ""
    """The reason for skipping it, for the model to read."""


def skipped_by_user(reason: str) -> str:
    """Return what the model reads of a call that the user skipped."""
    return f"skipped by user: {reason.strip()}" if reason.strip() else "skipped by user"


@record
class CallEdited(TypedNotice):
    """The user changed the arguments of a call before it ran."""

    code: Literal["call.edited"] = "call.edited"
    call_id: str
    arguments: str
    """JSON."""
    target: str
    permission: Permission
    """What the policy says now."""
    reason: str = ""
    """Why, as a phrase."""


@record
class RunPausing(TypedNotice):
    """The run will pause at the next boundary."""

    code: Literal["run.pausing"] = "run.pausing"


@record
class RunPaused(TypedNotice):
    """The run waits at a boundary for the user."""

    code: Literal["run.paused"] = "run.paused"
    batch: int
    """The number of the next batch, from 1."""
    why: PauseReason
    calls: tuple[str, ...]
    """Ids of the waiting calls; empty before a request to the model."""


@record
class RunResumed(TypedNotice):
    """The run continues, or does not have to pause after all."""

    code: Literal["run.resumed"] = "run.resumed"


@record
class RunStopped(TypedNotice):
    """What stopping the run did; `run.finished` follows."""

    code: Literal["run.stopped"] = "run.stopped"
    stream_closed: bool
    """Whether the model was still answering."""
    killed: int
    """Processes."""
    edits_kept: tuple[str, ...]
    """Paths of files that were changed."""
    not_run: int
    """Calls."""
    left_running: int
    """Processes that could not be ended."""
    jobs_running: int = 0
    """Jobs that keep running; missing in logs of old versions."""


@record
class RunNotBegun(TypedNotice):
    """A hook denied the prompt, so no run began."""

    level: NoticeLevel = "warning"
    code: Literal["run.not_begun"] = "run.not_begun"
    prompt: str


@record
class JobListens(TypedNotice):
    """A program in the sandbox listens on a port."""

    code: Literal["job.port"] = "job.port"
    job_id: str
    """Empty if several jobs run and it may be any of them."""
    port: int


@record
class SessionNotSaved(TypedNotice):
    """The end of the run could not be written to the log."""

    level: NoticeLevel = "warning"
    code: Literal["session.write"] = "session.write"


@record
class ActFailed(TypedNotice):
    """An act was begun and failed, and nobody was waiting for it."""

    level: NoticeLevel = "error"
    code: Literal["act.failed"] = "act.failed"
    act: str
    """Its name in `core.acts`."""


@record
class AgentStarted(TypedNotice):
    """A call started a child; logged by the parent and, as the first event, by the child."""

    code: Literal["agent.started"] = "agent.started"
    call_id: str
    """Of the parent."""
    child: str
    """The `agent` of the child's events."""
    child_session: str
    parent_session: str


@record
class MessageReceived(TypedNotice):
    """Another agent sent a message; the model is told in a note that is a pure function of this
    event."""

    code: Literal["message.received"] = "message.received"
    message_id: str
    """Unique among the agents of one process."""
    sender: str
    to: str
    """This agent, or the channel that it watches."""
    body: str
    reply_to: str | None = None
    """Id of the message that it answers."""


@record
class RecipeStepBegun(TypedNotice):
    """The next run is a step of a recipe."""

    code: Literal["recipe.step"] = "recipe.step"
    recipe: str
    step: str
    """Its id."""
    number: int
    """From 1."""
    of: int
    digest: str
    """A hash of the steps and inputs: see `core.recipes.Recipe.digest`."""
    mode: Mode
    """What applies to this run only; the mode in its `run.started` is the session's."""


@record
class RecipeStopped(TypedNotice):
    """A recipe ended before its last step was done."""

    level: NoticeLevel = "warning"
    code: Literal["recipe.stopped"] = "recipe.stopped"
    recipe: str
    step: str
    """Id of the step that failed."""
    done: tuple[str, ...]
    left: tuple[str, ...]
    """The steps that were not begun."""
    error: str | None = None
    """Why the step's run could not begin; None: its `run.finished` says how it ended."""


@record
class TextRead(TypedNotice):
    """The model reads what others wrote with its next request; emitted once for each of them."""

    code: Literal["text.read"] = "text.read"
    place: str
    """Who they are: see `core.policy.ApprovalKey.answered_by`."""


@record
class CompactionBegun(TypedNotice):
    """The conversation is being summarized; `compaction.failed` or `context.compacted` follows."""

    code: Literal["compaction.begun"] = "compaction.begun"
    cause: CompactionCause


@record
class SummaryWritten(TypedNotice):
    """The model answered with a summary; it has not replaced anything yet."""

    code: Literal["compaction.summary"] = "compaction.summary"
    summary: str
    usage: Usage
    """The usage of the request for it."""
    asked: bool
    """Whether the user reads it first and may edit or refuse it."""
    replaces: int
    """Messages."""


@record
class CompactionFailed(TypedNotice):
    """A compaction failed; the conversation is unchanged."""

    level: NoticeLevel = "warning"
    code: Literal["compaction.failed"] = "compaction.failed"
    cause: CompactionCause


@record
class PinsChanged(TypedNotice):
    """The lines that every compaction keeps have changed; the model is told of a new one in a
    note."""

    code: Literal["pins.changed"] = "pins.changed"
    pins: tuple[str, ...]
    """All of them, in the order they were pinned."""
    added: str = ""
    """The new line; empty if one was removed."""


@record
class ToolsetChosen(TypedNotice):
    """The user turned a toolset on or off, or some of its tools."""

    code: Literal["toolset.chosen"] = "toolset.chosen"
    toolset: str
    tools: tuple[str, ...]
    """Empty: all of them."""
    on: bool


AnyNotice = (
    ModeChanged
    | NetworkChanged
    | ModelChanged
    | ModelRetried
    | ModelFellBack
    | BudgetChanged
    | StepModeChanged
    | QueueOrdered
    | CallMarked
    | CallEdited
    | RunPausing
    | RunPaused
    | RunResumed
    | RunStopped
    | RunNotBegun
    | JobListens
    | SessionNotSaved
    | ActFailed
    | AgentStarted
    | MessageReceived
    | RecipeStepBegun
    | RecipeStopped
    | TextRead
    | CompactionBegun
    | SummaryWritten
    | CompactionFailed
    | PinsChanged
    | ToolsetChosen
)
