"""Replaces, moves or removes one file of an open directory, whole or not at all."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeagent.core.checkpoints import Node
from codeagent.core.errors import ContentChanged, NotAFile, WorkspaceError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.confined import Location
from codeagent.disk.locks import try_lock, wait_for_lock
from codeagent.disk.opens import (
    closing_fd,
    create_file,
    open_file,
    open_folder,
    open_regular,
    rename_new,
)

LEFTOVER = lazy_regex(r"\.codeagent-(check-)?[0-9a-f]{16}((-\d+)?\.tmp|-reply)?")
"""The names of unfinished files, those of the sandbox's self-test included."""
_CHUNK = 1 << 20
_DESCRIPTORS = "/proc/self/fd"
_PATIENCE = 1.0
"""Seconds to wait for another writer of the same folder, whose last step takes milliseconds."""


class FileDraft:
    """A file or link that is written beside its place, and gets its name when all is written.

    The folder is opened for each step, so that thousands can be unfinished at once.
    """

    def __init__(self, node: Node, base: Node | None, *, forced: bool = False) -> None:
        """`base` must be in its place until then; `forced`: even if that is read-only."""
        self._node = node
        self._base = base
        self._forced = forced
        self._fd = -1
        """The file while it is open; it stays locked so long, which tells others that it is not a
        leftover."""
        self._named = True
        """Whether it has a name already; without one it ends with this process."""
        self._temporary = f".codeagent-{os.urandom(8).hex()}.tmp"
        self.device: int | None = None
        """The file system that its content was written to; None if it has none to be flushed."""
        self.is_placed = False
        """Whether it has got its name, so that nothing is left to be discarded."""

    def fill(self, location: Location, owner: tuple[int, int], *, keep: bool) -> None:
        """Write the content; `keep`: the file stays open until it has its name or is discarded.

        Mode, owner and extended attributes of the present file stay; set-id bits do not. `owner`
        (uid, gid) owns a new file if this process may choose. A hard link is cut, never written
        through. Raises ContentChanged, NotAFile, WorkspaceError, OSError.
        """
        found, node = check(location, self._base, forced=self._forced), self._node
        if node.kind == "link":
            os.symlink(node.data, os.fsencode(self._temporary), dir_fd=location.parent)
            if os.geteuid() == 0:
                os.chown(self._temporary, *owner, dir_fd=location.parent, follow_symlinks=False)
            return
        old = found if found is not None and stat.S_ISREG(found.st_mode) else None
        mode = 0o777 if node.kind == "executable" else 0o666
        mode = 0o600 if old is not None or node.mode is not None else mode
        unnamed = _unnamed(location, mode) if keep else None
        self._named = unnamed is None
        self._fd = (
            create_file(self._temporary, mode, within=location.parent)
            if unnamed is None
            else unnamed
        )
        try:
            with suppress(OSError):  # a file system without locks: it may be taken for a leftover
                try_lock(self._fd)
            self.device = os.fstat(self._fd).st_dev
            fill(location, self._fd, node.data, old, owner)
            if (wanted := mode_for(node, old)) is not None:
                os.fchmod(self._fd, wanted)
        finally:
            if not keep:
                self._close()

    def flush(self, location: Location) -> None:
        """Make the content durable. Raises OSError."""
        fd = self._fd if self._fd >= 0 else open_regular(self._temporary, within=location.parent)
        try:
            os.fsync(fd)
        finally:
            if fd != self._fd:
                os.close(fd)

    def name(self, location: Location) -> None:
        """Give it its name, if what is there is still as it should be. Raises ContentChanged,
        NotAFile, WorkspaceError, OSError."""
        replacing = self._base is not None
        if not self._named and replacing:
            path = f"{_DESCRIPTORS}/{self._fd}"
            os.link(path, self._temporary, dst_dir_fd=location.parent)
        with _alone_in(location):
            check(location, self._base, forced=self._forced)
            if not self._named and not replacing:
                _link(location, f"{_DESCRIPTORS}/{self._fd}", None)
            else:
                give_name(location, self._temporary, replacing=replacing)
        self.is_placed = True
        self._close()

    def discard(self, location: Location | None) -> None:
        """Remove what has not got its name; `location` is None if its folder is gone."""
        if location is not None:
            discard(location, self._temporary)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def remove(location: Location, base: Node, *, forced: bool = False) -> None:
    """Remove the file or link, if it is still `base`; `forced`: even if it is read-only. Raises
    ContentChanged, NotAFile, WorkspaceError, OSError."""
    with _alone_in(location):
        check(location, base, forced=forced)
        os.unlink(location.name, dir_fd=location.parent)


