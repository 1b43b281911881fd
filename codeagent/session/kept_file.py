"""A small file of the program's own: private, replaced whole, changed by one process at a time."""

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PATIENCE = 5.0
"""Seconds for which another process may hold the lock: the work behind it takes milliseconds."""


def read_kept(path: Path, largest: int) -> bytes | None:
    """None where there is no such file. Raises OSError, also for anything but a regular file of at most that size."""
    try:
        fd = os.open(path, os.O_RDONLY | _OPEN)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            raise OSError(0, f"it is no regular file of at most {largest} bytes")
        return file.read()


def write_kept(path: Path, data: bytes) -> None:
    """Replace or make it. Raises OSError: the old content is still there then."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def kept_alone(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile; its folder is made. Raises OSError, TimeoutError.

    The kernel lets go of it with the process.
    """
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | _OPEN, 0o600)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(0, "another process holds it") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(fd)
