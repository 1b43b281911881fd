"""Writes and removes single files and links below an open folder: through no link, and only while
they are as they were."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from codeagent.core.checkpoints import Node
from codeagent.core.errors import ContentChanged, ProtectedPath
from codeagent.core.paths import protected_part
from codeagent.disk import atomic
from codeagent.disk.confined import Location
from codeagent.disk.opens import (
    NOT_THERE,
    closing_fd,
    create_file,
    open_below,
    open_file,
    open_folder,
    remove_empty_folders,
    sync_file_system,
)
from codeagent.workspace.snapshots.contents import Content, NotCovered, read_content, stamp_of
from codeagent.workspace.snapshots.index import NO_STAMP, FileState, Stamp
from codeagent.workspace.snapshots.objects import blob_name

_FEW = 32
"""Up to so many files are flushed one by one; a flush of the whole file system waits for what
others wrote, too."""


Placing = tuple[str, Node, FileState | None]
"""A path, what is to be there, and the state that it must still have."""
NO_STATE = FileState("file", "")
"""The state of what no snapshot holds: it is never that of a file in one."""


class FileWriter:
    """Changes files below one folder. Raises WorkspaceError and OSError; then the file is as it
    was."""

    def __init__(self, root: int, limit: int, token: str) -> None:
        """`root` is the open folder. `limit` in bytes: larger files are never read. `token` marks
        unfinished files."""
        self.root = root
        self.token = token
        self._limit = limit
        self._mark = f".codeagent-{token}"
        self._number = 0
        self._touched: set[str] = set()
        self._steady = False
        self._open: tuple[str, int | None] | None = None
        """The folder that was opened last, while `steady`; None for one that does not exist."""
        self._stamps: dict[str, tuple[Stamp, FileState]] = {}
        """What `state` returned, by path, for files whose stamp shows every later change."""

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Open a folder once for paths that follow each other; nothing may remove a folder in the
        block."""
        if self._steady:
            yield
            return
        self._steady = True
        try:
            yield
        finally:
            self._steady = False
            self._let_go()

    def _let_go(self) -> None:
        if self._open is not None and self._open[1] is not None:
            os.close(self._open[1])
        self._open = None

    def content(self, path: str) -> Content | None:
        """Read what is at the path; None if nothing, or a folder. Raises NotCovered."""
        with self._parent(path) as location:
            if location is None:
                return None
            return read_content(location.parent, location.name, self._limit)

    def state(self, path: str) -> FileState | None:
        """Return the state of the file at the path, None if there is none, NO_STATE for what no
        snapshot holds."""
        try:
            content = self.content(path)
        except NotCovered:
            return NO_STATE
        if content is None:
            return None
        found = FileState(content.kind, blob_name(content.data))
        if content.stamp != NO_STAMP:
            self._stamps[path] = (content.stamp, found)
        return found

    def mode(self, path: str) -> int | None:
        """Return the mode of whatever is at the path, a folder or a link too; None if nothing can
        be found there."""
        with self._parent(path) as location:
            if location is None:
                return None
            try:
                return os.stat(location.name, dir_fd=location.parent, follow_symlinks=False).st_mode
            except OSError:
                return None

    def all_below(self, path: str) -> Iterator[str]:
        """Yield everything below a folder that is not a folder itself."""
        with self._parent(path) as location:
            if location is None:
                return
            try:
                fd = open_folder(location.name, within=location.parent)
            except OSError:
                return
        try:
            with os.scandir(fd) as listing:
                entries = list(listing)
        finally:
            os.close(fd)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self.all_below(f"{path}/{entry.name}")
            else:
                yield f"{path}/{entry.name}"

    def put(self, group: Sequence[Placing]) -> None:
        """Write each node whose file is still `present`; an empty folder in its place is removed.

        No file gets its name before the contents of all are on the disk: after a crash each is the
        old one or the new.
        """
        drafts: dict[str, str] = {}
        """Those that have no name of their own yet, by path."""
        with self.steady():
            try:
                self._draft(group, drafts)
                self._name(group, drafts)
            finally:
                for path, draft in drafts.items():
                    if (found := self._at(path)) is not None:
                        atomic.discard(found, draft)

    def _draft(self, group: Sequence[Placing], drafts: dict[str, str]) -> None:
        """Write the contents of a group, and flush them."""
        few = len(group) <= _FEW
        root = os.fstat(self.root)
        for path, node, present in group:
            _refuse_protected(path)
            self._number += 1
            drafts[path] = f"{self._mark}-{self._number}.tmp"
            location = self._place(path, make=True)
            old = None if present is None else _regular(location)
            self._fill(location, drafts[path], node, old, (root.st_uid, root.st_gid), sync=few)
        if not few:
            self._sync([(path.rpartition("/")[0], draft) for path, draft in drafts.items()])

    def _name(self, group: Sequence[Placing], drafts: dict[str, str]) -> None:
        """Give each file of the group its name."""
        for path, _, present in group:
            location = self._place(path)
            if present is None:
                _name_new(location, drafts[path])
            else:
                self._expect(location, present)
                atomic.give_name(location, drafts[path], replacing=True)
            del drafts[path]
            self._touch(path)

    def remove(self, group: Sequence[tuple[str, FileState]]) -> None:
        """Remove each file that is still as it is given, and the folders that this leaves empty."""
        with self.steady():
            for path, present in group:
                _refuse_protected(path)
                location = self._place(path)
                self._expect(location, present)
                os.unlink(location.name, dir_fd=location.parent)
                self._touch(path)
        for folder in sorted({path.rpartition("/")[0] for path, _ in group}, reverse=True):
            self._remove_empty(folder)

    def _remove_empty(self, folder: str) -> None:
        """Remove a folder if it is empty, and then each folder above it that has become empty."""
        while folder:
            with self._parent(folder) as location:
                try:
                    os.rmdir(
                        location.name, dir_fd=location.parent
                    ) if location is not None else None
                except OSError:
                    return
            folder = folder.rpartition("/")[0]

    def drop(self, path: str) -> None:
        """Try to remove a file that nobody needs, whatever is in it."""
        with self._parent(path) as location:
            if location is not None:
                atomic.discard(location, location.name)

    def settle(self) -> None:
        """Flush what was changed to the disk, so that it survives a crash of the machine. Raises
        OSError."""
        self._sync([(folder, ".") for folder in sorted(self._touched)])
        self._touched.clear()

    def _sync(self, names: Sequence[tuple[str, str]]) -> None:
        """Flush these files, each of a folder, one by one if they are few, else all at once. Raises
        OSError."""
        if len(names) > _FEW:
            try:
                sync_file_system(self.root)
            except OSError as error:
                if error.errno != errno.ENOSYS:
                    raise
            else:
                apart = self._mounted({folder for folder, _ in names})
                names = [each for each in names if each[0] in apart]
        for folder, name in names:
            with self._parent(f"{folder}/{name}" if folder else name) as location:
                if location is not None and not stat.S_ISLNK(_status(location).st_mode):
                    _sync_one(location)

    def _mounted(self, folders: set[str]) -> set[str]:
        """Return the folders that are on another file system than the workspace."""
        here = _device_of(self.root)
        found: set[str] = set()
        with self.steady():
            for folder in folders:
                location = self._at(f"{folder}/." if folder else ".")
                if location is not None and _device_of(location.parent) != here:
                    found.add(folder)
        return found

    def clear(self, path: str) -> None:
        """Remove what a crash left unfinished beside the path."""
        with self._parent(path) as location:
            if location is None:
                return
            with os.scandir(location.parent) as listing:
                drafts = [entry.name for entry in listing if entry.name.startswith(self._mark)]
            for draft in drafts:
                os.unlink(draft, dir_fd=location.parent)

    def _touch(self, path: str) -> None:
        self._touched.add(path.rpartition("/")[0])

    def _fill(
        self,
        location: Location,
        draft: str,
        node: Node,
        old: os.stat_result | None,
        owner: tuple[int, int],
        *,
        sync: bool,
    ) -> None:
        if node.kind == "link":
            os.symlink(node.data, os.fsencode(draft), dir_fd=location.parent)
            self._give_away(draft, location.parent)
            return
        wanted = 0o777 if node.kind == "executable" else 0o666
        with closing_fd(
            create_file(draft, wanted if old is None else 0o600, within=location.parent)
        ) as fd:
            atomic.fill(location, fd, node.data, old, owner)
            if (mode := atomic.mode_for(node, old)) is not None:
                os.fchmod(fd, mode)
            if sync:
                os.fsync(fd)

    def _give_away(self, name: str, folder: int) -> None:
        """Let the root's owner own what was made, if this process may choose."""
        if os.geteuid() == 0:
            root = os.fstat(self.root)
            os.chown(name, root.st_uid, root.st_gid, dir_fd=folder, follow_symlinks=False)

    def _expect(self, location: Location, present: FileState) -> None:
        if (known := self._stamps.get(location.path)) is not None and known == (
            _stamp_at(location),
            present,
        ):
            return
        try:
            content = read_content(location.parent, location.name, self._limit)
        except NotCovered as reason:
            raise ContentChanged(f"{location.path} is {reason}") from None
        found = None if content is None else FileState(content.kind, blob_name(content.data))
        if found != present:
            raise ContentChanged(f"{location.path} has changed since")

    @contextmanager
    def _parent(self, path: str) -> Iterator[Location | None]:
        """Open the folder that holds the path; None if there is none, or a link on the way."""
        with self.steady():
            yield self._at(path)

    def _place(self, path: str, *, make: bool = False) -> Location:
        """Return where the path is, like `_at`. Raises ContentChanged if its folder does not
        exist."""
        if (location := self._at(path, make=make)) is None:
            raise ContentChanged(f"a folder above {path} was replaced by something else")
        return location

    def _at(self, path: str, *, make: bool = False) -> Location | None:
        """Return where the path is; its folder stays open until another is needed, or `steady`
        ends."""
        folder, _, name = path.rpartition("/")
        if self._open is None or self._open[0] != folder or (make and self._open[1] is None):
            folders = folder.split("/") if folder else []
            fd = self._opened(folders)
            if fd is None and make:
                self._make_folders(folders)
                fd = self._opened(folders)
            self._let_go()
            self._open = (folder, fd)
        parent = self._open[1]
        return None if parent is None else Location(parent, name, path)

    def _opened(self, folders: list[str]) -> int | None:
        try:
            return open_below(self.root, folders, listed=True)
        except OSError as error:
            if error.errno in NOT_THERE:
                return None
            raise

    def _make_folders(self, folders: list[str]) -> None:
        """Make the missing folders, up to the first with a file or link in its place."""
        for depth in range(1, len(folders) + 1):
            path = "/".join(folders[:depth])
            _refuse_protected(path)
            if (location := self._at(path)) is None:
                return
            try:
                os.mkdir(location.name, dir_fd=location.parent)
            except FileExistsError:
                continue
            self._give_away(location.name, location.parent)
            self._touch(path)


def _device_of(fd: int) -> int:
    return os.fstat(fd).st_dev


def _status(location: Location) -> os.stat_result:
    return os.stat(location.name, dir_fd=location.parent, follow_symlinks=False)


def _name_new(location: Location, draft: str) -> None:
    """Give a new file its name; an empty folder in its place is removed. Raises ContentChanged,
    OSError."""
    try:
        atomic.give_name(location, draft, replacing=False)
    except ContentChanged:
        remove_empty_folders(location.parent, location.name)
        atomic.give_name(location, draft, replacing=False)


def _stamp_at(location: Location) -> Stamp | None:
    try:
        return stamp_of(_status(location))
    except FileNotFoundError:
        return None


def _sync_one(location: Location) -> None:
    with closing_fd(open_file(location.name, within=location.parent)) as fd:
        os.fsync(fd)


def _regular(location: Location) -> os.stat_result | None:
    try:
        found = os.stat(location.name, dir_fd=location.parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _refuse_protected(path: str) -> None:
    part = protected_part(path)
    if (
        part is not None
        or any(piece in ("", ".", "..") for piece in path.split("/"))
        or "\0" in path
    ):
        raise ProtectedPath(f"{path} is protected: no snapshot holds it")
