"""Opens one name itself, never what a link there points to, and never waits for a pipe.

Every function returns a descriptor for the caller to close, and raises OSError: ELOOP or ENOTDIR
for a link. `within` is the descriptor of the folder that the name is in; without it the name is a
path.
"""

import ctypes
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

Name = str | bytes | Path
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_libc = ctypes.CDLL(None, use_errno=True)
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_REPORTS_SINCE = (5, 8)
_REPORTING = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""The types of ext2 to ext4, XFS, Btrfs, F2FS and tmpfs, as `fstatfs` gives them."""
_LARGEST_STATFS = 512
"""Bytes; the type comes first."""
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""The errors of opening a folder that is not there, or is something else."""


def open_file(name: Name, *, within: int | None = None) -> int:
    """Open for reading. It may be a pipe or a device: look at `os.fstat` before reading, or use
    `open_regular`."""
    return os.open(name, os.O_RDONLY | _SAFE, dir_fd=within)


def open_regular(name: Name, *, within: int | None = None, follow: bool = False) -> int:
    """Open a regular file for reading, and raise OSError for anything else; `follow` allows a
    link."""
    fd = os.open(name, os.O_RDONLY | _flags(follow), dir_fd=within)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return fd


def read_regular(
    name: Name,
    *,
    within: int | None = None,
    follow: bool = False,
    most: int = -1,
    largest: int | None = None,
) -> bytes:
    """Read a regular file: its first `most` bytes, or all of it; OSError if it has more than
    `largest` bytes."""
    with os.fdopen(open_regular(name, within=within, follow=follow), "rb") as file:
        data = file.read(most if largest is None else largest + 1)
    if largest is not None and len(data) > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest} bytes")
    return data


def open_folder(
    name: Name, *, within: int | None = None, listed: bool = True, follow: bool = False
) -> int:
    """Open a folder for listing it and for opening what is in it; `follow` allows a link.

    Without `listed` the folder need not be readable, and the descriptor serves only for opening
    what is in it.
    """
    return os.open(
        name,
        (os.O_RDONLY if listed else _PATH_ONLY) | os.O_DIRECTORY | _flags(follow),
        dir_fd=within,
    )


def open_below(folder: int, parts: Iterable[str], *, listed: bool = False) -> int:
    """Open the folder that `parts` lead to, one after the other, as `open_folder` does; `folder`
    stays open."""
    found = os.dup(folder)
    try:
        for part in parts:
            inner = open_folder(part, within=found, listed=listed)
            os.close(found)
            found = inner
    except OSError:
        os.close(found)
        raise
    return found


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close the descriptor after the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def create_file(name: Name, mode: int = 0o600, *, within: int | None = None) -> int:
    """Make a file and open it for writing; FileExistsError if anything has that name."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, mode, dir_fd=within)


def open_emptied(path: Path) -> int:
    """Open for writing, made with mode 0600 or emptied."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE, 0o600)


def open_appended(path: Path) -> int:
    """Open for reading and for appending, made with mode 0600 if it is missing."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE, 0o600)


def may_exist(path: Path) -> bool:
    """Tell whether there is anything at the path; true also if that cannot be seen, so that opening
    it says why."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _flags(follow: bool) -> int:
    return _SAFE & ~os.O_NOFOLLOW if follow else _SAFE


def sync_file_system(fd: int) -> None:
    """Make all that was written to the file system of `fd` durable at once.

    Raises OSError: ENOSYS if a failed write might go unreported.
    """
    if not syncs_at_once(fd):
        raise _error(errno.ENOSYS)
    if _libc.syncfs(fd) != 0:
        raise _error(ctypes.get_errno())


def syncs_at_once(fd: int) -> bool:
    """Tell whether there is a `syncfs` that reports a failed write: since Linux 5.8, on file systems
    that have no other one below."""
    if not hasattr(_libc, "syncfs"):
        return False
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < _REPORTS_SINCE:
        return False
    return _type_of(fd) in _REPORTING


def _type_of(fd: int) -> int | None:
    """Return the type of a file system as `fstatfs` gives it; None if that fails."""
    room = ctypes.create_string_buffer(_LARGEST_STATFS)
    if _libc.fstatfs(fd, room) != 0:
        return None
    return ctypes.c_long.from_buffer(room).value & 0xFFFFFFFF


def rename_new(name: str, new: str, source: int, target: int) -> None:
    """Rename a file in the folder `source` to a name in the folder `target` that is still free.

    Raises OSError: FileExistsError if it is taken, ENOSYS or EINVAL if that cannot be done in one
    step.
    """
    _rename(name, new, source, target, _RENAME_NOREPLACE)


def exchange(name: str, other: str, source: int, target: int) -> None:
    """Exchange a file in the folder `source` with one in the folder `target`, in one step.

    Raises OSError: FileNotFoundError if one is missing, ENOSYS or EINVAL if that cannot be done.
    """
    _rename(name, other, source, target, _RENAME_EXCHANGE)


def _rename(name: str, new: str, source: int, target: int, flags: int) -> None:
    rename = getattr(_libc, "renameat2", None)
    if rename is None:
        raise _error(errno.ENOSYS)
    if rename(source, os.fsencode(name), target, os.fsencode(new), flags) != 0:
        raise _error(ctypes.get_errno())


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with closing_fd(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        os.fsync(fd)


def remove_empty_folders(parent: int, name: str) -> None:
    """Remove a folder that contains only empty folders, if it is there. Raises OSError if it
    contains more."""
    try:
        fd = open_folder(name, within=parent)
    except OSError as error:
        if error.errno in NOT_THERE:
            return
        raise
    try:
        with os.scandir(fd) as listing:
            names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
        for inner in names:
            remove_empty_folders(fd, inner)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def file_inside(root: Path, path: str) -> Path | None:
    """Return the real path of a file below a folder; None if it is elsewhere, or not a file.

    Only for showing or naming it: it may be another file by the time it is opened.
    """
    base = os.path.realpath(root)
    try:
        found = Path(os.path.realpath(os.path.join(base, path)))  # noqa: PTH118  # `path` may hold anything
        return found if found.is_relative_to(base) and found.is_file() else None
    except (OSError, ValueError):
        return None
