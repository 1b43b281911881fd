"""Reads a file or link of an open folder, through no link and waiting for no pipe, with a stamp
that shows a later change."""

import errno
import os
import stat
import time

from codeagent.core.checkpoints import NodeKind
from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import closing_fd, open_file
from codeagent.workspace.snapshots.index import NO_STAMP, Stamp

_CHUNK = 1 << 20
_TRIES = 8
_FINE_SLACK = 100_000_000
_COARSE_SLACK = 2_000_000_000
_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True)
class Content:
    """A file or link as it was read."""

    kind: NodeKind
    data: bytes
    stamp: Stamp
    """NO_STAMP if a later change might leave the stamp as it is."""


class NotCovered(Exception):
    """No snapshot can contain what is at the path; the text says what it is, as a phrase."""


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def read_content(folder: int, name: str, limit: int) -> Content | None:
    """Read what is there now, at most `limit` bytes; None if nothing, or a folder. Raises
    NotCovered."""
    for _ in range(_TRIES):
        started = time.time_ns()
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return _link(folder, name, status, started)
            if stat.S_ISDIR(status.st_mode):
                return None
            if not stat.S_ISREG(status.st_mode):
                raise NotCovered(_special(status.st_mode))
            return _file(folder, name, limit, started)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EISDIR):
                raise NotCovered(f"cannot be read ({os.strerror(error.errno or 0)})") from None
    raise NotCovered("keeps changing")


def shown_size(size: int) -> str:
    name, unit = next((row for row in _SIZES if size >= row[1]), ("bytes", 1))
    return f"{size / unit:.4g} {name}"


def _link(folder: int, name: str, status: os.stat_result, started: int) -> Content:
    target = os.fsencode(os.readlink(name, dir_fd=folder))
    after = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return Content("link", target, trusted(status, after, started))


def _file(folder: int, name: str, limit: int, started: int) -> Content:
    with closing_fd(open_file(name, within=folder)) as fd:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise NotCovered(_special(before.st_mode))
        if before.st_size > limit:
            raise NotCovered(f"larger than {shown_size(limit)}")
        data = _bytes(fd, before.st_size, limit)
        stamp = trusted(before, os.fstat(fd), started)
    return Content("executable" if before.st_mode & stat.S_IXUSR else "file", data, stamp)


def _bytes(fd: int, size: int, limit: int) -> bytes:
    """Read to the end, even if that is not where `size` says."""
    first = os.read(fd, size + 1)
    if len(first) == size and size <= limit:
        rest = os.read(fd, 1) if size else b""
        if not rest:
            return first
        first += rest
    parts = [first]
    total = len(first)
    while total <= limit and (part := os.read(fd, _CHUNK)):
        parts.append(part)
        total += len(part)
    if total > limit:
        raise NotCovered(f"larger than {shown_size(limit)}")
    return b"".join(parts)


def trusted(before: os.stat_result, after: os.stat_result, started: int) -> Stamp:
    """Return the stamp, NO_STAMP if it is so recent that a change right after the reading could
    have the same one."""
    latest = max(before.st_mtime_ns, before.st_ctime_ns)
    slack = _FINE_SLACK if before.st_ctime_ns % 1_000_000_000 else _COARSE_SLACK
    same = stamp_of(before) == stamp_of(after)
    return stamp_of(before) if same and latest < started - slack else NO_STAMP


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
