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
    """Its bytes; None where there is no such file. No link is followed.

    Raises ConfigError where it cannot be trusted; `consequence` ends the sentence.
    """
    with _opened(path, os.O_NOFOLLOW, consequence) as fd:
        if fd is None:
            return None
        status = os.fstat(fd)
        if status.st_uid != os.getuid():
            raise ConfigError(f"{path} belongs to another user; {consequence}")
        if status.st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others: chmod 600 {path}; {consequence}")
        return _all_of(fd)


def read_owned(path: Path, consequence: str) -> bytes | None:
    """As `read_private` for a file that others may read, but nobody else may write or replace; links are followed."""
    with _opened(path, 0, consequence) as fd:
        if fd is None:
            return None
        _refuse_shared(path, os.fstat(fd), consequence)
        for folder in dict.fromkeys((path.parent, path.resolve().parent)):
            _refuse_shared(folder, folder.stat(), consequence)
        return _all_of(fd)


@contextmanager
def _opened(path: Path, flags: int, consequence: str) -> Iterator[int | None]:
    """A descriptor of a regular file that is not too large; None where there is no file. Raises ConfigError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); {consequence}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} cannot be read (it is not a regular file); {consequence}")
        if status.st_size > _LARGEST:
            raise ConfigError(f"{path} cannot be read (it has more than {_LARGEST} bytes); {consequence}")
        yield fd
    finally:
        os.close(fd)


def _all_of(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read(_LARGEST)


def _refuse_shared(path: Path, status: os.stat_result, consequence: str) -> None:
    if status.st_uid != os.getuid():
        raise ConfigError(f"{path} belongs to another user; {consequence}")
    if status.st_mode & 0o022:
        raise ConfigError(f"{path} can be changed by others: chmod go-w {path}; {consequence}")


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
