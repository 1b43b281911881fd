"""The UI state: what the chat screen shows, as plain models that the reducer changes and widgets
draw."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.pulse import Pulse
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.status import Phase, Status
from codeagent.tui.transcript.document import Document

if TYPE_CHECKING:  # the first frame does not show any of these
    from codeagent.config.settings import Settings
    from codeagent.core.acts import Queued
    from codeagent.core.approval_events import (
        ApprovalRequested,
        ApprovalResolved,
        HostDecided,
        PlannedCall,
    )
    from codeagent.core.jobs import Job
    from codeagent.core.notices import PauseReason

ASK_USER = "ask_user"
"""The tool that asks the user a question with answers to choose from."""
_HEAD = 100
"""Lines kept of the beginning of a running job's output."""
_TAIL = 500
"""Lines kept of its end: the full output is one key away, and fifty jobs must not fill the
memory."""
_TAIL_ENDED = 100
"""Lines kept of the end once the job has ended."""


def _fail(error: BaseException) -> None:
    """Raise the error, in a UI state without an app."""
    raise error


class Observable:
    """A model that tells its watchers when it changed."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call the watcher after every change, from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Stop calling the watcher."""
        self._watchers.remove(watcher)

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher()


@dataclass(frozen=True)
class Followed:
    """A question that was answered with yes, and is followed while its call runs."""

    asked: "ApprovalRequested"
    hosts: tuple[str, ...] = ()
    """What it has reached or tried to reach, as a user reads it."""


class ApprovalQueue(Observable):
    """The approvals that wait for an answer, the oldest first, and those that are followed after
    it."""

    def __init__(self, waiting: "tuple[ApprovalRequested, ...]" = ()) -> None:
        super().__init__()
        self.waiting = waiting
        self.followed: tuple[Followed, ...] = ()

    def add(self, question: "ApprovalRequested") -> None:
        self.waiting = (*self.waiting, question)
        self._changed()

    def remove(self, approval_id: str) -> None:
        self.waiting = tuple(item for item in self.waiting if item.approval_id != approval_id)
        self._changed()

    def resolve(self, event: "ApprovalResolved") -> None:
        """Remove the question that was answered; if it asks for that, follow it until its call
        ends."""
        from codeagent.core.policy import HOSTS  # the first frame does without it

        asked = next((item for item in self.waiting if item.approval_id == event.approval_id), None)
        if asked is not None and asked.follows and event.answer in ("once", "session", "rule"):
            self.followed = (*self.followed, Followed(asked))
        elif asked is not None and asked.name == HOSTS and event.answer != "cancelled":
            self._reached(event.call_id, asked.target, allowed=event.answer != "deny")
        self.remove(event.approval_id)

    def reach(self, event: "HostDecided") -> None:
        """Show what became of a host, if its call is followed."""
        self._reached(event.call_id, event.host, allowed=event.allowed)
        self._changed()

    def end(self, call_id: str) -> None:
        """Stop following the call."""
        if any(each.asked.call_id == call_id for each in self.followed):
            self.followed = tuple(each for each in self.followed if each.asked.call_id != call_id)
            self._changed()

    def clear(self, but: Collection[str] = ()) -> None:
        """Remove all except those of these calls."""
        self.waiting = tuple(item for item in self.waiting if item.call_id in but)
        self.followed = ()
        self._changed()

    def _reached(self, call_id: str, host: str, *, allowed: bool) -> None:
        said = host if allowed else f"{host} (refused)"
        self.followed = tuple(
            replace(each, hosts=(*each.hosts, said))
            if each.asked.call_id == call_id and said not in each.hosts
            else each
            for each in self.followed
        )


class QueuedMessages(Observable):
    """Messages typed while the agent was working and not delivered yet, in order."""

    def __init__(self, items: "tuple[Queued, ...]" = ()) -> None:
        super().__init__()
        self.items = items
        self.earlier = ""
        """What was typed but not sent before this start; it is not part of the queue and is never
        sent from here."""

    def leave(self, earlier: str) -> None:
        """Show this as what was left unsent; an empty text if it was taken back."""
        self.earlier = earlier
        self._changed()

    def add(self, item: "Queued") -> None:
        """Replace the message with the same id, or else append."""
        known = any(before.id == item.id for before in self.items)
        others = tuple(item if before.id == item.id else before for before in self.items)
        self.items = others if known else (*self.items, item)
        self._changed()

    def order(self, ids: Sequence[str]) -> None:
        """Put the named messages in that order; the others follow in their own."""
        places = {queued_id: place for place, queued_id in enumerate(ids)}
        self.items = tuple(sorted(self.items, key=lambda item: places.get(item.id, len(places))))
        self._changed()

    def remove(self, queued_id: str) -> None:
        self.items = tuple(item for item in self.items if item.id != queued_id)
        self._changed()

    def clear(self) -> None:
        self.items = ()
        self._changed()


