"""The workspace on this machine's disk: every file operation starts from one open directory."""

import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Protocol

from codeagent.core.changes import Change, content_name
from codeagent.core.checkpoints import Node
from codeagent.core.errors import (
    CodeagentError,
    MissingPath,
    NotAFile,
    OutsideWorkspace,
    PartlyChanged,
    WorkspaceError,
    WorkspaceLost,
)
from codeagent.core.paths import refuse_hidden_secret, refuse_protected
from codeagent.core.ports import DirEntry, FileKind, FileStat
from codeagent.core.sanitize import spelled
from codeagent.disk.confined import ConfinedRoot, Location
from codeagent.disk.opens import open_folder, read_regular
from codeagent.disk.repository import work_tree_of
from codeagent.workspace.ignore import IgnoreTree

_LARGEST_IGNORE_FILE = 1 << 20


class Recorder(Protocol):
    def __call__(self, *changes: tuple[str, str, str]) -> AbstractContextManager[None]:
        """Record changes that are made in the block: path, SHA-256 before and after, empty for no
        file.

        Raises WorkspaceError; then nothing may be changed.
        """


def _unrecorded(*changes: tuple[str, str, str]) -> AbstractContextManager[None]:
    return nullcontext()


class LocalWorkspace:
    """A Workspace. `close` it, or let it live as long as the process.

    When the root is moved, replaced or removed during the session, every operation says so and
    does nothing: what was approved for one folder never happens in another.
    """

    def __init__(self, root: Path, *, kernel: bool | None = None) -> None:
        """`kernel` forces or forbids openat2. Raises WorkspaceError if `root` is not a
        directory."""
        self._given = posixpath.normpath(root.absolute())
        self._root = root.resolve()
        try:
            self._fd = open_folder(self._root)
        except OSError as error:
            raise WorkspaceError(
                f"cannot work in {root}: {os.strerror(error.errno or 0)}"
            ) from None
        self._identity = os.fstat(self._fd)
        self._beneath = ConfinedRoot(self._fd, str(self._root), kernel=kernel)
        self.recorder: Recorder = _unrecorded
        """Told of every file that is changed here, for the record of who changed what."""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def root(self) -> Path:
        return self._root

    def check(self) -> None:
        try:
            found = self._root.lstat()
        except OSError as error:
            raise self._lost(self._gone(error)) from None
        if (found.st_dev, found.st_ino) != (self._identity.st_dev, self._identity.st_ino):
            raise self._lost(
                "replaced" if found.st_dev == self._identity.st_dev else "unmounted or replaced"
            )
        if not os.access(self._root, os.R_OK | os.X_OK, effective_ids=True):
            raise self._lost(f"closed to this user ({os.strerror(errno.EACCES)})")

    def descriptor(self) -> int:
        self.check()
        return self._fd

    def relative(self, path: str) -> str:
        if "\0" in path:
            raise OutsideWorkspace("a path cannot contain a NUL character")
        full = posixpath.normpath(posixpath.join(self._root, path))
        full = "/" + full.lstrip("/")
        for root in (str(self._root), str(self._given)):
            if full == root:
                return "."
            if full.startswith(root.rstrip("/") + "/"):
                return full[len(root.rstrip("/")) + 1 :]
        raise OutsideWorkspace(f"{path} is outside the workspace {self._root}; nothing was touched")

    def resolve(self, path: str, *, reading: bool = True) -> str:
        relative = self.relative(path)
        self.check()
        resolved = self._resolved(relative)
        if reading:
            refuse_hidden_secret(relative, resolved)
        return resolved

    def _resolved(self, relative: str) -> str:
        missing: list[str] = []
        while True:
            try:
                with self._beneath.locate(relative) as location:
                    return posixpath.normpath(posixpath.join(location.path, *missing))
            except MissingPath:
                if relative == ".":
                    raise
                head, tail = posixpath.split(relative)
                relative = head or "."
                missing.insert(0, tail)

    def key(self, path: str) -> str:
        try:
            return self.resolve(path, reading=False)
        except WorkspaceError:
            return posixpath.normpath(path)

    def ignores(self) -> IgnoreTree:
        top = work_tree_of(self._root)
        return IgnoreTree(
            self._ignore_file, () if top is None else self._root.relative_to(top).parts
        )

    def stat(self, path: str) -> FileStat:
        relative = self.relative(path)
        self.check()
        found = self._beneath.stat(relative)
        return FileStat(_kind(found.st_mode), found.st_size, found.st_mtime_ns)

    def open(self, path: str) -> BinaryIO:
        relative = self.relative(path)
        self.check()
        fd = self._beneath.open(relative, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                raise NotAFile(f"{relative} is a {_described(mode)}, not a regular file")
            return os.fdopen(fd, "rb")
        except BaseException:
            os.close(fd)
            raise

    def entries(self, path: str) -> Iterator[DirEntry]:
        relative = self.relative(path)
        self.check()
        fd = self._beneath.open(relative, os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = sorted(os.listdir(fd), key=os.fsencode)  # noqa: PTH208  # a Path has no descriptor to list
            found = [entry for name in names if (entry := _entry(fd, name)) is not None]
        except OSError as error:
            raise WorkspaceError(
                f"cannot list {relative}: {os.strerror(error.errno or 0)}"
            ) from None
        finally:
            os.close(fd)
        return iter(found)

    def land(self, changes: Sequence[Change[Node]], *, forced: bool = False) -> None:
        from codeagent.changes import landing  # most runs change no file

        for path in (path for change in changes for path in change.paths):
            refuse_protected(self.relative(path))
        self.check()
        owner = (self._identity.st_uid, self._identity.st_gid)
        writer = landing.WorkspaceWriter(self._fd, owner, self._located, forced=forced)
        with self.recorder(*(record for change in changes for record in _records(change))):
            try:
                landing.land(writer, landing.steps_of(changes))
            except landing.NotLanded as error:
                raise _as_workspace_error(error.reason) from None
            except landing.HalfLanded as error:
                paths = dict.fromkeys(change.path for change in error.left)
                raise PartlyChanged(
                    f"{_as_workspace_error(error.reason)}; and these could not be put back as they were: "
                    f"{', '.join(map(spelled, paths))}"
                ) from None

    def _located(self, path: str, make: bool) -> AbstractContextManager[Location]:
        refuse_protected(posixpath.normpath(path))
        return self._beneath.locate(path, make_parents=make, follow=False)

    def _lost(self, how: str) -> WorkspaceLost:
        moved_to = self._where()
        if moved_to == str(self._root):
            moved_to = None
        if moved_to is not None:
            how = f"moved to {moved_to}"
        return WorkspaceLost(f"the folder {self._root} was {how}", moved_to)

    def _gone(self, error: OSError) -> str:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            return f"put out of reach ({os.strerror(error.errno or 0)})"
        return "moved or removed" if os.fstat(self._fd).st_nlink else "removed"

    def _where(self) -> str | None:
        """Return where the folder is now; None if it was removed or unmounted, or is out of
        reach."""
        try:
            found = os.readlink(f"/proc/self/fd/{self._fd}")  # noqa: PTH115  # compared with the bytes of a path
            moved = os.lstat(found)
        except OSError:
            return None
        return (
            found
            if (moved.st_dev, moved.st_ino) == (self._identity.st_dev, self._identity.st_ino)
            else None
        )

    def _ignore_file(self, path: str) -> bytes | None:
        try:
            if path.startswith("../"):
                return read_regular(self._root / path, most=_LARGEST_IGNORE_FILE)
            with self.open(path) as file:
                return file.read(_LARGEST_IGNORE_FILE)
        except (WorkspaceError, OSError):
            return None


def _records(change: Change[Node]) -> Iterator[tuple[str, str, str]]:
    before, after = content_name(change.before), content_name(change.after)
    if change.source is None:
        yield change.path, before, after
    else:
        yield change.source, before, ""
        yield change.path, "", after


def _as_workspace_error(reason: CodeagentError | OSError) -> CodeagentError:
    if isinstance(reason, OSError):
        return WorkspaceError(f"cannot write: {os.strerror(reason.errno or 0)}")
    return reason


def _entry(directory: int, name: str) -> DirEntry | None:
    """Describe one name; None if it has vanished since the listing."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        target = os.readlink(name, dir_fd=directory) if stat.S_ISLNK(found.st_mode) else None
    except OSError:
        return None
    kind = _kind(found.st_mode)
    return DirEntry(name, kind, found.st_size if kind == "file" else 0, target)


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def _described(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"
