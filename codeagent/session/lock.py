"""One writer per session: a file lock that ends with the process that holds it."""

import fcntl
import os
from pathlib import Path

from codeagent.core.errors import SessionInUse


class SessionLock:
    """Held from `acquire` to `release`; the file names the holder, the kernel's lock is what counts.

    A process that died holds nothing, whatever its file says.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises SessionInUse when another process, or another log of this one, holds it."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _pid(os.pread(fd, 32, 0))
            os.close(fd)
            holder = f"by process {pid}" if pid is not None else "by another process"
            raise SessionInUse(
                f"session {self._path.parent.name} is in use {holder}; nothing was changed: end that process "
                "or start a new session",
                pid,
            ) from None
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


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock now; False where nothing was ever locked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _pid(text: bytes) -> int | None:
    digits = text.strip()
    return int(digits) if digits.isdigit() else None
