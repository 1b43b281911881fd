"""History with branches, which goes back without forgetting, and the timeline of a session's
checkpoints."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from codeagent.core.checkpoints import Point
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError
from codeagent.core.events import (
    CheckpointCreated,
    CheckpointRestored,
    KnownEvent,
    RunStarted,
    UnknownEvent,
)
from codeagent.core.memory import TodoChanged, TodoItem

T = TypeVar("T")
PROMPT = "prompt"
"""Mark of the conversation as it was before the last prompt."""
Effects = tuple[str, ...]


class BranchingHistory(Generic[T]):
    """A list that can go back to earlier states without losing the later ones.

    `items` is the current branch; it is appended to and never cut: going back begins another list.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self.items = list(items)
        self._marks: dict[str, tuple[list[T], int]] = {}

    def mark(self, name: str, *, like: str | None = None) -> None:
        """Mark the present, or the position of the mark `like` if it exists; replaces a mark of the
        same name."""
        moment = None if like is None else self._marks.get(like)
        self._marks[name] = moment or (self.items, len(self.items))

    def marked(self, name: str) -> bool:
        return name in self._marks

    def marks(self) -> dict[str, tuple[list[T], int]]:
        """Return every mark with its list and the length that the list had."""
        return dict(self._marks)

    def adopt(self, name: str, items: list[T], length: int) -> None:
        """Set a mark in any list: the current one, or a branch that was left."""
        self._marks[name] = (items, length)

    def replace(self, items: Iterable[T]) -> None:
        """Continue with other items; earlier marks still point into the replaced list."""
        self.items = list(items)

    def go_back(self, name: str) -> None:
        """Return to the mark. Raises KeyError."""
        items, length = self._marks[name]
        self.items = items[:length]


@dataclass(frozen=True)
class Span:
    """What happened between two snapshots that follow each other."""

    before: str
    """Id of a snapshot in the store."""
    after: str
    agents: bool
    """Whether it was a batch of the agent or a restore; otherwise any change was made by somebody
    else."""


@dataclass(frozen=True)
class _Undone:
    """A restore that can be redone."""

    before: str
    """Id of the point just before it."""
    effects: Effects
    """The batches that were in effect then."""
    conversation: bool


class TodoTimeline:
    """Knows an agent's to-do list as it is, and as it was at each checkpoint; reads every event of
    the agent."""

    def __init__(self, events: Iterable[KnownEvent | UnknownEvent] = ()) -> None:
        self.items: tuple[TodoItem, ...] = ()
        self._at: dict[str, tuple[TodoItem, ...]] = {}
        for event in events:
            self.add(event)

    def add(self, event: KnownEvent | UnknownEvent) -> None:
        match event:
            case TodoChanged():
                self.items = event.items
            case CheckpointCreated():
                self._at[event.checkpoint_id] = self.items
            case _:
                pass  # changes no list

    def at(self, checkpoint_id: str) -> tuple[TodoItem, ...]:
        """Return the list at a checkpoint; empty for an unknown one."""
        return self._at.get(checkpoint_id, ())


