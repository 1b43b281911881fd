"""Replaces, moves or removes one file of an open directory, whole or not at all."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeagent.core.errors import ContentChanged, NotAFile, WorkspaceError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.confined import Location
from codeagent.disk.locks import try_lock, wait_for_lock
from codeagent.disk.opens import create_file, open_file, open_folder, open_regular, rename_new

LEFTOVER = lazy_regex(r"\.codeagent-(check-)?[0-9a-f]{16}((-\d+)?\.tmp|-reply)?")
"""The names of unfinished files, those of the sandbox's self-test included."""
LARGEST_BASE = 64 << 20
"""Bytes; nobody has read a larger file as the base of a change, so a present one that is larger has
changed."""
_CHUNK = 1 << 20
_DESCRIPTORS = "/proc/self/fd"
_PATIENCE = 1.0
"""Seconds to wait for another writer of the same folder, whose last step takes milliseconds."""


def replace(location: Location, data: bytes, *, base: str | None, owner: tuple[int, int]) -> None:
    """Put `data` at the location, if what is there still has the hash `base` (SHA-256, hex; None:
    no file).

    Mode, owner and extended attributes stay; set-id bits do not. `owner` (uid, gid) owns a new file
    if this process may choose. A hard link is cut, never written through. Raises ContentChanged,
    NotAFile, WorkspaceError; then the old content is still there.
    """
    if location.name == ".":
        raise NotAFile(f"{location.path} is a directory, not a file")
    temporary = f".codeagent-{os.urandom(8).hex()}.tmp"
    try:
        old = _check(location, base)
        with _draft(location, temporary, 0o666 if old is None else 0o600) as (fd, named):
            fill(location, fd, data, old, owner)
            os.fsync(fd)
            if not named and old is not None:
                os.link(f"{_DESCRIPTORS}/{fd}", temporary, dst_dir_fd=location.parent)
            with _alone_in(location):
                _check(location, base)
                if not named and old is None:
                    _link(location, f"{_DESCRIPTORS}/{fd}", None)
                else:
                    give_name(location, temporary, replacing=old is not None)
        os.fsync(location.parent)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise WorkspaceError(
            f"cannot write {location.path}: {reason}; the old content was kept"
        ) from None
    finally:
        discard(location, temporary)


def remove(location: Location, *, base: str) -> None:
    """Remove the file, if it has the hash `base` (SHA-256, hex). Raises ContentChanged, NotAFile,
    WorkspaceError."""
    try:
        with _alone_in(location):
            _check(location, base)
            os.unlink(location.name, dir_fd=location.parent)
        os.fsync(location.parent)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise WorkspaceError(f"cannot remove {location.path}: {reason}; it was kept") from None


def move(location: Location, target: Location, *, base: str) -> None:
    """Give the file, if it has the hash `base`, a name that is not taken.

    Raises ContentChanged, NotAFile, WorkspaceError; then the file has its old name.
    """
    try:
        with _alone_in(location):
            _check(location, base)
            _check(target, None)
            give_name(target, location.name, replacing=False, folder=location.parent)
            with suppress(FileNotFoundError):  # it was renamed, not linked
                os.unlink(location.name, dir_fd=location.parent)
        os.fsync(target.parent)
        os.fsync(location.parent)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise WorkspaceError(
            f"cannot move {location.path} to {target.path}: {reason}; it was kept"
        ) from None


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


def _check(location: Location, base: str | None) -> os.stat_result | None:
    """Return the status of the present file, None if there is none. Raises ContentChanged,
    NotAFile."""
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
        digest, left = hashlib.sha256(), LARGEST_BASE + 1
        while left > 0 and (chunk := os.read(fd, min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    finally:
        os.close(fd)
    if left <= 0 or digest.hexdigest() != base:
        raise ContentChanged(f"{location.path} has changed since it was read; nothing was written")
    if not os.access(location.name, os.W_OK, dir_fd=location.parent):
        raise WorkspaceError(f"{location.path} is read-only; nothing was written")
    return found


@contextmanager
def _draft(location: Location, name: str, mode: int) -> Iterator[tuple[int, bool]]:
    """Yield a new file to fill, and whether it has its name already; without one it ends with this
    process.

    It stays locked while it is filled, which tells others that it is not a leftover. Raises
    OSError.
    """
    fd, named = _unnamed(location, mode), False
    if fd is None:
        fd, named = create_file(name, mode, within=location.parent), True
    try:
        with suppress(
            OSError
        ):  # a file system without locks: then leftovers are not removed either
            try_lock(fd)
        yield fd, named
    finally:
        os.close(fd)


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
    old_fd = open_file(location.name, within=location.parent)
    try:
        for attribute in _attributes(old_fd):
            os.setxattr(fd, attribute, os.getxattr(old_fd, attribute))
    finally:
        os.close(old_fd)
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))


def _attributes(fd: int) -> list[str]:
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
            return
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
    os.rename(name, location.name, src_dir_fd=source, dst_dir_fd=location.parent)


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
    try:
        os.unlink(temporary, dir_fd=location.parent)
    except OSError:
        return
