"""Changes single files below one open folder; no link on the way is ever followed."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from codeagent.core.checkpoints import Node, NodeKind
from codeagent.core.errors import ContentChanged, ProtectedPath
from codeagent.core.paths import protected_part
from codeagent.workspace import atomic
from codeagent.workspace.beneath import Place
from codeagent.workspace.snapshots.contents import FOLDER, Content, NotCovered, read_content
from codeagent.workspace.snapshots.importing import blob_name

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True)
class State:
    """What is at a path, by the hash of its content."""

    kind: NodeKind
    blob: str


class Landing:
    """Raises WorkspaceError and OSError; then the file is as it was."""

    def __init__(self, root: int, limit: int, token: str) -> None:
        """`limit` in bytes: what is larger is never read. `token` marks the unfinished files this makes."""
        self._root = root
        self._limit = limit
        self._mark = f".codeagent-{token}"
        self._number = 0
        self._touched: set[str] = set()

    def content(self, path: str) -> Content | None:
        """None where nothing is, or a folder. Raises NotCovered."""
        with self._parent(path) as place:
            return None if place is None else read_content(place.parent, place.name, self._limit)

    def state(self, path: str) -> State | None:
        """Raises NotCovered."""
        content = self.content(path)
        return None if content is None else State(content.kind, blob_name(content.data))

    def is_folder(self, path: str) -> bool:
        with self._parent(path) as place:
            if place is None:
                return False
            try:
                return stat.S_ISDIR(os.stat(place.name, dir_fd=place.parent, follow_symlinks=False).st_mode)
            except OSError:
                return False

    def exists(self, path: str) -> bool:
        with self._parent(path) as place:
            if place is None:
                return False
            try:
                os.stat(place.name, dir_fd=place.parent, follow_symlinks=False)
            except OSError:
                return False
            return True

    def all_below(self, path: str) -> Iterator[str]:
        """Everything in a folder that is not a folder itself."""
        with self._parent(path) as place:
            if place is None:
                return
            try:
                fd = os.open(place.name, FOLDER, dir_fd=place.parent)
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

    def put(self, path: str, node: Node, *, present: State | None) -> None:
        """Make the path this where it still is `present`; an empty folder there gives way."""
        _refuse_protected(path)
        with self._parent(path, make=True) as place:
            if place is None:
                raise ContentChanged(f"a folder above {path} is none any more")
            self._number += 1
            draft = f"{self._mark}-{self._number}.tmp"
            try:
                self._fill(place, draft, node)
                self._expect(place, present)
                if present is None:
                    _remove_empty_folders(place.parent, place.name)
                atomic.give_name(place, draft, replacing=present is not None)
            finally:
                atomic.discard(place, draft)
            self._touch(path)

    def remove(self, path: str, *, present: State) -> None:
        """Remove the file where it still is `present`, and the folders that this leaves empty."""
        _refuse_protected(path)
        with self._parent(path) as place:
            if place is None:
                raise ContentChanged(f"{path} is gone")
            self._expect(place, present)
            os.unlink(place.name, dir_fd=place.parent)
        self._touch(path)
        folder = path.rpartition("/")[0]
        while folder:
            with self._parent(folder) as place:
                try:
                    os.rmdir(place.name, dir_fd=place.parent) if place is not None else None
                except OSError:
                    return
            folder = folder.rpartition("/")[0]

    def drop(self, path: str) -> None:
        """Remove a file that nobody needs, whatever is in it, where that can be done."""
        with self._parent(path) as place:
            if place is not None:
                atomic.discard(place, place.name)

    def settle(self) -> None:
        """What was changed stays changed, whatever happens to the machine. Raises OSError."""
        for folder in sorted(self._touched):
            with self._parent(f"{folder}/." if folder else ".") as place:
                if place is not None:
                    os.fsync(place.parent)
        self._touched.clear()

    def clear(self, path: str) -> None:
        """Remove what a crash left unfinished beside the path."""
        with self._parent(path) as place:
            if place is None:
                return
            with os.scandir(place.parent) as listing:
                drafts = [entry.name for entry in listing if entry.name.startswith(self._mark)]
            for draft in drafts:
                os.unlink(draft, dir_fd=place.parent)

    def _touch(self, path: str) -> None:
        self._touched.add(path.rpartition("/")[0])

    def _fill(self, place: Place, draft: str, node: Node) -> None:
        if node.kind == "link":
            os.symlink(node.data, os.fsencode(draft), dir_fd=place.parent)
            if os.geteuid() == 0:
                owner = os.fstat(self._root)
                os.chown(draft, owner.st_uid, owner.st_gid, dir_fd=place.parent, follow_symlinks=False)
            return
        old = _regular(place)
        wanted = 0o777 if node.kind == "executable" else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(draft, flags, wanted if old is None else 0o600, dir_fd=place.parent)
        try:
            rest = memoryview(node.data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if old is not None:
                atomic.keep_attributes(place, fd, old)
                os.fchmod(fd, _mode(stat.S_IMODE(os.fstat(fd).st_mode), node.kind))
            elif os.geteuid() == 0:
                owner = os.fstat(self._root)
                os.fchown(fd, owner.st_uid, owner.st_gid)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _expect(self, place: Place, present: State | None) -> None:
        try:
            content = read_content(place.parent, place.name, self._limit)
        except NotCovered as reason:
            raise ContentChanged(f"{place.path} is {reason}") from None
        found = None if content is None else State(content.kind, blob_name(content.data))
        if found != present:
            raise ContentChanged(f"{place.path} has changed meanwhile")

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[Place | None]:
        """The open folder that holds the path; None where there is none, or a link on the way."""
        *folders, name = path.split("/")
        fd = os.dup(self._root)
        try:
            for at, folder in enumerate(folders):
                inner = self._inner(fd, folder, make, "/".join(folders[: at + 1]))
                if inner is None:
                    yield None
                    return
                os.close(fd)
                fd = inner
            yield Place(fd, name, path)
        finally:
            os.close(fd)

    def _inner(self, parent: int, name: str, make: bool, path: str) -> int | None:
        for attempt in range(2):
            try:
                return os.open(name, FOLDER, dir_fd=parent)
            except OSError as error:
                if error.errno not in _NOT_THERE:
                    raise
                if not make or attempt or error.errno != errno.ENOENT:
                    return None
            self._make_folder(parent, name, path)
        return None

    def _make_folder(self, parent: int, name: str, path: str) -> None:
        _refuse_protected(path)
        try:
            os.mkdir(name, dir_fd=parent)
        except FileExistsError:
            return
        self._touch(path)
        if os.geteuid() == 0:
            owner = os.fstat(self._root)
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)


def _regular(place: Place) -> os.stat_result | None:
    try:
        found = os.stat(place.name, dir_fd=place.parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _mode(mode: int, kind: NodeKind) -> int:
    """Who may read may run it, or nobody may."""
    return mode | (mode & 0o444) >> 2 | 0o100 if kind == "executable" else mode & ~0o111


def _remove_empty_folders(parent: int, name: str) -> None:
    """A folder that holds nothing but folders. Raises OSError where it holds more."""
    try:
        fd = os.open(name, FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return
        raise
    try:
        with os.scandir(fd) as listing:
            names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
        for inner in names:
            _remove_empty_folders(fd, inner)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def _refuse_protected(path: str) -> None:
    part = protected_part(path)
    if part is not None or any(piece in ("", ".", "..") for piece in path.split("/")) or "\0" in path:
        raise ProtectedPath(f"{path} is protected: no snapshot holds it")
