"""Writes an event as the one line of JSON that the session log and `--output jsonl` share, and
reads it."""

import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from codeagent.core.events import EVENT_TYPES, Event, KnownEvent, UnknownEvent
from codeagent.core.json_types import UNSTAMPED
from codeagent.core.json_writing import to_json
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.redact import Redactor

if TYPE_CHECKING:  # only those who read logs need it
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

_BREAKS = lazy_regex("[\x85\u2028\u2029]")
_STRUCTURE = {
    "type",
    "session",
    "agent",
    "call_id",
    "id",
    "approval_id",
    "role",
    "kind",
    "name",
    "binding",
}
_TYPE = lazy_regex(rb'"type":"([a-z]+\.[a-z]+)"')
TYPE_WITHIN = 300
"""How many bytes at the start of an event's JSON hold its type."""


def parse_event(value: object) -> KnownEvent | UnknownEvent:
    """Return the event of a decoded log line. Raises ValueError."""
    return _in_envelope(_reader().validate_python(value))


def parse_event_json(line: str | bytes) -> KnownEvent | UnknownEvent:
    """Return the event of a log line. Raises ValueError."""
    if isinstance(line, bytes) and (validator := _validator(type_near_start(line))) is not None:
        try:
            return _in_envelope(validator.validate_json(line))
        except ValueError:
            pass  # the union says what it is, or what is wrong with it
    return _in_envelope(_reader().validate_json(line))


def type_near_start(line: bytes) -> str:
    """Return the type in an event's JSON even if the rest is damaged; empty if it is not where we
    write it."""
    found = _TYPE.search(line, 0, TYPE_WITHIN)
    return "" if found is None else found[1].decode()


def event_json(event: KnownEvent | UnknownEvent, redactor: Redactor) -> str:
    """Return the event's JSON object on one line, with secrets masked and lone surrogates replaced
    by `?`.

    Raises ValueError for an event that was never emitted, or a field of the wrong type.
    """
    text = _cleaned_json(event, redactor)
    return text if text.isascii() else on_one_line(text)


def on_one_line(text: str) -> str:
    """Escape what some readers take for a line break inside JSON strings; the meaning stays the
    same."""
    return _BREAKS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _cleaned_json(event: KnownEvent | UnknownEvent, redactor: Redactor) -> str:
    text = to_json(_in_envelope(event))
    cleaned = redactor.clean(text)
    if cleaned == text or _is_event(cleaned):
        return cleaned
    return json.dumps(
        _clean_values(json.loads(text), redactor.clean), ensure_ascii=False, separators=(",", ":")
    )


def _in_envelope(event: KnownEvent | UnknownEvent) -> KnownEvent | UnknownEvent:
    if event.seq == UNSTAMPED or event.ts == UNSTAMPED or not event.session:
        raise ValueError(f"a {event.type} without seq, ts or session")
    return event


@cache
def _reader() -> "TypeAdapter[KnownEvent | UnknownEvent]":
    from pydantic import ConfigDict, TypeAdapter  # a new session is written and not read

    return TypeAdapter(Event, config=ConfigDict(extra="forbid"))


@cache
def _validator(type_: str) -> "SchemaValidator | None":
    """Return the type's own validator; None for an unknown type, and for notices, whose class
    depends on `code`."""
    if type_ == "notice" or type_ not in EVENT_TYPES:
        return None
    from pydantic import TypeAdapter  # as above
    from pydantic_core import SchemaValidator

    validator = TypeAdapter(EVENT_TYPES[type_]).validator
    assert isinstance(validator, SchemaValidator)
    return validator


def _is_event(text: str) -> bool:
    try:
        parse_event_json(text)
    except ValueError:
        return False
    return True


def _clean_values(value: Any, clean: Callable[[str], str]) -> Any:
    """Mask free text only: a password such as `assistant` must not break the record's own words."""
    match value:
        case str():
            return clean(value)
        case list():
            return [_clean_values(item, clean) for item in value]
        case dict():
            return {
                key: item
                if key in _STRUCTURE and isinstance(item, str)
                else _clean_values(item, clean)
                for key, item in value.items()
            }
        case _:
            return value
