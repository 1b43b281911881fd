"""Snapshots of the workspace, the points of a session, and going back to one."""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass

ChangeKind = Literal["added", "modified", "deleted"]
NodeKind = Literal["file", "executable", "link"]
PointCause = Literal["prompt", "batch", "after", "restore"]
RestoreKind = Literal["undo", "redo", "rewind", "files"]


@dataclass(frozen=True)
class Snapshot:
    """The whole workspace at one moment, except what is ignored, protected or too large."""

    id: str
    """Identifies the content: two snapshots of the same content have the same id."""
    files: int
    left_out: tuple[str, ...] = ()
    """What it does not cover, a phrase each: `data.bin: larger than 20 MiB`, `vendor/x: a
    repository of its own`."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """What no snapshot holds and yet decides what runs outside the sandbox, by path: a `.git` below
    the root, the `HEAD` of a bare repository, a file that is `paths.watched` and too large. A mark
    changes with its file."""
    linked: Mapping[str, str] = field(default_factory=dict)
    """What a link that is `paths.watched` leads to, by path, and the link: who follows it runs this
    file."""
    others: tuple[int, ...] = field(default=(), compare=False)
    """The ids of other processes of codeagent that work in this workspace."""
    moment: str = field(default="", compare=False)
    """The name of its entry in the record of who changed what; empty if it has no entry."""
    at: float = field(default=0.0, compare=False)
    """When it was begun, in seconds since the epoch."""


@dataclass(frozen=True)
class Node:
    """One file or link as a snapshot, or the workspace now, has it."""

    kind: NodeKind
    data: bytes
    """Of a link: its target."""
    mode: int | None = None
    """Permission bits of a file; None if they are not known: then it keeps those of the file in its
    place, apart from whether it can be run."""


@dataclass(frozen=True)
class FileChange:
    """A `Change` in a list: what happened to a path; its contents are read when they are shown."""

    path: str
    """Relative to the root; bytes that are not UTF-8 are surrogates."""
    change: ChangeKind


@dataclass(frozen=True)
class OthersChanges:
    """The changes since a point that other sessions in the same workspace made."""

    kept: frozenset[str] = frozenset()
    """Files that only others changed."""
    merged: Mapping[str, Node | None] = field(default_factory=dict)
    """Files that both changed, with only the changes of the others."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Files that cannot be taken back without losing what others did; the reason as a phrase."""

    def leaves(self, path: str) -> bool:
        """Whether going back leaves the file as it is."""
        return path in self.kept or path in self.refused


class Checkpoints(Protocol):
    """A private store below the state folder; the user's own repository is never written to.

    Nothing but the store may change the workspace while one of these runs: the caller sees to it
    that no command does. All raise CheckpointError.
    """

    @property
    def scanned(self) -> int:
        """How many files the present snapshot has looked at so far."""

    async def take(self, *, commands: bool | None = None) -> Snapshot:
        """Snapshot the workspace as it is now.

        If `commands` is given, it is recorded as a moment of this session; it tells whether
        commands of the session may change files until the next one.
        """

    async def changes(self, before: str, after: str | None) -> tuple[FileChange, ...]:
        """What differs between two snapshots, in order of the paths. `after` None: the workspace as
        it is now."""

    async def node(self, snapshot: str | None, path: str) -> Node | None:
        """One file of a snapshot, or of the workspace as it is now; None if it does not exist."""

    async def theirs(
        self, since: str, target: str, present: str, own: Collection[str]
    ) -> OthersChanges:
        """Return which differences between two snapshots other sessions made.

        `since` is the moment of `target`; `own` are all moments of the conversation.
        """

    async def written_by_others(self, since: float) -> Mapping[str, str]:
        """Return what file tools of other sessions wrote since then: SHA-256 by path, empty for a
        removed file."""

    async def restore(
        self,
        target: str,
        *,
        present: str,
        paths: Collection[str] | None = None,
        instead: Mapping[str, Node | None] | None = None,
    ) -> tuple[FileChange, ...]:
        """Bring the workspace, or only these paths of it, to the state of `target`; says what was
        changed.

        A file in `instead` becomes what is given there, not what `target` has.

        `present` is a snapshot of the workspace as it is now: a file that by then is neither as
        there nor as in `target` raises CheckpointError before anything is changed. What no snapshot
        covers stays as it is. After a crash midway `recover` finishes it.
        """

    async def replace(self, path: str, node: Node | None, *, present: Node | None) -> None:
        """Replace one file that still is `present`; None removes it. Raises CheckpointError if it
        has changed."""

    async def recover(self) -> str | None:
        """Finish a restore that a crash interrupted; return one line about what was done, None if
        there was none."""

    async def prune(self) -> None:
        """Remove what exceeds the store's age or size; snapshots of this process stay."""


@dataclass(frozen=True)
class Point:
    """A moment to go back to."""

    id: str
    cause: PointCause
    """When it was made: before a prompt's run, before or after a batch that may change files, or
    before going back."""
    at: float
    """Seconds since the epoch."""
    label: str
    """The prompt, or the targets of the batch, in one line."""
    batch: int | None = None
    """Number within its run, from 1."""


@dataclass(frozen=True)
class ChangedFile:
    path: str
    change: ChangeKind
    """What happened to it since."""
    edited: bool = False
    """Whether somebody other than the agent changed it after the agent did: going back would lose
    that."""


@dataclass(frozen=True)
class Changes:
    files: tuple[ChangedFile, ...]
    left_out: tuple[str, ...] = ()
    """What cannot be seen or brought back, a phrase each."""
    refused: tuple[str, ...] = ()
    """Files that the agent changed and that stay as they are, as another session changed them too;
    a phrase each."""
    present: str | None = None
    """Stands for the workspace as it was compared, for `Restore.seen`; None if two earlier points
    were."""


class Rewind(Protocol):
    """The points to go back to, for the acts `Restore` and `RestoreFile`. All methods raise
    CheckpointError."""

    @property
    def restored(self) -> tuple[ChangedFile, ...]:
        """The files that the last `Restore` changed."""

    def points(self) -> tuple[Point, ...]:
        """The points on the way to the present, oldest first."""

    async def undo_target(self, batches: int = 1) -> Point:
        """The point before the last batches that changed something."""

    async def redo_target(self) -> Point:
        """The point before the last restore, if nothing was done since."""

    async def changes(self, since: str, until: str | None = None) -> Changes:
        """List what differs between two points; `until` None means now."""

    async def node(self, point: str | None, path: str) -> Node | None:
        """Return one file as it was then; `point` None: as it is now."""

    async def left_by_agent(self, path: str) -> Node | None:
        """Return one file as the agent last left it: any difference now is somebody else's work."""
