"""The port of the workspace, in which tools read and change files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import IgnoreRules

FileKind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True)
class FileStat:
    kind: FileKind
    size: int
    """Bytes."""
    modified_ns: int = 0
    """When its content last changed, in nanoseconds since the epoch."""


@dataclass(frozen=True)
class DirEntry:
    name: str
    kind: FileKind
    size: int
    """Bytes; 0 for anything but a file."""
    link_target: str | None = None


class Workspace(Protocol):
    """The files below a root directory that is opened once at start.

    Paths are relative to the root, or absolute inside it. Every operation opens beneath the root
    fd in one step; nothing is checked first and opened later. All raise WorkspaceError.
    """

    @property
    def root(self) -> Path:
        """The root's own path, for display and for the sandbox; never used to open a file."""

    def relative(self, path: str) -> str:
        """Return the path as shown to the user: relative to the root, `.` and `..` folded, `.` for
        the root.

        Raises OutsideWorkspace for a path that is lexically outside, or holds a NUL.
        """

    def resolve(self, path: str, *, reading: bool = True) -> str:
        """Return where the path leads after every link inside the workspace, relative to the root.

        The last part need not exist. The answer may be outdated at once: open it again beneath the
        root. For `reading`, a link with a harmless name that leads to a file of secrets is refused.
        """

    def check(self) -> None:
        """Raise WorkspaceLost if the root is no longer where it was, or may no longer be
        entered."""

    def descriptor(self) -> int:
        """The root directory's own descriptor, for the working directory of a child process."""

    def ignores(self) -> IgnoreRules:
        """Read the ignore rules as they are now; done again for each walk."""

    def key(self, path: str) -> str:
        """Return one string for all spellings of a file, for scheduling only; never raises."""

    def stat(self, path: str) -> FileStat:
        """Look at a file or folder; links inside the workspace are followed. Raises MissingPath."""

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading, without blocking on a FIFO; see `resolve` about links.
        Raises MissingPath, NotAFile."""

    def entries(self, path: str) -> Iterator[DirEntry]:
        """List a directory, links not followed, in byte order of the names."""

    def land(self, changes: Sequence[Change[Node]], *, forced: bool = False) -> None:
        """Make all of these changes, or none, each only on the state that it is based on.

        The paths are resolved, and each occurs once. Contents are flushed together before the first
        file gets its name; each file is replaced atomically, with its owner and extended
        attributes. Missing folders are made. `forced`: read-only files are changed too, as when
        changes are taken back. Raises ContentChanged if a state does not fit, PartlyChanged if what
        was made could not be taken back, ProtectedPath.
        """
