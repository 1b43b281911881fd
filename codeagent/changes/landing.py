"""Lands changes on the disk: all of them or none, with one grouped sync, each only on the state it
is based on."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from typing import Generic, Literal, Protocol, TypeVar, assert_never

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.errors import CodeagentError, ContentChanged, MissingPath, WorkspaceError
from codeagent.core.sanitize import spelled
from codeagent.disk import atomic
from codeagent.disk.confined import Location
from codeagent.disk.opens import remove_empty_folders, sync_file_system

SideT = TypeVar("SideT")
_MOST_OPEN = 128
"""Up to so many unfinished files stay open, and so cannot be taken for leftovers of a killed
process."""
_FEW = 32
"""Up to so many files are flushed one by one; a flush of the whole file system waits for what
others wrote, too."""


class Writer(Protocol[SideT]):
    """Makes changes, as long as nothing fails."""

    def apply(self, changes: Sequence[Change[SideT]]) -> None:
        """Make the changes. Raises CodeagentError and OSError; some may have been made then."""

    def done(self, changes: Sequence[Change[SideT]]) -> list[Change[SideT]]:
        """Return which of them were made, in the order in which they were."""

    def take_back(self, changes: Sequence[Change[SideT]]) -> None:
        """Make changes in this order, which take back others that were made. Raises as `apply`."""


class NotLanded(Exception):
    """Nothing was changed."""

    def __init__(self, reason: CodeagentError | OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class HalfLanded(Exception, Generic[SideT]):
    """Some changes were made and could not be taken back."""

    def __init__(
        self,
        reason: CodeagentError | OSError,
        stuck: CodeagentError | OSError,
        left: Sequence[Change[SideT]],
    ) -> None:
        super().__init__(str(reason))
        self.reason = reason
        """Why the changes were not all made."""
        self.stuck = stuck
        """Why they could not be taken back."""
        self.left = tuple(left)


def land(writer: Writer[SideT], changes: Sequence[Change[SideT]]) -> None:
    """Make all of the changes or none. Raises NotLanded, or HalfLanded if those that were made
    cannot be taken back."""
    try:
        writer.apply(changes)
    except (CodeagentError, OSError) as error:
        reason = error
    else:
        return
    back = [change.back for change in reversed(writer.done(changes))]
    try:
        writer.take_back(back)
    except (CodeagentError, OSError) as stuck:
        made = set(map(id, writer.done(back)))
        left = _one_by_one(writer, [each for each in back if id(each) not in made])
        if left:
            raise HalfLanded(reason, stuck, left) from None
    raise NotLanded(reason) from None


def _one_by_one(writer: Writer[SideT], back: Sequence[Change[SideT]]) -> list[Change[SideT]]:
    """Take back what can be taken back; return the rest."""
    left = []
    for change in back:
        try:
            writer.take_back([change])
        except (CodeagentError, OSError):
            left.append(change)
    return left


def steps_of(changes: Sequence[Change[Node]]) -> list[Change[Node]]:
    """Return what is done for the changes, in single steps.

    A file that is renamed and changed is renamed first. If another change is in the way of its old
    or its new path, it is written again and removed.
    """
    counted = Counter(path for change in changes for path in change.paths)
    folders = {folder for path in counted for folder in folders_of(path)}
    steps: list[Change[Node]] = []
    for change in changes:
        if change.source is None:
            steps.append(change)
        elif any(
            counted[path] > 1 or path in folders or any(map(counted.__contains__, folders_of(path)))
            for path in change.paths
        ):
            steps.append(Change(change.source, change.before, None))
            steps.append(Change(change.path, None, change.after))
        else:
            steps.append(Change(change.path, change.before, change.before, change.source))
            if change.before != change.after:
                steps.append(Change(change.path, change.before, change.after))
    return steps


Locate = Callable[[str, bool], AbstractContextManager[Location]]
"""Opens the folder that a path is in, made before on request. Raises ContentChanged if a link is on
the way, WorkspaceError."""


class WorkspaceWriter:
    """Makes changes in a workspace that others change at the same time: what is there is compared
    once more in the instant before it is replaced."""

    def __init__(
        self, root: int, owner: tuple[int, int], locate: Locate, *, forced: bool = False
    ) -> None:
        """`root` is the open folder, whose `owner` (uid, gid) owns new files. `forced`: read-only
        files are changed too, as when changes are taken back."""
        self._root = root
        self._device = os.fstat(root).st_dev
        self._owner = owner
        self._locate = locate
        self._forced = forced
        self._done: list[Change[Node]] = []

    def done(self, changes: Sequence[Change[Node]]) -> list[Change[Node]]:
        asked = set(map(id, changes))
        return [change for change in self._done if id(change) in asked]

    def apply(self, changes: Sequence[Change[Node]]) -> None:
        """Check all, write all contents and flush them together, then give each its name.

        Each is a single step. Removals come last, as not everything about a removed file can be put
        back, but first if something comes in their place. Raises WorkspaceError and OSError.
        """
        ways = _in_the_way(changes)
        first = [change for change in changes if change.path in ways and change.after is None]
        last = [each for each in changes if each.path not in ways and each.after is None]
        moved = [change for change in changes if change.source is not None]
        written = [each for each in changes if each.after is not None and each.source is None]
        free = {path for change in (*first, *moved) for path in change.paths}
        free |= {folder for change in first for folder in folders_of(change.path)}
        for change in changes:
            comes_later = change.after is not None and change.source is None
            if not comes_later or free.isdisjoint((change.path, *folders_of(change.path))):
                self._check(change)
        self._make([*first, *moved, *written, *last])

    def take_back(self, changes: Sequence[Change[Node]]) -> None:
        self._forced = True
        self._make(changes)

    def _make(self, changes: Sequence[Change[Node]]) -> None:
        """Make changes in this order, those that follow each other and are alike together."""
        for kind, alike in groupby(changes, _kind):
            match kind:
                case "write":
                    self._write(list(alike))
                case "move":
                    for change in alike:
                        self._move(change)
                case "remove":
                    for change in alike:
                        self._remove(change)
                case _:
                    assert_never(kind)
        self._sync_folders([path for change in changes for path in change.paths])

    def _check(self, change: Change[Node]) -> None:
        """Raises WorkspaceError if the file is not as the change expects."""
        try:
            with self._locate(change.paths[0], False) as location:
                atomic.check(location, change.before, forced=self._forced)
        except MissingPath:
            if change.before is not None:
                raise ContentChanged(
                    f"{spelled(change.paths[0])} is gone; nothing was written"
                ) from None

    def _write(self, changes: Sequence[Change[Node]]) -> None:
        """Write the contents, flush them, and give each file its name."""
        drafts = [
            (change, atomic.FileDraft(change.after, change.before, forced=self._forced))
            for change in changes
            if change.after is not None
        ]
        try:
            for change, draft in drafts:
                with self._working_on(change, make=change.before is None) as location:
                    if change.before is None:
                        remove_empty_folders(location.parent, location.name)
                    draft.fill(location, self._owner, keep=len(drafts) <= _MOST_OPEN)
            at_once = self._flushed_at_once(len(drafts))
            for change, draft in drafts:
                if draft.device is not None and not (at_once and draft.device == self._device):
                    with self._working_on(change) as location:
                        draft.flush(location)
            for change, draft in drafts:
                with self._working_on(change) as location:
                    draft.name(location)
                self._done.append(change)
        finally:
            for change, draft in drafts:
                if not draft.is_placed:
                    self._discard(change, draft)

    def _discard(self, change: Change[Node], draft: atomic.FileDraft) -> None:
        try:
            with self._locate(change.path, False) as location:
                draft.discard(location)
        except WorkspaceError:
            draft.discard(None)

    def _move(self, change: Change[Node]) -> None:
        assert change.source is not None and change.before is not None
        with (
            self._locate(change.source, False) as location,
            self._working_on(change, make=True) as target,
        ):
            atomic.move(location, target, change.before, forced=self._forced)
        self._done.append(change)

    def _remove(self, change: Change[Node]) -> None:
        assert change.before is not None
        with self._working_on(change) as location:
            atomic.remove(location, change.before, forced=self._forced)
        self._done.append(change)

    def _flushed_at_once(self, files: int) -> bool:
        """Flush the whole file system if that is possible, and quicker than each file."""
        if files <= _FEW:
            return False
        try:
            sync_file_system(self._root)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            return False
        return True

    def _sync_folders(self, paths: Sequence[str]) -> None:
        folders = {path.rpartition("/")[0]: path for path in paths}
        at_once = self._flushed_at_once(len(folders))
        for path in folders.values():
            # A folder may have become a file or a link.
            with suppress(WorkspaceError), self._locate(path, False) as location:
                if not at_once or os.fstat(location.parent).st_dev != self._device:
                    os.fsync(location.parent)

    @contextmanager
    def _working_on(self, change: Change[Node], *, make: bool = False) -> Iterator[Location]:
        """Open the folder of a changed file, and turn the system's errors into ours."""
        try:
            with self._locate(change.path, make) as location:
                yield location
        except OSError as error:
            did, kept = _doing(change)
            raise WorkspaceError(f"cannot {did}: {os.strerror(error.errno or 0)}; {kept}") from None


def _doing(change: Change[Node]) -> tuple[str, str]:
    """Return what is being done, and what is the case if it fails, as phrases."""
    path = spelled(change.path)
    if change.after is None:
        return f"remove {path}", "it was kept"
    if change.source is not None:
        return f"move {spelled(change.source)} to {path}", "it was kept"
    return f"write {path}", "the old content was kept"


def _kind(change: Change[Node]) -> Literal["write", "move", "remove"]:
    if change.after is None:
        return "remove"
    return "write" if change.source is None else "move"


def _in_the_way(changes: Sequence[Change[Node]]) -> set[str]:
    """Return the paths of removed files where a new one comes or needs a folder, or in whose
    folder's place a new one comes."""
    come = {change.path for change in changes if change.after is not None}
    folders = {folder for path in come for folder in folders_of(path)}
    gone = [change.path for change in changes if change.after is None]
    return {
        path for path in gone if path in folders or not come.isdisjoint((path, *folders_of(path)))
    }


def folders_of(path: str) -> list[str]:
    """Return the folders that a path is in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
