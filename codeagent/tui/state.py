"""The UI state: what the chat screen shows, as plain models that the reducer writes and widgets draw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from codeagent.core.acts import Queued
from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.job_board import JobBoard
from codeagent.tui.observable import Observable
from codeagent.tui.transcript.document import Document

Phase = Literal["starting", "idle", "thinking", "answering", "working", "waiting", "retrying"]
"""What goes on. waiting: for the user. retrying: the request is repeated at `retry_at`."""
Halt = Literal["", "pausing", "paused", "stopping"]
"""What the user did to a run, or what it waits for them with; no piece of an answer changes it.

pausing: it will wait at the next boundary. paused: it waits. stopping: it is being ended.
"""
ASK_USER = "ask_user"
"""The tool whose call is a question with answers."""


def _ignore(text: str) -> None:
    """A UI state without a composer."""


def _as_it_is(theme: str | None, bell: bool) -> None:
    """A UI state without a screen to change."""


def _fail(error: BaseException) -> None:
    """A UI state without an app."""
    raise error


class ApprovalQueue(Observable):
    """The approvals that wait, the oldest first."""

    def __init__(self, waiting: tuple[ApprovalRequested, ...] = ()) -> None:
        super().__init__()
        self.waiting = waiting

    def add(self, question: ApprovalRequested) -> None:
        self.waiting = (*self.waiting, question)
        self._changed()

    def remove(self, approval_id: str) -> None:
        self.waiting = tuple(item for item in self.waiting if item.approval_id != approval_id)
        self._changed()

    def clear(self) -> None:
        self.waiting = ()
        self._changed()


class QueuedMessages(Observable):
    """What the user typed while the agent was working and what was not delivered yet, in order."""

    def __init__(self, items: tuple[Queued, ...] = ()) -> None:
        super().__init__()
        self.items = items

    def add(self, item: Queued) -> None:
        self.items = (*self.items, item)
        self._changed()

    def replace(self, item: Queued) -> None:
        """In the place of the one with its id."""
        self.items = tuple(item if before.id == item.id else before for before in self.items)
        self._changed()

    def order(self, ids: Sequence[str]) -> None:
        """Those named come in that order; what is not named stays behind them as it was."""
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
    """One call of the batch a run is paused before."""

    call_id: str
    name: str
    target: str
    permission: Literal["auto", "prompt", "deny"]
    reason: str
    """Why the policy says so."""
    arguments: str = ""
    """JSON, to be edited."""
    state: Literal["planned", "edited", "skipped"] = "planned"


@dataclass(frozen=True)
class Paused:
    """A run that waits at a boundary for the user."""

    why: Literal["asked", "step", "budget", "limit"]
    text: str
    """One line: `paused before batch 3`, `the budget of $2 is used up`."""
    batch: int
    calls: tuple[PausedCall, ...] = ()
    """Empty before a request to the model."""


@dataclass(frozen=True)
class PlanReady:
    """The plan that a run in plan mode ended with."""

    text: str
    """Markdown."""


class Boundary(Observable):
    """What the card of the boundary shows: a pause, or a plan that waits for its start; None: nothing."""

    def __init__(self, now: Paused | PlanReady | None = None) -> None:
        super().__init__()
        self.now = now

    def set(self, now: Paused | PlanReady | None) -> None:
        if now != self.now:
            self.now = now
            self._changed()


@dataclass(frozen=True)
class Status:
    """The facts of header and status line; empty or None where not known yet."""

    phase: Phase = "starting"
    halt: Halt = ""
    since: float = 0.0
    """Seconds since the epoch when the run, or this wait, began."""
    batch: int = 0
    """The batch that runs or is paused before, from 1; 0 for none."""
    workspace: str = ""
    """The folder's name."""
    branch: str = ""
    changes: int = 0
    """Files that differ from the last commit."""
    model: str = ""
    mode: str = "ask"
    sandbox: str = ""
    """A few words: `docker, net off`, `off`, `none`, `starting`."""
    session: str = ""
    context_tokens: int = 0
    """Prompt tokens of the last request."""
    context_window: int | None = None
    cost_usd: float | None = None
    input_tokens: int = 0
    """Over the whole session, cached ones included."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    estimated: bool = False
    retry_at: float | None = None
    """Seconds since the epoch."""
    retry_reason: str = ""
    stepping: bool = False
    """It pauses before every batch."""
    jobs: int = 0
    """Calls that run in the background."""
    waits_since: float | None = None
    """Seconds since the epoch when the call began that the agent waits for longest; None where it waits for none."""
    budget: str = ""
    """What is left of what, in a few words; empty where there is none."""
    on_card: bool = False
    """Keys go to the card that waits, and not to the composer."""
    notice: str = ""
    """One short line in place of the hints: what just happened."""


class StatusBoard(Observable):
    """The status in force."""

    def __init__(self, now: Status | None = None) -> None:
        super().__init__()
        self.now = now or Status()

    def set(self, **changes: Any) -> None:
        """Replace fields of `Status` by name; nothing happens where they are the same."""
        changed = replace(self.now, **changes)
        if changed != self.now:
            self.now = changed
            self._changed()


@dataclass
class UiState:
    """Everything a conversation shows itself through."""

    document: Document = field(default_factory=Document)
    approvals: ApprovalQueue = field(default_factory=ApprovalQueue)
    queue: QueuedMessages = field(default_factory=QueuedMessages)
    boundary: Boundary = field(default_factory=Boundary)
    jobs: JobBoard = field(default_factory=JobBoard)
    status: StatusBoard = field(default_factory=StatusBoard)
    give_back: Callable[[str], None] = _ignore
    """Text that returns to the composer: what was queued when the run was stopped."""
    prefer: Callable[[str | None, bool], None] = _as_it_is
    """Theme (None: none chosen) and bell, as the user's settings say, once they were read."""
    failed: Callable[[BaseException], None] = _fail
    """An error nobody expected: it is told, and everything goes on."""
