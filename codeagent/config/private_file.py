"""Reads small files that must be the user's own: what others could read or change is not trusted."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.core.errors import ConfigError

_LARGEST = 256 * 1024


def read_private(path: Path, consequence: str) -> bytes | None:
    """Read a file that nobody else may read; None if there is none. No link is followed.

    Raises ConfigError if it cannot be trusted; `consequence` ends the sentence.
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
    """Read a file that others may read, but not write or replace, as `read_private` does; links are followed."""
    with _opened(path, 0, consequence) as fd:
        if fd is None:
            return None
        _refuse_shared(path, os.fstat(fd), consequence)
        for folder in dict.fromkeys((path.parent, path.resolve().parent)):
            _refuse_shared(folder, folder.stat(), consequence)
        return _all_of(fd)


@contextmanager
def _opened(path: Path, flags: int, consequence: str) -> Iterator[int | None]:
    """Open a regular file that is not too large; None if there is none. Raises ConfigError."""
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
