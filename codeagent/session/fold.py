"""Folds a session's events into what is needed to resume it: the conversation, its queue, its jobs
and its mode."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from codeagent.core.acts import Queued
from codeagent.core.compaction import ContextCompacted
from codeagent.core.dataclass import dataclass
from codeagent.core.events import (
    CheckpointRestored,
    JobFinished,
    JobStarted,
    MessageAdded,
    Notice,
    RunFinished,
    RunStarted,
    SteerDelivered,
    SteerQueued,
    ToolCallAdded,
    ToolResultAdded,
)
from codeagent.core.history import BranchingHistory, CheckpointTimeline, TodoTimeline, walk
from codeagent.core.jobs import EndedJob, Job, Trigger, TriggerAdded, TriggerFired, TriggerStopped
from codeagent.core.json_types import MAIN
from codeagent.core.messages import Message, ToolCall, UserMessage, text_of
from codeagent.core.model import ModelInUse
from codeagent.core.notes import (
    job_note,
    message_note,
    pin_note,
    restored_note,
    shell_note,
    told_by,
    trigger_note,
    words_of,
)
from codeagent.core.notices import (
    OWN_TEXT_FILLS,
    JobListens,
    MessageReceived,
    ModeChanged,
    ModelChanged,
    ModelFellBack,
    NetworkChanged,
    PinsChanged,
    QueueOrdered,
    RecipeStepBegun,
    TextRead,
)
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.session.transcript import (
    ENDED,
    AnyEvent,
    ToolDetails,
    details_in,
    rebuilt_line,
    said_of_unanswered,
    transcript,
    with_typed_pins,
)

CHOICES = frozenset({"run.started", "notice"})
"""The types of events that `last_mode` and `last_model` look at."""


@dataclass(frozen=True)
class OpenCall:
    """A call the log has no result for."""

    call: ToolCall
    said: str
    """What the model reads in place of its result."""


@dataclass(frozen=True)
class DoneStep:
    """A step of a recipe that ended well."""

    digest: str
    """Of the recipe and its inputs."""
    step: str
    text: str


@dataclass(frozen=True)
class SessionHosts:
    """What a session reached, and may reach."""

    network: NetworkLevel | None = None
    """The level in force at the end; None if it was never changed."""
    heard: tuple[str, ...] = ()
    """Hosts and servers that answered calls, in the order of their first answers
    (`core.policy.Policy.heard`)."""
    model: str = ""
    """The host that the last requests went to; empty if that is not known."""


@dataclass(frozen=True)
class PastCompactions:
    """What the next compaction has to know of the session."""

    pins: tuple[str, ...] = ()
    """The lines that every compaction keeps."""
    questions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The model's questions that were open at each compaction, by its note."""
    own_text_fills: bool = False
    """The user was told that their own text fills the window, and nothing was compacted since."""


@dataclass(frozen=True)
class History:
    """What a session holds at its end; empty for a new session."""

    line: BranchingHistory[Message] = field(default_factory=BranchingHistory)
    """What was said and not taken back; a mark for each point to which the conversation can go
    back.

    Valid for every provider (`transcript_problems` is empty), whatever the events were.
    """
    open_calls: tuple[OpenCall, ...] = ()
    """In the order of their calls; in `messages` each has an error result already."""
    undelivered: tuple[Queued, ...] = ()
    """Typed and never delivered."""
    notes: tuple[UserMessage, ...] = ()
    """About commands the user shared and jobs that ended, in order; the model has not been told of
    them yet."""
    jobs: tuple[EndedJob, ...] = ()
    """Those that ended, in the order they were started."""
    triggers: tuple[Trigger, ...] = ()
    """All there were, in the order they were set; `at_most` of one that was stopped is how often it
    fired."""
    hosts: SessionHosts = SessionHosts()
    details: tuple[ToolDetails, ...] = ()
    """In the order the calls ended."""
    dropped: tuple[str, ...] = ()
    """One sentence per message that had to be left out; empty for an undamaged log."""
    call_ids: frozenset[str] = frozenset()
    """Of every call there ever was, including those taken back."""
    timeline: CheckpointTimeline = field(default_factory=CheckpointTimeline)
    """The points to go back to."""
    compactions: PastCompactions = field(default_factory=PastCompactions)
    todo: TodoTimeline = field(default_factory=TodoTimeline)
    steps: tuple[DoneStep, ...] = ()
    """Of recipes, in the order they ended; without those taken back."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self.line.items)


def _own_text_fills(events: Sequence[AnyEvent]) -> bool:
    for event in reversed(events):
        if isinstance(event, ContextCompacted):
            return False
        if isinstance(event, Notice) and event.code == OWN_TEXT_FILLS:
            return True
    return False


def _last_server(events: Sequence[AnyEvent]) -> str:
    asked = (event for event in reversed(events) if isinstance(event, RunStarted | ModelFellBack))
    return next((event.server for event in asked if event.server), "")


def own_events(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Return the events of the agent whose log it is: a child has a log of its own."""
    owner = events[0].agent if events else MAIN
    return [event for event in events if event.agent == owner]


