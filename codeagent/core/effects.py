"""What a command did in a copy-on-write view of the workspace, and the port through which it is
taken or thrown away."""

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.ports import CommandResult

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True)
class Entry:
    """What is at a path: a file, a folder, a link, or something that never lands."""

    kind: EntryKind
    device: int
    inode: int
    mode: int
    """Permission bits, without set-id bits."""
    size: int
    """Bytes of a file or of a link's target; 0 for anything else."""
    modified_ns: int
    changed_ns: int
    """When its content, mode or name last changed."""
    links: int = 1
    """How many names a file has."""
    attributes: tuple[tuple[str, str], ...] = ()
    """The extended attributes of a folder whose mode or attributes a layer changes; values in
    hexadecimal digits."""

    def is_still(self, now: "Entry | None") -> bool:
        """Whether `now` is this very file with the same content; renaming it changes neither."""
        if now is None or self.kind == "folder":
            return now is not None and (self.device, self.inode) == (now.device, now.inode)
        return (self.device, self.inode, self.size, self.modified_ns) == (
            now.device,
            now.inode,
            now.size,
            now.modified_ns,
        )


@dataclass(frozen=True)
class Effect:
    """What a command did at one path; those of a folder come before those of what is in it."""

    path: str
    """Relative to the root."""
    before: Entry | None
    after: Entry | None
    """None: it was removed."""
    only_times: bool = False
    """Whether content and mode are as before."""


class Trial(Protocol):
    """A command that has run in a view of the workspace: nothing that it changed is in the
    workspace until it is landed."""

    @property
    def result(self) -> CommandResult: ...

    @property
    def began_ns(self) -> int:
        """When it began, in nanoseconds since the epoch, by the clock of `Entry.changed_ns`."""

    async def effects(self) -> tuple[Effect, ...]:
        """Return what it would change, compared with the workspace as it is now. Raises TooMuch,
        OSError."""

    async def changes(self, effects: Sequence[Effect]) -> tuple[Change[Node], ...]:
        """Return those of the effects whose contents are small enough to show. Raises OSError."""

    async def replace(self, change: Change[Node]) -> None:
        """Let a file get this content in place of what the command wrote. Raises OSError."""

    async def land(self, effects: Sequence[Effect], left: Collection[str] = ()) -> None:
        """Land the effects without those at the paths in `left`, all or none.

        Raises ContentChanged if something is not as it was when they were read, WorkspaceError,
        PartlyChanged.
        """

    async def close(self) -> None:
        """Throw away what has not landed."""
