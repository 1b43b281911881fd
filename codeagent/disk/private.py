"""Small files that only their owner may read or write: no link is followed, and they are replaced
whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.disk.opens import create_file, open_emptied, open_regular, sync_folder

LARGEST = 256 * 1024


class UnsafeFile(Exception):
    """Says why a file cannot be read or trusted; the text begins with its path."""


def read_private(path: Path, largest: int = LARGEST) -> bytes | None:
    """Read a file that nobody else may read or write; None if there is none. Raises UnsafeFile."""
    with _opened(path, largest) as fd:
        if fd is None:
            return None
        status = os.fstat(fd)
        if status.st_uid != os.getuid():
            raise UnsafeFile(f"{path} belongs to another user")
        if status.st_mode & 0o077:
            raise UnsafeFile(f"{path} can be read by others: chmod 600 {path}")
        return _all_of(fd, largest)


def read_owned(path: Path) -> bytes | None:
    """Read a file that others may read, but not write or replace; links are followed. Raises
    UnsafeFile."""
    with _opened(path, LARGEST, follow=True) as fd:
        if fd is None:
            return None
        _refuse_shared(path, os.fstat(fd))
        for folder in dict.fromkeys((path.parent, path.resolve().parent)):
            _refuse_shared(folder, folder.stat())
        return _all_of(fd, LARGEST)


def read_small(path: Path, largest: int) -> bytes | None:
    """Read a file of our own, even if others may read it; None if there is none. Raises
    UnsafeFile."""
    with _opened(path, largest) as fd:
        return None if fd is None else _all_of(fd, largest)


@contextmanager
def _opened(path: Path, largest: int, *, follow: bool = False) -> Iterator[int | None]:
    try:
        fd = open_regular(path, follow=follow)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise UnsafeFile(f"{path} cannot be read ({error.strerror})") from error
    try:
        if os.fstat(fd).st_size > largest:
            raise UnsafeFile(f"{path} cannot be read (it has more than {largest} bytes)")
        yield fd
    finally:
        os.close(fd)


def _all_of(fd: int, largest: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read(largest)


def _refuse_shared(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.getuid():
        raise UnsafeFile(f"{path} belongs to another user")
    if status.st_mode & 0o022:
        raise UnsafeFile(f"{path} can be changed by others: chmod go-w {path}")


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, in its place; a crash may lose it. Raises
    OSError."""
    with os.fdopen(open_emptied(path), "wb") as file:
        file.write(data)


def replace_private(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Replace a file whole, or make it, and its folder. Raises OSError: the old content is still
    there then.

    Without `synced` it may be lost when the machine stops, but not when the process does.
    """
    new = path.with_name(f".{path.name}-{os.urandom(8).hex()}.tmp")
    make_private_folder(path.parent)
    try:
        with os.fdopen(create_file(new), "wb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        new.replace(path)
        if synced:
            sync_folder(path.parent)
    finally:
        new.unlink(missing_ok=True)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and the missing ones above it, with mode 0700; one that exists stays as it is.
    Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
