"""The append-only log of one session, which every durable event goes to first, and what damage leaves of it.

A line is one event's JSON, the checksum of the line before, and its own: a CRC32 finds damage; it does not protect
against deliberate tampering.
"""

import asyncio
import errno
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SessionWriteError
from codeagent.core.event_json import event_json, parse_event, parse_event_json
from codeagent.core.events import EVENT_TYPES, KnownEvent, UnknownEvent
from codeagent.core.redact import Redactor
from codeagent.disk.opens import open_appended, sync_folder

FIRST = b"00000000"
"""Used for the first line."""
_SEAL_LENGTH = len(b',"crc":"01234567"}')
_LINK = b',"prev":"'
_LINK_LENGTH = len(b',"prev":"01234567"}')
_START = b'{"v":'
_TYPE_WITHIN = 300
"""Bytes from the start of a record that hold its type."""
_KIND = re.compile(rb'"type":"([a-z]+\.[a-z]+)"')


@dataclass(frozen=True)
class Recording:
    """What a log holds; damage is reported and skipped."""

    events: tuple[KnownEvent | UnknownEvent, ...] = ()
    """In the order of `seq`."""
    problems: tuple[str, ...] = ()
    """One sentence per damaged place, with its line number."""
    end: int = 0
    """Bytes up to and including the last line break."""
    tail: bytes = b""
    """What follows it: a record that was cut short, or one that lacks only its line break."""
    tail_is_record: bool = False
    last: bytes = FIRST
    """The checksum of the last sound record in the file, which the next one carries."""

    @property
    def torn(self) -> bool:
        return bool(self.tail) and not self.tail_is_record


def seal(body: str, before: bytes = b"") -> bytes:
    """Make a log line: `{…}` becomes `{…,"prev":"89abcdef","crc":"0a1b2c3d"}` and a line break.

    `before` is the checksum of the line before; without it, as in old logs, a missing line is not noticed.
    """
    raw = body.encode()
    if before:
        raw = raw[:-1] + _LINK + before + b'"}'
    return raw[:-1] + _seal_of(raw) + b"\n"


def checksum_of(line: bytes) -> bytes:
    """Return the checksum that the next line carries; `line` is without its line break."""
    return line[-len(b'01234567"}') : -len(b'"}')]


def unseal(line: bytes) -> bytes | None:
    """Return the event's JSON of a line without its line break; None if the checksum does not match."""
    return None if (opened := _open(line)) is None else opened[0]


def _open(line: bytes) -> tuple[bytes, bytes] | None:
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


@dataclass(frozen=True)
class _Line:
    """One line of the file, without its line break."""

    event: KnownEvent | UnknownEvent | None
    problem: str = ""
    before: bytes = b""
    """The checksum it carries of the line before."""


def read_recording(path: Path) -> Recording:
    """Read a whole log. Raises OSError; damage is never an error."""
    events: list[KnownEvent | UnknownEvent] = []
    problems: list[str] = []
    seen: set[int] = set()
    end, tail, tail_is_record = 0, b"", False
    last, known = FIRST, True
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            complete, bare = raw.endswith(b"\n"), raw.rstrip(b"\n")
            line = _read_line(bare)
            event = line.event
            if complete:
                end += len(raw)
            else:
                tail, tail_is_record = raw, event is not None
            if event is None and not complete:
                continue
            known = known and not line.problem
            if line.problem:
                problems.append(f"line {number}: {line.problem}")
            if event is None:
                continue
            if event.seq in seen:
                problems.append(f"line {number}: event {event.seq} appears again; the repetition is left out")
                continue
            if events and event.seq < events[-1].seq:
                problems.append(f"line {number}: event {event.seq} comes after event {events[-1].seq}")
            elif known and line.before not in (b"", last):
                problems.append(f"line {number}: something before event {event.seq} is missing")
            seen.add(event.seq)
            events.append(event)
            last, known = checksum_of(bare), True
    return Recording(
        tuple(sorted(events, key=lambda event: event.seq)), tuple(problems), end, tail, tail_is_record, last
    )


