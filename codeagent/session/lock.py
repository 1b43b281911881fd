"""Locks: at most one process writes the log of a session, or changes a file that sessions share."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.core.errors import SessionError, SessionInUse
from codeagent.disk.locks import locked, open_lock_file, try_lock
from codeagent.disk.opens import open_file

_PATIENCE = 2.0
"""Seconds to wait for a lock whose holder is gone."""


class SessionLock:
    """Held from `acquire` to `release`, and at the latest until the process ends, whatever the file
    says.

    The file names the holder, for messages; what counts is the kernel's lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises SessionInUse when another process, or another log of this one, holds it."""
        fd = open_lock_file(self._path)
        if not _acquired(fd):
            in_use = _in_use(self._path, fd)
            os.close(fd)
            raise in_use
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Idempotent."""
        if self._fd < 0:
            return
        os.ftruncate(self._fd, 0)
        os.close(self._fd)
        self._fd = -1


def check_free(path: Path) -> None:
    """Raise SessionInUse if a process holds the lock now; a lock that was never taken is free."""
    try:
        fd = open_file(path)
    except OSError:
        return
    try:
        if not _acquired(fd, shared=True):
            raise _in_use(path, fd)
    finally:
        os.close(fd)


def is_locked(path: Path) -> bool:
    """Tell whether a process holds the lock now; a lock that was never taken is free."""
    try:
        check_free(path)
    except SessionInUse:
        return True
    return False


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Keep other processes from changing a file in the meantime. Raises SessionError in place of an
    OSError."""
    try:
        with locked(path.with_name(f"{path.name}.lock")):
            yield
    except OSError as error:
        raise SessionError(
            f"{path} cannot be changed ({error.strerror}); nothing was changed"
        ) from error


def _acquired(fd: int, *, shared: bool = False) -> bool:
    """Lock the file; False if a living process holds it.

    For a moment something other than its holder may have it: a command that a process forked just
    before it was killed and that has not begun to run, or a process that only checks whether it is
    free. Those are waited for.
    """
    deadline = time.monotonic() + _PATIENCE
    while not try_lock(fd, shared=shared):
        holder = _pid(os.pread(fd, 32, 0))
        if time.monotonic() > deadline or (holder is not None and lives(holder)):
            return False
        time.sleep(0.01)
    return True


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _in_use(path: Path, fd: int) -> SessionInUse:
    pid = _pid(os.pread(fd, 32, 0))
    holder = f"by process {pid}" if pid is not None else "by another process"
    text = (
        f"session {path.parent.name} is in use {holder}; nothing was changed: end that process or "
        "start a new session"
    )
    return SessionInUse(text, pid)


def _pid(text: bytes) -> int | None:
    digits = text.strip()
    return int(digits) if digits.isdigit() else None