@dataclass(frozen=True)
class PausedCall:
    """One call of the batch that a run is paused before."""

    call_id: str
    name: str
    target: str
    permission: Literal["auto", "prompt", "deny"]
    reason: str
    """The policy's reason."""
    arguments: str = ""
    """The arguments as JSON, for editing."""
    edited: bool = False
    skipped: bool = False
    """Whether it is skipped once the pause ends."""


@dataclass(frozen=True)
class Paused:
    """A run that waits at a boundary for the user."""

    why: "PauseReason"
    text: str
    """One line: `paused before batch 3`, `the budget of $2 is used up`."""
    batch: int
    calls: tuple[PausedCall, ...] = ()
    """The calls of the batch; empty if the pause is before a request to the model."""


@dataclass(frozen=True)
class PlanReady:
    """The plan that a run in plan mode ended with."""

    text: str
    """Markdown."""


@dataclass(frozen=True)
class SummaryReady:
    """The summary that is to replace an older part of the conversation."""

    text: str
    """Markdown."""
    replaces: int
    """Messages."""


AtBoundary = Paused | PlanReady | SummaryReady | None
"""What the card of the boundary shows; None if there is nothing to show."""


class Boundary(Observable):
    """What waits for the user at a boundary: a pause, a plan to start, or a summary to read."""

    def __init__(self, now: AtBoundary = None) -> None:
        super().__init__()
        self.now = now
        self._planned: tuple[PausedCall, ...] = ()

    def end_recording(self) -> None:
        """Remove what only a live run could accept an answer to."""
        if not isinstance(self.now, PlanReady):
            self.set(None)

    def resumed(self) -> None:
        """Remove a pause or a plan; a summary continues to wait."""
        if not isinstance(self.now, SummaryReady):
            self.set(None)

    def plan(self, calls: "Sequence[PlannedCall]", arguments: Mapping[str, str]) -> None:
        """Keep the calls of the next batch; `arguments` by call id, as JSON."""
        self._planned = tuple(
            PausedCall(
                call.call_id,
                call.name,
                call.target,
                call.permission,
                reason=call.reason,
                arguments=arguments.get(call.call_id, ""),
            )
            for call in calls
        )

    def pause(self, why: "PauseReason", text: str, batch: int, call_ids: Sequence[str]) -> None:
        """Show that the run waits before these calls of the batch."""
        self.set(
            Paused(
                why, text, batch, tuple(call for call in self._planned if call.call_id in call_ids)
            )
        )

    def change(self, call_id: str, **changes: Any) -> None:
        """Replace fields of a planned call by name."""
        self._planned = tuple(
            replace(call, **changes) if call.call_id == call_id else call for call in self._planned
        )
        if isinstance(now := self.now, Paused):
            self.pause(now.why, now.text, now.batch, [call.call_id for call in now.calls])

    def set(self, now: AtBoundary) -> None:
        if now != self.now:
            self.now = now
            self._changed()