def fold(events: Sequence[AnyEvent]) -> History:
    """Fold the events of the log's own agent. Never raises: damage costs messages, not the
    session."""
    own = list(with_typed_pins(own_events(events)))
    results = {event.call_id: event for event in own if isinstance(event, ToolResultAdded)}
    left = said_of_unanswered(own)
    questions: dict[str, tuple[str, ...]] = {}
    walked = walk(own)
    told = transcript(walked.items, results, left, questions)
    return History(
        line=rebuilt_line(told, walked, lambda items: transcript(items, results, left, questions)),
        open_calls=tuple(
            OpenCall(call, left.get(call.id, ENDED))
            for call in told.calls
            if call.id not in results
        ),
        undelivered=_undelivered(own),
        notes=_notes(own),
        jobs=ended_jobs(own),
        triggers=_triggers(own),
        hosts=SessionHosts(
            network=next(
                (event.network for event in reversed(own) if isinstance(event, NetworkChanged)),
                None,
            ),
            heard=tuple(event.place for event in own if isinstance(event, TextRead)),
            model=_last_server(own),
        ),
        details=tuple(details_in(own, results, told)),
        dropped=tuple(told.dropped),
        call_ids=frozenset(results)
        | {event.call_id for event in own if isinstance(event, ToolCallAdded)}
        | {call.id for call in told.calls},
        timeline=CheckpointTimeline(own),
        steps=tuple(_done_steps(walked.items)),
        compactions=PastCompactions(
            next((event.pins for event in reversed(own) if isinstance(event, PinsChanged)), ()),
            questions,
            _own_text_fills(own),
        ),
        todo=TodoTimeline(own),
    )


def _undelivered(events: Sequence[AnyEvent]) -> tuple[Queued, ...]:
    waiting: dict[str, Queued] = {}
    for event in events:
        match event:
            case SteerQueued():
                waiting[event.id] = Queued(event.id, event.kind, event.text)
            case SteerDelivered(taken_back=True):
                waiting.pop(event.id, None)
            case QueueOrdered(ids=ids):
                places = {queued_id: place for place, queued_id in enumerate(ids)}
                waiting = dict(
                    sorted(waiting.items(), key=lambda item: places.get(item[0], len(places)))
                )
            case SteerDelivered() if event.id in waiting:
                waiting[event.id] = replace(waiting[event.id], taken_out=True)
            case MessageAdded(message=UserMessage() as message):
                text = text_of(message.content)
                arrived = [
                    key
                    for key, queued in waiting.items()
                    if queued.taken_out and queued.text in text
                ]
                for key in arrived:
                    del waiting[key]
            case _:
                pass
    return tuple(waiting.values())


def _notes(events: Sequence[AnyEvent]) -> tuple[UserMessage, ...]:
    """Collect undelivered notes; a note has the same words wherever it is made, which tells that it
    was delivered."""
    waiting: list[UserMessage] = []
    ends: dict[str, UserMessage] = {}
    for event in events:
        match event:
            case ToolResultAdded() if (note := shell_note(event)) is not None:
                waiting.append(note)
            case ToolResultAdded() if (told := told_by(event)) is not None:
                waiting = [note for note in waiting if note != ends.get(told)]
            case JobFinished():
                ends[event.job_id] = job_note(event)
                waiting.append(ends[event.job_id])
            case TriggerFired():
                waiting.append(trigger_note(event))
            case MessageReceived():
                waiting.append(message_note(event))
            case PinsChanged() if (note := pin_note(event)) is not None:
                waiting.append(note)
            case CheckpointRestored() if (note := restored_note(event)) is not None:
                waiting.append(note)
            case MessageAdded(message=UserMessage(source="note") as message) if waiting:
                words = words_of(message)
                delivered = next((note for note in waiting if words_of(note) == words), None)
                waiting = [note for note in waiting if note is not delivered]
            case _:
                pass
    return tuple(waiting)