def move(location: Location, target: Location, base: Node, *, forced: bool = False) -> None:
    """Give the file or link, if it is still `base`, a name that is not taken.

    `forced`: even if it is read-only. Raises ContentChanged, NotAFile, WorkspaceError, OSError;
    then it has its old name.
    """
    with _alone_in(location):
        check(location, base, forced=forced)
        check(target, None)
        give_name(target, location.name, replacing=False, folder=location.parent)


@contextmanager
def _alone_in(location: Location) -> Iterator[None]:
    """Keep other codeagents from changing files of the folder between a check and what it allows.

    Without it, two that had both checked the same content would both replace it. A folder that
    cannot be opened or locked, as on some network file systems, is not locked. Raises
    WorkspaceError.
    """
    try:
        fd = open_folder(".", within=location.parent)
    except OSError:
        yield
        return
    try:
        wait_for_lock(fd, seconds=_PATIENCE)
    except TimeoutError:
        os.close(fd)
        raise WorkspaceError(
            f"{location.path}: another process has locked its folder; nothing was changed"
        ) from None
    except OSError:
        pass  # locks are not supported here
    try:
        yield
    finally:
        os.close(fd)


def check(location: Location, base: Node | None, *, forced: bool = False) -> os.stat_result | None:
    """Return the status of the present file, None if there is none. Raises ContentChanged,
    NotAFile, and WorkspaceError for a read-only file unless `forced`."""
    if location.name == ".":
        raise NotAFile(f"{location.path} is a directory, not a file")
    if base is not None and base.kind == "link":
        return _check_link(location, base.data)
    try:
        fd = open_file(location.name, within=location.parent)
    except FileNotFoundError:
        if base is not None:
            raise ContentChanged(f"{location.path} is gone; nothing was written") from None
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAFile(f"{location.path} is not a regular file; nothing was written") from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile(f"{location.path} is not a regular file; nothing was written")
        if base is None:
            raise ContentChanged(f"{location.path} exists already; nothing was written")
        same = found.st_size == len(base.data) and _holds(fd, base.data)
    finally:
        os.close(fd)
    if not same:
        raise ContentChanged(f"{location.path} has changed since it was read; nothing was written")
    if base.mode not in (None, stat.S_IMODE(found.st_mode)):
        raise ContentChanged(f"{location.path} has another mode since; nothing was written")
    if not forced and not os.access(location.name, os.W_OK, dir_fd=location.parent):
        raise WorkspaceError(f"{location.path} is read-only; nothing was written")
    return found


def _holds(fd: int, data: bytes) -> bool:
    """Tell whether the open file has exactly this content."""
    at, rest = 0, memoryview(data)
    while chunk := os.read(fd, _CHUNK):
        if rest[at : at + len(chunk)] != chunk:
            return False
        at += len(chunk)
    return at == len(data)


def _check_link(location: Location, target: bytes) -> os.stat_result:
    try:
        found = os.readlink(os.fsencode(location.name), dir_fd=location.parent)
    except FileNotFoundError:
        raise ContentChanged(f"{location.path} is gone; nothing was written") from None
    except OSError:
        raise ContentChanged(f"{location.path} is no longer a link; nothing was written") from None
    if found != target:
        raise ContentChanged(f"{location.path} leads elsewhere since; nothing was written")
    return os.stat(location.name, dir_fd=location.parent, follow_symlinks=False)


