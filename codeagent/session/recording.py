"""Reads session logs: events, and what damage leaves of them."""

import gc
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, fields
from functools import lru_cache
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.event_json import TYPE_WITHIN, parse_event, parse_event_json, type_near_start
from codeagent.core.events import EVENT_TYPES, KnownEvent, UnknownEvent
from codeagent.session.log import FIRST, checksum_of, opened

_START = b'{"v":'


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
    def next_seq(self) -> int:
        return self.events[-1].seq + 1 if self.events else 1

    @property
    def torn(self) -> bool:
        return bool(self.tail) and not self.tail_is_record


@dataclass(frozen=True)
class _Line:
    """One line of the file, without its line break."""

    event: KnownEvent | UnknownEvent | None
    problem: str = ""
    before: bytes = b""
    """The checksum it carries of the line before."""


@dataclass(eq=False)
class _Reading:
    """What was read of a log so far."""

    events: list[KnownEvent | UnknownEvent] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    lines: int = 0
    end: int = 0
    tail: bytes = b""
    tail_is_record: bool = False
    final: bytes = b""
    """The last complete line."""
    last: bytes = FIRST
    known: bool = True
    """Whether `last` is the checksum of the line before the next one: no damage lies between."""

    def take(self, raw: bytes) -> None:
        """Take in the next line of the file."""
        self.lines += 1
        complete, bare = raw.endswith(b"\n"), raw.rstrip(b"\n")
        line = _read_line(bare)
        if complete:
            self.end += len(raw)
            self.final = raw
        else:
            self.tail = raw
            self.tail_is_record = line.event is not None
        if line.event is not None or complete:
            self._take(line, bare)

    def _take(self, line: _Line, bare: bytes) -> None:
        event = line.event
        self.known = self.known and not line.problem
        if line.problem:
            self._report(line.problem)
        if event is None:
            return
        if event.seq in self.seen:
            self._report(f"event {event.seq} appears again; the repetition is left out")
            return
        if self.events and event.seq < self.events[-1].seq:
            self._report(f"event {event.seq} comes after event {self.events[-1].seq}")
        elif self.known and line.before not in (b"", self.last):
            self._report(f"something before event {event.seq} is missing")
        self.seen.add(event.seq)
        self.events.append(event)
        self.last = checksum_of(bare)
        self.known = True

    def _report(self, problem: str) -> None:
        self.problems.append(f"line {self.lines}: {problem}")

    def recording(self) -> Recording:
        events = tuple(sorted(self.events, key=lambda event: event.seq))
        return Recording(
            events,
            tuple(self.problems),
            self.end,
            self.tail,
            tail_is_record=self.tail_is_record,
            last=self.last,
        )


class LogReader:
    """Reads one log, each line once: when it has grown, only what was added. Threads may share
    it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._stamp: tuple[int, ...] = ()
        """Device, inode, size and time of the file when it was last read."""
        self._reading = _Reading()
        self._recording = Recording()

    def read(self) -> Recording:
        """Read the whole log. Raises OSError; damage is never an error."""
        with self._turn, self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if stamp == self._stamp:
                return self._recording
            if not self._has_only_grown(file.fileno(), stamp):
                self._reading = _Reading()
            file.seek(self._reading.end)
            with without_collecting():
                for raw in file:
                    self._reading.take(raw)
            self._stamp = stamp
            self._recording = self._reading.recording()
            return self._recording

    def _has_only_grown(self, fd: int, stamp: tuple[int, ...]) -> bool:
        """Whether the file is the one that was read, and longer: the same length means that it was
        written over."""
        reading = self._reading
        if reading.tail or stamp[:2] != self._stamp[:2] or stamp[2] <= self._stamp[2]:
            return False
        return os.pread(fd, len(reading.final), reading.end - len(reading.final)) == reading.final


@contextmanager
def without_collecting() -> Iterator[None]:
    """Pause the garbage collector: with ever more events, it takes as long as reading them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@lru_cache(maxsize=1)
def reader_of(path: Path) -> LogReader:
    """Return the reader of a log; the last one is kept, so that showing a session and resuming it
    parse it once."""
    return LogReader(path)


def read_recording(path: Path) -> Recording:
    """Read a whole log. Raises OSError; damage is never an error."""
    return reader_of(path).read()


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
    """Yield the sound events of these types, each once, in the order of the file. Raises
    OSError."""
    wanted = tuple(f'"type":"{kind}"'.encode() for kind in kinds)
    seen: set[int] = set()
    with path.open("rb") as file:
        for line in file:
            if not any(one in line[:TYPE_WITHIN] for one in wanted):
                continue
            event = _read_line(line.rstrip(b"\n")).event
            if event is not None and event.type in kinds and event.seq not in seen:
                seen.add(event.seq)
                yield event


def _read_line(line: bytes) -> _Line:
    found = opened(line)
    note = ""
    if found is None:
        # A crash may leave zeros or half a record in front of a whole one.
        start = line.rfind(_START)
        found = opened(line[start:]) if start > 0 else None
        if found is None:
            return _Line(None, f"{_kind_of_damage(line)}, left out")
        note = f"{start} damaged bytes before a record, left out"
    event = _parse(found[0])
    if event is None:
        return _Line(None, "not an event that this version of codeagent can read, left out")
    return _Line(event, note, found[1])


def _kind_of_damage(line: bytes) -> str:
    if not line:
        return "an empty line"
    if not line.strip(b"\0"):
        return "a run of NUL bytes"
    kind = type_near_start(line)
    return f"a record{f' ({kind})' if kind else ''} whose checksum does not match"


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