def _done_steps(events: Iterable[AnyEvent]) -> list[DoneStep]:
    """Return the steps that are done; a recipe that was begun again has none of its earlier
    ones."""
    done: list[DoneStep] = []
    begun: RecipeStepBegun | None = None
    for event in events:
        match event:
            case RecipeStepBegun():
                begun = event
                if event.number == 1:
                    done = [one for one in done if one.digest != event.digest]
            case RunFinished() if begun is not None:
                if event.reason == "done":
                    done.append(DoneStep(begun.digest, begun.step, event.text))
                begun = None
            case _:
                pass
    return done


def _triggers(events: Sequence[AnyEvent]) -> tuple[Trigger, ...]:
    told = (
        event.trigger
        for event in events
        if isinstance(event, TriggerAdded | TriggerFired | TriggerStopped)
    )
    return tuple({trigger.id: trigger for trigger in told}.values())


def last_mode(events: Iterable[AnyEvent]) -> Mode | None:
    """Return the mode in force at the end; None if no run began."""
    mode: Mode | None = None
    for event in events:
        if isinstance(event, RunStarted | ModeChanged):
            mode = event.mode
    return mode


def last_model(events: Iterable[AnyEvent]) -> tuple[ModelInUse, bool] | None:
    """Return the last model, and whether it was chosen in the session; None if no run began."""
    found: tuple[ModelInUse, bool] | None = None
    for event in events:
        match event:
            case RunStarted() if found is None or found[0].name != event.model:
                found = (ModelInUse(event.model), False)
            case ModelChanged(model=name, api_base=api_base, effort=effort):
                found = (ModelInUse(name, api_base, effort), True)
            case _:
                pass
    return found


def ended_jobs(events: Sequence[AnyEvent]) -> tuple[EndedJob, ...]:
    """Return the jobs whose end is in the log, in the order they were started."""
    ends = {event.job_id: event for event in events if isinstance(event, JobFinished)}
    handles = job_outputs(events)
    started = {event.job_id: event for event in events if isinstance(event, JobStarted)}
    return tuple(
        EndedJob(
            _job(start, ends[job_id], events),
            ends[job_id].handle or handles.get(job_id),
            ends[job_id].tail,
        )
        for job_id, start in started.items()
        if job_id in ends
    )


def open_jobs(events: Sequence[AnyEvent]) -> list[JobStarted]:
    """Return the starts of the jobs whose end is not in the log."""
    ended = {event.job_id for event in events if isinstance(event, JobFinished)}
    started = {event.job_id: event for event in events if isinstance(event, JobStarted)}
    return [event for job_id, event in started.items() if job_id not in ended]


def job_outputs(events: Sequence[AnyEvent]) -> dict[str, str]:
    """Return the handle of each job's output, by job, as the result of its call gives it."""
    found: dict[str, str] = {}
    for event in events:
        match event:
            case ToolResultAdded(details={"job_id": str(job_id), "handle": str(handle)}):
                found[job_id] = handle
            case _:
                pass
    return found


def _job(start: JobStarted, end: JobFinished, events: Sequence[AnyEvent]) -> Job:
    return Job(
        id=start.job_id,
        call_id=start.call_id,
        tool=start.name,
        title=start.title,
        status=end.status,
        started=start.ts,
        ended=round(start.ts + end.duration_ms / 1000, 3),
        lines=end.lines,
        exit_code=end.exit_code,
        summary=end.summary,
        ports=_ports(start.job_id, events),
        takes_input=start.takes_input,
        promoted=start.promoted,
    )


def _ports(job_id: str, events: Sequence[AnyEvent]) -> tuple[int, ...]:
    told = (event for event in events if isinstance(event, JobListens))
    return tuple(event.port for event in told if event.job_id == job_id)
