"""Replaces one file of an open directory, whole or not at all."""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeagent.core.errors import ContentChanged, NotAFile, WorkspaceError
from codeagent.workspace.beneath import Place

LEFTOVER = re.compile(r"\.codeagent-(check-)?[0-9a-f]{16}((-\d+)?\.tmp|-reply)?")
"""What unfinished files are called, those of the sandbox's self-test included."""
_CHUNK = 1 << 20
_DESCRIPTORS = "/proc/self/fd"


def replace(place: Place, data: bytes, *, base: str | None, owner: tuple[int, int]) -> None:
    """Put `data` at the place, if it still holds what `base` (SHA-256, hex; None: nothing) says.

    Mode, owner and extended attributes stay; set-id bits do not. `owner` (uid, gid) is whose a new
    file becomes where this process may choose. A hard link is cut, never written through. Raises
    ContentChanged, NotAFile, WorkspaceError; then the old content is still there.
    """
    if place.name == ".":
        raise NotAFile(f"{place.path} is a directory, not a file")
    temporary = f".codeagent-{secrets.token_hex(8)}.tmp"
    try:
        old = _check(place, base)
        with _draft(place, temporary, 0o666 if old is None else 0o600) as (fd, named):
            _fill(place, fd, data, old, owner)
            _check(place, base)
            if not named and old is None:
                _link(place, f"{_DESCRIPTORS}/{fd}", None)
            else:
                if not named:
                    os.link(f"{_DESCRIPTORS}/{fd}", temporary, dst_dir_fd=place.parent)
                give_name(place, temporary, replacing=old is not None)
        os.fsync(place.parent)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise WorkspaceError(f"cannot write {place.path}: {reason}; the old content was kept") from None
    finally:
        discard(place, temporary)


def _check(place: Place, base: str | None) -> os.stat_result | None:
    """The present file, None where there is none. Raises ContentChanged, NotAFile."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(place.name, flags, dir_fd=place.parent)
    except FileNotFoundError:
        if base is not None:
            raise ContentChanged(f"{place.path} is gone; nothing was written") from None
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAFile(f"{place.path} is not a regular file; nothing was written") from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile(f"{place.path} is not a regular file; nothing was written")
        if base is None:
            raise ContentChanged(f"{place.path} exists already; nothing was written")
        digest = hashlib.sha256()
        while chunk := os.read(fd, _CHUNK):
            digest.update(chunk)
    finally:
        os.close(fd)
    if digest.hexdigest() != base:
        raise ContentChanged(f"{place.path} has changed meanwhile; nothing was written")
    if not os.access(place.name, os.W_OK, dir_fd=place.parent):
        raise WorkspaceError(f"{place.path} is read-only; nothing was written")
    return found


@contextmanager
def _draft(place: Place, name: str, mode: int) -> Iterator[tuple[int, bool]]:
    """A new file to fill, and whether it has the name already; one without a name is gone with this process.

    It is locked for as long as it is filled, which tells others that it is nobody's leftover. Raises OSError.
    """
    fd, named = _unnamed(place, mode), False
    if fd is None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd, named = os.open(name, flags, mode, dir_fd=place.parent), True
    try:
        with suppress(OSError):  # a file system without locks: then nothing is swept, either
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fd, named
    finally:
        os.close(fd)


def _unnamed(place: Place, mode: int) -> int | None:
    """None where the file system has no such files, or nothing gives them a name later."""
    if not Path(_DESCRIPTORS).is_dir():
        return None
    try:
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=place.parent)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return None
        raise


def _fill(place: Place, fd: int, data: bytes, old: os.stat_result | None, owner: tuple[int, int]) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    if old is not None:
        keep_attributes(place, fd, old)
    elif os.geteuid() == 0:
        os.fchown(fd, *owner)
    os.fsync(fd)


def is_leftover(folder: int, name: str) -> bool:
    """The file is an unfinished one of a process that was killed: see `LEFTOVER` for its name. Never raises."""
    held = name.removesuffix("-reply")
    try:
        fd = os.open(held, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return held != name
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
    finally:
        os.close(fd)


def keep_attributes(place: Place, fd: int, old: os.stat_result) -> None:
    """Give the new file what belonged to the old one. Raises OSError, WorkspaceError."""
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(fd, old.st_uid, old.st_gid)
        except PermissionError:
            raise WorkspaceError(f"{place.path} belongs to another user; nothing was written") from None
    old_fd = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.parent)
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


def give_name(place: Place, temporary: str, *, replacing: bool) -> None:
    """Give the finished file its name; a new name never lands on a file that came up meanwhile.

    Raises OSError, ContentChanged.
    """
    if not replacing:
        try:
            _link(place, temporary, place.parent)
            return
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
    os.rename(temporary, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)


def _link(place: Place, path: str, folder: int | None) -> None:
    """Raises OSError, ContentChanged."""
    follow = folder is None
    try:
        os.link(path, place.name, src_dir_fd=folder, dst_dir_fd=place.parent, follow_symlinks=follow)
    except FileExistsError:
        raise ContentChanged(f"{place.path} exists already; nothing was written") from None


def discard(place: Place, temporary: str) -> None:
    try:
        os.unlink(temporary, dir_fd=place.parent)
    except OSError:
        return
