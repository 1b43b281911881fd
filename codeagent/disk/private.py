"""The program's own files: only their owner may read them, they are replaced whole, one process at a time."""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 5.0
"""Seconds for which another process may hold a lock: the work behind it takes milliseconds."""
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, whatever the user's umask is; a crash may lose it. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600), "wb") as file:
        file.write(data)


def replace_private(path: Path, data: bytes) -> None:
    """Write a private file, whole, and its folder if that is missing. Raises OSError; then the old content stays."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
    make_private_folder(path.parent)
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def make_private_folder(folder: Path) -> None:
    """Make the folder, and those above it that are missing, for their owner only. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Let what was renamed or removed in the folder survive a crash of the machine. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file, one process at a time; its folder is made. Raises OSError, TimeoutError.

    The kernel releases it when the process ends.
    """
    make_private_folder(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
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