def _unnamed(location: Location, mode: int) -> int | None:
    """Open a file without a name; None if the file system has none, or there is no way to name it
    later."""
    if not Path(_DESCRIPTORS).is_dir():
        return None
    try:
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=location.parent)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return None
        raise


def fill(
    location: Location, fd: int, data: bytes, old: os.stat_result | None, owner: tuple[int, int]
) -> None:
    """Write the content of a new file, and give it what the old one has, or its owner. Raises
    OSError, WorkspaceError.

    `owner` (uid, gid) owns a new file if this process may choose.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    if old is not None:
        _keep_attributes(location, fd, old)
    elif os.geteuid() == 0:
        os.fchown(fd, *owner)


def mode_for(node: Node, old: os.stat_result | None) -> int | None:
    """Return the permission bits that a file gets; None if it has them already."""
    if node.mode is not None:
        return node.mode & ~(stat.S_ISUID | stat.S_ISGID)
    if old is None:
        return None
    kept = stat.S_IMODE(old.st_mode) & ~(stat.S_ISUID | stat.S_ISGID)
    # Whoever may read the file may run it, or nobody.
    wanted = kept | (kept & 0o444) >> 2 | 0o100 if node.kind == "executable" else kept & ~0o111
    return None if wanted == kept else wanted


def is_leftover(folder: int, name: str) -> bool:
    """Tell whether a file with a name like `LEFTOVER` was left unfinished by a killed process.
    Never raises."""
    held = name.removesuffix("-reply")
    try:
        fd = open_regular(held, within=folder)
    except FileNotFoundError:
        return held != name
    except OSError:
        return False
    try:
        return try_lock(fd)
    except OSError:
        return False
    finally:
        os.close(fd)


def _keep_attributes(location: Location, fd: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner, attributes and mode. Raises OSError,
    WorkspaceError."""
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(fd, old.st_uid, old.st_gid)
        except PermissionError:
            raise WorkspaceError(
                f"{location.path} belongs to another user; nothing was written"
            ) from None
    with closing_fd(open_file(location.name, within=location.parent)) as old_fd:
        for attribute in content_attributes(old_fd):
            os.setxattr(fd, attribute, os.getxattr(old_fd, attribute))
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))


def content_attributes(fd: int) -> list[str]:
    """Return the names of the extended attributes that a file keeps when its content is replaced.
    Raises OSError."""
    try:
        return [name for name in os.listxattr(fd) if name.startswith(("user.", "system.posix_acl"))]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise


def give_name(location: Location, name: str, *, replacing: bool, folder: int | None = None) -> None:
    """Give the file `name` of the location's directory, or of `folder`, its new name.

    A new name never replaces a file that has appeared since. Raises OSError, ContentChanged.
    """
    source = location.parent if folder is None else folder
    if not replacing:
        try:
            rename_new(name, location.name, source, location.parent)
            return
        except FileExistsError:
            raise _exists(location) from None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EINVAL):
                raise
        try:
            _link(location, name, source)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
        else:
            _drop_old_name(location, name, source)
            return
    os.rename(name, location.name, src_dir_fd=source, dst_dir_fd=location.parent)


def _drop_old_name(location: Location, name: str, folder: int) -> None:
    """Remove the first name of a file that was linked. Raises OSError; then it has only that
    name."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        os.unlink(location.name, dir_fd=location.parent)
        raise


def _link(location: Location, path: str, folder: int | None) -> None:
    """Link a new name. Raises OSError, ContentChanged."""
    follow = folder is None
    try:
        os.link(
            path,
            location.name,
            src_dir_fd=folder,
            dst_dir_fd=location.parent,
            follow_symlinks=follow,
        )
    except FileExistsError:
        raise _exists(location) from None


def _exists(location: Location) -> ContentChanged:
    return ContentChanged(f"{location.path} exists already; nothing was written")


def discard(location: Location, temporary: str) -> None:
    with suppress(OSError):
        os.unlink(temporary, dir_fd=location.parent)
