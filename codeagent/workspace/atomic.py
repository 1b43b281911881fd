"""Replaces one file of an open directory, whole or not at all."""

import errno
import hashlib
import os
import secrets
import stat

from codeagent.core.errors import ContentChanged, NotAFile, WorkspaceError
from codeagent.workspace.beneath import Place

_CHUNK = 1 << 20


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
        _fill(place, temporary, data, old, owner)
        _check(place, base)
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


def _fill(place: Place, name: str, data: bytes, old: os.stat_result | None, owner: tuple[int, int]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666 if old is None else 0o600, dir_fd=place.parent)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if old is not None:
            keep_attributes(place, fd, old)
        elif os.geteuid() == 0:
            os.fchown(fd, *owner)
        os.fsync(fd)
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
            os.link(temporary, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent, follow_symlinks=False)
            return
        except FileExistsError:
            raise ContentChanged(f"{place.path} exists already; nothing was written") from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
    os.rename(temporary, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)


def discard(place: Place, temporary: str) -> None:
    try:
        os.unlink(temporary, dir_fd=place.parent)
    except OSError:
        return