class CheckpointTimeline:
    """Knows the points to go back to and the batches in effect; reads every event of the main
    agent."""

    def __init__(self, events: Iterable[KnownEvent | UnknownEvent] = ()) -> None:
        self._line: BranchingHistory[Point] = BranchingHistory()
        self._order: list[CheckpointCreated] = []
        self._created: dict[str, CheckpointCreated] = {}
        self._effects: Effects = ()
        """Ids of the points before each batch that changed something and was not undone."""
        self._redo: list[_Undone] = []
        self._before: CheckpointCreated | None = None
        for event in events:
            self.add(event)

    def add(self, event: KnownEvent | UnknownEvent) -> None:
        match event:
            case CheckpointCreated():
                self._create(event)
            case CheckpointRestored():
                self._restore(event)
            case _:
                pass  # not a point to go back to

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points on the current branch to go back to, oldest first."""
        return tuple(point for point in self._line.items if point.cause in ("prompt", "batch"))

    @property
    def latest(self) -> str | None:
        """The newest snapshot."""
        return self._order[-1].snapshot if self._order else None

    @property
    def moments(self) -> frozenset[str]:
        """The entries that this conversation made in the record of who changed what."""
        return frozenset(event.moment for event in self._order if event.moment)

    @property
    def left_by_agent(self) -> str | None:
        """The newest snapshot of what the agent or a restore left."""
        return next(
            (event.snapshot for event in reversed(self._order) if event.cause == "after"), None
        )

    @property
    def redo_covers_conversation(self) -> bool:
        """Whether the last restore also took the conversation back."""
        return bool(self._redo) and self._redo[-1].conversation

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the newest snapshot does not cover."""
        return self._order[-1].left_out if self._order else ()

    def point(self, point_id: str) -> CheckpointCreated:
        """Raises CheckpointError for an unknown id."""
        if (found := self._created.get(point_id)) is None:
            raise CheckpointError(f"unknown point {point_id} in this session; nothing was changed")
        return found

    def undo_target(self, batches: int) -> Point:
        """Raises CheckpointError."""
        if not self._effects:
            raise CheckpointError(
                "there is nothing to take back: no batch of this session changed a file"
            )
        if not 1 <= batches <= len(self._effects):
            raise CheckpointError(
                f"only {len(self._effects)} of the agent's batches can be taken back"
            )
        return _point(self._created[self._effects[-batches]])

    def redo_target(self) -> Point:
        """Raises CheckpointError."""
        if not self._redo:
            raise CheckpointError(
                "there is nothing to bring back: something was done since, or nothing taken back"
            )
        return _point(self._created[self._redo[-1].before])

    def spans(self, since: str) -> tuple[Span, ...]:
        """Return what happened since a point, in order. Raises CheckpointError."""
        at = self._order.index(self.point(since))
        pairs = zip(self._order[at:], self._order[at + 1 :], strict=False)
        return tuple(Span(old.snapshot, new.snapshot, new.cause == "after") for old, new in pairs)

    def _create(self, event: CheckpointCreated) -> None:
        self._order.append(event)
        self._created[event.checkpoint_id] = event
        self._line.items.append(_point(event))
        self._line.mark(event.checkpoint_id)
        match event.cause:
            case "batch":
                self._before = event
                self._redo.clear()
            case "prompt":
                self._redo.clear()
            case "after" if self._before is not None:
                if self._before.snapshot != event.snapshot:
                    self._effects = (*self._effects, self._before.checkpoint_id)
                self._before = None
            case _:
                pass  # a restore's own snapshots

    def _restore(self, event: CheckpointRestored) -> None:
        target = self._created.get(event.checkpoint_id)
        if target is None:
            return
        match event.kind:
            case "undo" | "rewind":
                self._redo.append(_Undone(event.before, self._effects, event.conversation))
                at = self._order.index(target)
                later = {created.checkpoint_id for created in self._order[at:]}
                self._effects = tuple(effect for effect in self._effects if effect not in later)
            case "redo" if self._redo:
                self._effects = self._redo.pop().effects
            case _:
                pass  # single files: every batch stays in effect
        if event.conversation and self._line.marked(event.checkpoint_id):
            self._line.go_back(event.checkpoint_id)


def _point(event: CheckpointCreated) -> Point:
    return Point(event.checkpoint_id, event.cause, event.ts, event.label, event.batch)


def walk(
    events: Iterable[KnownEvent | UnknownEvent],
) -> BranchingHistory[KnownEvent | UnknownEvent]:
    """Return the events of the current branch, with a mark for each point the conversation can go
    back to."""
    line: BranchingHistory[KnownEvent | UnknownEvent] = BranchingHistory()
    for event in events:
        match event:
            case RunStarted():
                line.mark(PROMPT)
            case CheckpointCreated(cause="prompt"):
                line.mark(event.checkpoint_id, like=PROMPT)
            case CheckpointCreated(cause="restore"):
                line.mark(event.checkpoint_id)
            case CheckpointRestored(conversation=True) if line.marked(event.checkpoint_id):
                line.go_back(event.checkpoint_id)
            case _:
                pass  # one more on the branch
        line.items.append(event)
    return line
