"""File locks between processes; the kernel releases a lock when the last process that holds its
file ends."""

import errno
import fcntl
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.disk.opens import closing_fd
from codeagent.disk.private import make_private_folder

_PATIENCE = 5.0
"""Seconds to wait for another process: the work behind such a lock takes milliseconds."""
_STEP = 0.01


def open_lock_file(path: Path, *, create: bool = True) -> int:
    """Open a file to lock, made with mode 0600 if it is missing; no link is followed. Raises
    OSError."""
    return os.open(
        path,
        os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if create else 0),
        0o600,
    )


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock the open file at once; False if another process holds it. Closing `fd` releases it.
    Raises OSError."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def unlock(fd: int) -> None:
    """Release a lock at once, also if a program that was handed its file is still running. Raises
    OSError."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def wait_for_lock(
    fd: int, *, seconds: float = math.inf, stop: threading.Event | None = None
) -> bool:
    """Lock the open file as soon as no other process holds it; False if `stop` ended the wait.

    Raises OSError, TimeoutError.
    """
    stop = stop or threading.Event()
    deadline = time.monotonic() + seconds
    while not try_lock(fd):
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds it")
        if stop.wait(_STEP):
            return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, one process at a time; its folder is made. Raises OSError,
    TimeoutError."""
    make_private_folder(path.parent)
    with closing_fd(open_lock_file(path)) as fd:
        wait_for_lock(fd, seconds=_PATIENCE)
        yield