class JobBoard(Observable):
    """All jobs in the order they were started, including those of an earlier process."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, Job] = {}
        self._outputs: dict[str, OutputBuffer] = {}
        self.end_notes: set[str] = set()
        """Notes for the model about ended jobs; not shown, as the screen has its own words for
        that."""

    @property
    def rows(self) -> "tuple[Job, ...]":
        return tuple(self._rows.values())

    @property
    def running(self) -> int:
        return sum(row.status == "running" for row in self._rows.values())

    def get(self, job_id: str) -> "Job | None":
        return self._rows.get(job_id)

    def output(self, job_id: str) -> OutputBuffer:
        """Return the beginning and the end of a job's output. Raises KeyError."""
        return self._outputs[job_id]

    def begin(self, row: "Job", printed: OutputBuffer | None = None) -> None:
        """Add a job; `printed` is its output while it was still a call, and later output is
        appended to it."""
        self._rows[row.id] = row
        self._outputs[row.id] = printed or OutputBuffer(_HEAD, _TAIL)
        self._count(row.id)

    def feed(self, job_id: str, text: str) -> None:
        """Append to the output of a job; an unknown job is ignored."""
        if job_id in self._outputs:
            self._outputs[job_id].feed(text)
            self._count(job_id)

    def count(self, lines: Mapping[str, int]) -> None:
        """Raise the numbers of lines printed so far, by job id, to those of a reader that saw all
        of the output."""
        more = [row for row in self.rows if row.lines < lines.get(row.id, 0)]
        for row in more:
            self._rows[row.id] = replace(row, lines=lines[row.id])
        if more:
            self._changed()

    def set_trigger(self, row: "Job", line: str) -> None:
        """List a trigger as it is now, with the latest line about it."""
        self._rows[row.id] = row
        self._outputs.setdefault(row.id, OutputBuffer(_HEAD, _TAIL)).feed(f"{line}\n")
        self._changed()

    def listens(self, job_id: str, port: int) -> None:
        """Note a port that a job listens on; an unknown job is ignored."""
        if (row := self._rows.get(job_id)) is not None:
            self._rows[job_id] = replace(row, ports=tuple(sorted({*row.ports, port})))
            self._changed()

    def end(self, row: "Job", tail: str) -> None:
        """End a job as `row` says; `tail` is the end of what it printed, or its answer."""
        before = self._outputs.get(row.id) or OutputBuffer()
        # Fast output is not seen in full; then the log knows its end better, although without
        # colours.
        printed = before.last(_TAIL_ENDED) if before.total >= row.lines or not tail.strip() else []
        answered = (
            row.exit_code is None
            and row.status == "done"
            and tail.rstrip() != "\n".join(printed).rstrip()
        )
        buffer = OutputBuffer(0, _TAIL_ENDED)
        buffer.feed("\n".join([*printed, *([tail] if answered or not printed else [])]))
        buffer.skip(max(0, row.lines - buffer.total))
        self._rows[row.id] = replace(row, lines=buffer.total)
        self._outputs[row.id] = buffer
        self._changed()

    def replay(self, recorded: "JobBoard") -> None:
        """Put the recorded jobs in front of the others."""
        self._rows = recorded._rows | self._rows
        self._outputs = recorded._outputs | self._outputs
        self.end_notes |= recorded.end_notes
        self._changed()

    def lose(self) -> None:
        """Mark running jobs as lost: their process is gone, and how they ended is unknown."""
        for row in self.rows:
            if row.status == "running":
                self._rows[row.id] = replace(
                    row, status="lost", ended=row.started, takes_input=False
                )
        self._changed()

    def _count(self, job_id: str) -> None:
        row = self._rows[job_id]
        self._rows[job_id] = replace(row, lines=max(row.lines, self._outputs[job_id].total))
        self._changed()


class StatusBoard(Observable):
    """The current status."""

    def __init__(self, now: Status | None = None) -> None:
        super().__init__()
        self.now = now or Status()

    def set(self, **changes: Any) -> None:
        """Replace fields by name, see `Status.changed`; nothing happens if they are the same."""
        changed = self.now.changed(**changes)
        if changed != self.now:
            self.now = changed
            self._changed()

    def add_wait(self, seconds: float) -> None:
        """Do not count the seconds for which the run waited for the user."""
        self.set(since=self.now.run.since + max(0.0, seconds))


@dataclass
class UiState:
    """Everything that is shown of a conversation."""

    document: Document = field(default_factory=Document)
    approvals: ApprovalQueue = field(default_factory=ApprovalQueue)
    queue: QueuedMessages = field(default_factory=QueuedMessages)
    boundary: Boundary = field(default_factory=Boundary)
    jobs: JobBoard = field(default_factory=JobBoard)
    status: StatusBoard = field(default_factory=StatusBoard)
    pulse: Pulse = field(default_factory=Pulse)
    """How the answer that is awaited is coming; nobody is told of its changes, which may be many in
    a second."""
    give_back: Callable[[str], None] = lambda text: None
    """Text that returns to the composer: what was queued when the run was stopped."""
    prefer: "Callable[[Settings], None]" = lambda settings: None
    """Makes the screen look and behave as the user's settings say, once they were read."""
    failed: Callable[[BaseException], None] = _fail
    """Reports an unexpected error; everything else continues."""

    @property
    def phase_at_rest(self) -> Phase:
        """Return the phase while the model does nothing: a job may ask for a host between runs."""
        return (
            "waiting"
            if self.approvals.waiting
            else "working"
            if self.status.now.run.in_run
            else "idle"
        )

    def replay(self, recorded: "UiState") -> Iterator[None]:
        """Show what was recorded, in slices so that other tasks can run in between; `recorded` is
        used up."""
        yield from self.document.replay(recorded.document)
        for item in recorded.queue.items:
            self.queue.add(item)
        self.queue.order([item.id for item in recorded.queue.items])
        self.boundary.set(recorded.boundary.now)
        self.jobs.replay(recorded.jobs)
        # Mode and model come from the settings.
        known = recorded.status.now.known()
        self.status.set(**{name: known[name] for name in known.keys() - {"mode", "model"}})
