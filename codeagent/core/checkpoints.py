"""Snapshots of the workspace that can be compared and gone back to (FEATURES F35)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

ChangeKind = Literal["added", "modified", "deleted"]
NodeKind = Literal["file", "executable", "link"]


@dataclass(frozen=True)
class Snapshot:
    """All of the workspace at one moment, but what is ignored, protected or too large."""

    id: str
    """Names the content: two snapshots of the same content have the same id."""
    files: int
    left_out: tuple[str, ...] = ()
    """What it does not cover, a phrase each: `data.bin: larger than 20 MiB`, `vendor/x: a repository of its own`."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """What no snapshot holds and yet decides what runs outside the sandbox, by path: a `.git` below the root, the
    `HEAD` of a bare repository, a file that is `paths.watched` and too large. A mark changes with its file."""


@dataclass(frozen=True)
class Node:
    """One file or link as a snapshot, or the workspace now, has it."""

    kind: NodeKind
    data: bytes
    """Of a link: where it leads."""


@dataclass(frozen=True)
class FileChange:
    path: str
    """Relative to the root; bytes that are no UTF-8 as surrogates."""
    change: ChangeKind


class Checkpoints(Protocol):
    """A private store below the state folder; the person's own repository is never written to.

    Nothing but the store may change the workspace while one of these runs: the caller sees to it that no command
    does. All raise CheckpointError.
    """

    async def take(self) -> Snapshot:
        """Snapshot the workspace as it is now."""

    async def changes(self, before: str, after: str | None) -> tuple[FileChange, ...]:
        """What differs between two snapshots, in order of the paths. `after` None: the workspace as it is now."""

    async def node(self, snapshot: str | None, path: str) -> Node | None:
        """One file of a snapshot, or of the workspace as it is now; None where there is none."""

    async def restore(
        self, target: str, *, present: str, paths: Collection[str] | None = None
    ) -> tuple[FileChange, ...]:
        """Make the workspace what `target` has, or only these paths of it; says what was changed.

        `present` is a snapshot of the workspace as it is now: a file that is neither as there nor as in `target` any
        more raises CheckpointError before anything is changed. What no snapshot covers stays as it is. After a crash
        midway `recover` finishes it.
        """

    async def replace(self, path: str, node: Node | None, *, present: Node | None) -> None:
        """Make one file this, where it still is `present`; CheckpointError where it is not. None: no file."""

    async def recover(self) -> str | None:
        """Finish a restore that a crash broke off; one line about what was done, None where there was none."""

    async def prune(self) -> None:
        """Drop what is older or larger than the store may be; snapshots of this process stay."""
