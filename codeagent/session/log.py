"""The append-only log of one session, which every durable event goes to first, and how a line of it
is sealed.

A line is one event's JSON, the checksum of the line before, and its own: a CRC32 finds damage; it
does not protect against deliberate tampering.
"""

import asyncio
import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from codeagent.core.errors import SessionWriteError
from codeagent.core.event_json import event_json
from codeagent.core.events import KnownEvent
from codeagent.core.redact import Redactor
from codeagent.disk.opens import open_appended, sync_folder

FIRST = b"00000000"
"""Used for the first line."""
_SEAL_LENGTH = len(b',"crc":"01234567"}')
_LINK = b',"prev":"'
_LINK_LENGTH = len(b',"prev":"01234567"}')


def seal(body: str, before: bytes = b"") -> bytes:
    """Make a log line: `{…}` becomes `{…,"prev":"89abcdef","crc":"0a1b2c3d"}` and a line break.

    `before` is the checksum of the line before; without it, as in old logs, a missing line is not
    noticed.
    """
    raw = body.encode()
    if before:
        raw = raw[:-1] + _LINK + before + b'"}'
    return raw[:-1] + _seal_of(raw) + b"\n"


def checksum_of(line: bytes) -> bytes:
    """Return the checksum that the next line carries; `line` is without its line break."""
    return line[-len(b'01234567"}') : -len(b'"}')]


def unseal(line: bytes) -> bytes | None:
    """Return the event's JSON of a line without its line break; None if the checksum does not
    match."""
    return None if (found := opened(line)) is None else found[0]


def opened(line: bytes) -> tuple[bytes, bytes] | None:
    """Return the event's JSON and the checksum of the line before, empty if it carries none."""
    body = line[:-_SEAL_LENGTH] + b"}"
    if line[-_SEAL_LENGTH:] != _seal_of(body):
        return None
    link = body[-_LINK_LENGTH:]
    if not link.startswith(_LINK):
        return body, b""
    return body[:-_LINK_LENGTH] + b"}", checksum_of(link)


def _seal_of(body: bytes) -> bytes:
    return b',"crc":"%08x"}' % zlib.crc32(body)


class SessionLog:
    """Writes each event with one O_APPEND write, and makes it durable on `sync`.

    What cannot be written or made durable is cut off the file, kept in memory and written again at
    the next `sync`; so only the last line of the file can ever be incomplete.
    """

    def __init__(
        self,
        path: Path,
        session_id: str,
        *,
        next_seq: int,
        last: bytes,
        redactor: Redactor,
        release: Callable[[], None],
    ) -> None:
        """`last` is the checksum of the file's last sound record; `release` lets go of the session
        when it is closed.

        The file is repaired: it ends with a whole line.
        """
        self._path = path
        self.session_id = session_id
        self._redactor = redactor
        self._release = release
        self._next_seq = next_seq
        self._fd = open_appended(path)
        self._before = last
        status = os.fstat(self._fd)
        self._file = status.st_dev, status.st_ino
        self._good = status.st_size
        self._durable = self._good
        self._pending: list[bytes] = []
        self._written: list[bytes] = []
        self._error: OSError | None = None
        self._torn = False
        self._names_durable = False
        self._syncing = asyncio.Lock()

    @property
    def folder(self) -> Path:
        return self._path.parent

    @property
    def next_seq(self) -> int:
        return self._next_seq

    def append(self, event: KnownEvent) -> None:
        """Write one durable event, or keep it for `sync` if writing fails."""
        self._next_seq = max(self._next_seq, event.seq + 1)
        line = seal(event_json(event, self._redactor), self._before)
        self._before = checksum_of(line[:-1])
        self._pending.append(line)
        if self._error is None:
            self._write()

    async def sync(self) -> None:
        """Return once everything appended so far is on disk. Raises SessionWriteError.

        Callers at the same time share one fdatasync.
        """
        async with self._syncing:
            if self._pending:
                self._write()
            if self._error is not None:
                raise self._write_error(self._error)
            if not self._written:
                return
            batch = self._written
            self._written = []
            reached = self._good
            try:
                await asyncio.to_thread(self._flush)
            except OSError as error:
                self._take_back(batch, error)
                raise self._write_error(error) from error
            except BaseException:
                self._written = batch + self._written
                raise
            self._durable = reached

    def close(self) -> None:
        """Write and flush what is left, and release the session; idempotent. Raises
        SessionWriteError."""
        if self._fd < 0:
            return
        try:
            if self._pending:
                self._write()
            if self._error is not None:
                raise self._write_error(self._error)
            if self._written:
                self._flush()
        except OSError as error:
            raise self._write_error(error, len(self._written)) from error
        finally:
            os.close(self._fd)
            self._fd = -1
            self._release()

    def _write(self) -> None:
        block = b"".join(self._pending)
        try:
            if self._torn:
                os.ftruncate(self._fd, self._good)
                self._torn = False
            self._torn = True
            rest = memoryview(block)
            while rest:  # a second write only if the first was cut short, to learn why
                rest = rest[os.write(self._fd, rest) :]
            self._torn = False
        except OSError as error:
            self._error = error
            self._cut_back()
            return
        self._error = None
        self._written += self._pending
        self._pending = []
        self._good += len(block)

    def _take_back(self, batch: list[bytes], error: OSError) -> None:
        """Write everything since the last flush again: after a failed one the kernel may have
        dropped the pages."""
        self._pending = batch + self._written + self._pending
        self._written = []
        self._good = self._durable
        self._error = error
        self._torn = True
        self._cut_back()

    def _cut_back(self) -> None:
        """Remove half a record at once; if even that fails, the next write does it first."""
        try:
            os.ftruncate(self._fd, self._good)
            self._torn = False
        except OSError:
            pass

    def _flush(self) -> None:
        """Raises OSError, also if another file is at the path now: what is written would be
        lost."""
        os.fdatasync(self._fd)
        status = self._path.lstat()
        if (status.st_dev, status.st_ino) != self._file:
            raise OSError(errno.ESTALE, "another file is in its place", str(self._path))
        if self._names_durable:
            return
        for folder in (self._path.parent, self._path.parent.parent):
            sync_folder(folder)
        self._names_durable = True

    def _write_error(self, error: OSError, unflushed: int = 0) -> SessionWriteError:
        kept = len(self._pending) + unflushed
        counted = f"{kept} event{'s are' if kept != 1 else ' is'} kept in memory"
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return SessionWriteError(
                f"the session log {self._path} was removed or replaced while this ran ({error.strerror}); {counted}, "
                "what was done in the workspace is kept, and nothing runs until the log is back where it was: put it "
                "there, or start a new session"
            )
        return SessionWriteError(
            f"the session log {self._path} could not be written ({error.strerror}); {counted} and nothing runs until "
            "they are saved: make room there and try again"
        )
