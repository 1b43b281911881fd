"""Small files that only their owner may read or write: no link is followed, and they are replaced whole."""

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.core.errors import ConfigError

_LARGEST = 256 * 1024
_PATIENCE = 5.0
"""Seconds for which another process may hold a lock: the work behind it takes milliseconds."""
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_private(path: Path, consequence: str) -> bytes | None:
    """Its bytes; None where there is no such file.

    Raises ConfigError where it cannot be trusted; `consequence` ends the sentence.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _OPEN)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); {consequence}") from error
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise ConfigError(f"{path} is no regular file of at most {_LARGEST} bytes; {consequence}")
        if status.st_uid != os.getuid():
            raise ConfigError(f"{path} belongs to somebody else; {consequence}")
        if status.st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others: chmod 600 {path}; {consequence}")
        return file.read(_LARGEST)


def write_private(path: Path, data: bytes) -> None:
    """Replace or make it, and its folder. Raises OSError: the old content is still there then."""
    new = path.with_name(f".{path.stem}-{secrets.token_hex(8)}.tmp")
    _make_private_folder(path.parent)
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        new.replace(path)
        _sync(path.parent)
    finally:
        new.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Held by one process at a time; the kernel lets go of it with the process. Raises OSError, TimeoutError."""
    _make_private_folder(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | _OPEN, 0o600)
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