def read_head(path: Path, limit: int) -> list[KnownEvent | UnknownEvent]:
    """Return the sound events among the first `limit` bytes; none if the file cannot be read."""
    try:
        with path.open("rb") as file:
            lines = file.read(limit).split(b"\n")[:-1]
    except OSError:
        return []
    events = [_read_line(line).event for line in lines]
    return [event for event in events if event is not None]


def read_end(path: Path, limit: int) -> list[KnownEvent | UnknownEvent]:
    """Return the sound events among the last `limit` bytes. Raises OSError."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - limit)
        file.seek(start)
        lines = file.read(limit).split(b"\n")
    events = [_read_line(line).event for line in lines[1 if start else 0 :] if line]
    return [event for event in events if event is not None]


def read_kinds(path: Path, kinds: frozenset[str]) -> Iterator[KnownEvent | UnknownEvent]:
    """Yield the sound events of these types, each once, in the order of the file. Raises OSError."""
    wanted = tuple(f'"type":"{kind}"'.encode() for kind in kinds)
    seen: set[int] = set()
    with path.open("rb") as file:
        for line in file:
            if not any(one in line[:_TYPE_WITHIN] for one in wanted):
                continue
            event = _read_line(line.rstrip(b"\n")).event
            if event is not None and event.type in kinds and event.seq not in seen:
                seen.add(event.seq)
                yield event


def _read_line(line: bytes) -> _Line:
    opened = _open(line)
    note = ""
    if opened is None:
        # A crash may leave zeros or half a record in front of a whole one.
        start = line.rfind(_START)
        opened = _open(line[start:]) if start > 0 else None
        if opened is None:
            return _Line(None, f"{_kind_of_damage(line)}, left out")
        note = f"{start} damaged bytes before a record, left out"
    event = _parse(opened[0])
    if event is None:
        return _Line(None, "not an event that this version of codeagent can read, left out")
    return _Line(event, note, opened[1])


def _kind_of_damage(line: bytes) -> str:
    if not line:
        return "an empty line"
    if not line.strip(b"\0"):
        return "a run of NUL bytes"
    kind = _KIND.search(line[:_TYPE_WITHIN])
    return f"a record{f' ({kind[1].decode()})' if kind else ''} whose checksum does not match"


def _parse(body: bytes) -> KnownEvent | UnknownEvent | None:
    try:
        return parse_event_json(body)
    except ValueError:
        return _parse_newer(body)


def _parse_newer(body: bytes) -> KnownEvent | UnknownEvent | None:
    """Read an event to which a newer version added fields, without them."""
    try:
        value = json.loads(body)
        known = {field.name for field in fields(EVENT_TYPES[value["type"]])}
        return parse_event({key: item for key, item in value.items() if key in known})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class SessionLog:
    """Writes each event with one O_APPEND write, and makes it durable on `sync`.

    What cannot be written or made durable is cut off the file, kept in memory and written again at the next `sync`;
    so only the last line of the file can ever be incomplete.
    """

    def __init__(
        self, path: Path, session_id: str, *, recording: Recording, redactor: Redactor, release: Callable[[], None]
    ):
        """`recording` is what the file holds, repaired; `release` lets go of the session, and `close` calls it."""
        self._path = path
        self._session_id = session_id
        self._redactor = redactor
        self._release = release
        self._next_seq = recording.events[-1].seq + 1 if recording.events else 1
        self._fd = open_appended(path)
        self._before = recording.last
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
    def session_id(self) -> str:
        return self._session_id

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
            batch, self._written = self._written, []
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
        """Write and flush what is left, and release the session; idempotent. Raises SessionWriteError."""
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
        """Write everything since the last flush again: after a failed one the kernel may have dropped the pages."""
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
        """Raises OSError, also if another file is at the path now: what is written would be lost."""
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
