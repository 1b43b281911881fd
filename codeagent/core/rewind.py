"""Going back: the moments of a conversation, what changed since, and how to return to one (FEATURES F35)."""

from dataclasses import dataclass
from typing import Literal, Protocol

from codeagent.core.checkpoints import ChangeKind, Node

PointCause = Literal["prompt", "batch", "after", "restore"]
RestoreKind = Literal["undo", "redo", "rewind", "files"]


@dataclass(frozen=True)
class Point:
    """A moment that can be gone back to."""

    id: str
    cause: PointCause
    """Before a prompt's run; before or after a batch that may change files; before going back."""
    at: float
    """Seconds since the epoch."""
    label: str
    """The prompt, or the targets of the batch, in one line."""
    batch: int | None = None
    """Within its run, from 1."""


@dataclass(frozen=True)
class ChangedFile:
    path: str
    change: ChangeKind
    """What happened to it since."""
    edited: bool = False
    """Somebody else than the agent changed it, too, after the agent had: going back would lose that."""


@dataclass(frozen=True)
class Changes:
    files: tuple[ChangedFile, ...]
    left_out: tuple[str, ...] = ()
    """What cannot be seen or brought back, a phrase each."""


class Rewind(Protocol):
    """What can be gone back to; the acts `Restore` and `RestoreFile` do it. All raise CheckpointError."""

    @property
    def restored(self) -> tuple[ChangedFile, ...]:
        """The files that the last `Restore` changed."""

    def points(self) -> tuple[Point, ...]:
        """Those on the way to the present, oldest first."""

    def undo_target(self, batches: int = 1) -> Point:
        """The moment before the last batches that changed something."""

    def redo_target(self) -> Point:
        """The moment before the last going back, where nothing was done since."""

    async def changes(self, since: str, until: str | None = None) -> Changes:
        """What differs between two points; `until` None: now."""

    async def node(self, point: str | None, path: str) -> Node | None:
        """One file as it was then; `point` None: as it is now."""

    async def left_by_agent(self, path: str) -> Node | None:
        """One file as the agent left it last: what differs from it now is somebody else's."""
