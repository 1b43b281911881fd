"""The lines of a session log: one event's JSON and its CRC32, and what a damaged file still holds."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from codeagent.core.events import EVENT_TYPES, KnownEvent, UnknownEvent, parse_event, parse_event_json

_SEAL_LENGTH = len(b',"crc":"01234567"}')
_START = b'{"v":'
_TYPE_WITHIN = 300
"""Bytes of a record within which its type stands."""


@dataclass(frozen=True)
class Recording:
    """What a log holds, damage reported and passed over."""

    events: tuple[KnownEvent | UnknownEvent, ...] = ()
    """In the order of `seq`."""
    problems: tuple[str, ...] = ()
    """One sentence per damaged place, with its line number."""
    end: int = 0
    """Bytes up to and including the last line break."""
    tail: bytes = b""
    """What follows it: a record whose writing was cut short, or all of it but the line break."""
    tail_is_record: bool = False

    @property
    def torn(self) -> bool:
        return bool(self.tail) and not self.tail_is_record


def seal(body: str) -> bytes:
    """A log line: `{…}` becomes `{…,"crc":"0a1b2c3d"}` and a line break."""
    raw = body.encode()
    return raw[:-1] + _seal_of(raw) + b"\n"


def unseal(line: bytes) -> bytes | None:
    """The event's JSON of a line without its line break; None where the checksum does not fit."""
    body = line[:-_SEAL_LENGTH] + b"}"
    return body if line[-_SEAL_LENGTH:] == _seal_of(body) else None


def _seal_of(body: bytes) -> bytes:
    return b',"crc":"%08x"}' % zlib.crc32(body)


def read_recording(path: Path) -> Recording:
    """Read a whole log. Raises OSError; damage is never an error."""
    events: list[KnownEvent | UnknownEvent] = []
    problems: list[str] = []
    seen: set[int] = set()
    end, tail, tail_is_record = 0, b"", False
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            complete = line.endswith(b"\n")
            event, problem = _read_line(line.rstrip(b"\n"))
            if complete:
                end += len(line)
            else:
                tail, tail_is_record = line, event is not None
            if event is None and not complete:
                continue
            if problem:
                problems.append(f"line {number}: {problem}")
            if event is None:
                continue
            if event.seq in seen:
                problems.append(f"line {number}: event {event.seq} is there already; the repetition is left out")
                continue
            if events and event.seq < events[-1].seq:
                problems.append(f"line {number}: event {event.seq} comes after event {events[-1].seq}")
            seen.add(event.seq)
            events.append(event)
    return Recording(tuple(sorted(events, key=_seq)), tuple(problems), end, tail, tail_is_record)


def read_head(path: Path, limit: int) -> list[KnownEvent | UnknownEvent]:
    """The sound events among the first `limit` bytes; empty where the file cannot be read."""
    try:
        with path.open("rb") as file:
            lines = file.read(limit).split(b"\n")[:-1]
    except OSError:
        return []
    events = [_read_line(line)[0] for line in lines]
    return [event for event in events if event is not None]


def read_kinds(path: Path, kinds: frozenset[str]) -> Iterator[KnownEvent | UnknownEvent]:
    """The sound events of these types, one after the other as they stand, each once. Raises OSError."""
    wanted = tuple(f'"type":"{kind}"'.encode() for kind in kinds)
    seen: set[int] = set()
    with path.open("rb") as file:
        for line in file:
            if not any(one in line[:_TYPE_WITHIN] for one in wanted):
                continue
            event, _ = _read_line(line.rstrip(b"\n"))
            if event is not None and event.type in kinds and event.seq not in seen:
                seen.add(event.seq)
                yield event


def _read_line(line: bytes) -> tuple[KnownEvent | UnknownEvent | None, str]:
    body = unseal(line)
    note = ""
    if body is None:
        # A crash may leave zeros or half a record in front of a whole one.
        start = line.rfind(_START)
        body = unseal(line[start:]) if start > 0 else None
        if body is None:
            return None, f"{_kind_of_damage(line)}, left out"
        note = f"{start} damaged bytes before a record, left out"
    event = _parse(body)
    if event is None:
        return None, "no event this version of codeagent can read, left out"
    return event, note


def _kind_of_damage(line: bytes) -> str:
    if not line:
        return "an empty line"
    return "a run of NUL bytes" if not line.strip(b"\0") else "a record whose checksum does not fit"


def _parse(body: bytes) -> KnownEvent | UnknownEvent | None:
    try:
        return parse_event_json(body)
    except ValidationError:
        return _parse_newer(body)


def _parse_newer(body: bytes) -> KnownEvent | UnknownEvent | None:
    """An event that a newer version gave further fields: read without them."""
    try:
        value = json.loads(body)
        known = EVENT_TYPES[value["type"]].model_fields
        return parse_event({key: item for key, item in value.items() if key in known})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _seq(event: KnownEvent | UnknownEvent) -> int:
    return event.seq
