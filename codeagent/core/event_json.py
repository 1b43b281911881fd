"""Writes the vocabulary's dataclasses as JSON, checking every field against its type, and events as
the one line that the session log and `--output jsonl` share; reads events.

Pydantic, which reads them, could write them as well, but a start logs its first events before
anything else needs pydantic.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from codeagent.core.dataclass import field_types
from codeagent.core.events import EVENT_TYPES, Event, KnownEvent, UnknownEvent
from codeagent.core.json_types import UNSTAMPED, JsonForm
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


_Part = Callable[[Any], Any]
"""Returns the value of a field as JSON has it. Raises TypeError for a value of another type."""
_PLAIN = JsonForm()
_DEEPEST = 190
"""How many levels of nesting are written; pydantic reads at most 200."""
_SCALARS: Mapping[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
}


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return the JSON of a dataclass; lone surrogates become `?`, and NaN and infinity become null.

    Raises ValueError for a wrong field, and for a value that is nested too deeply to be read again.
    """
    try:
        plain = _writer(type(value))(value)
        text = _encoded(plain, indent)
        if text.count("{") + text.count("[") > _DEEPEST and _depth(plain) > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels deep")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{type(value).__name__} cannot be written: {error}") from error
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _encoded(plain: Any, indent: int | None) -> str:
    try:
        return _encoder(indent).encode(plain)
    except ValueError:  # it contains NaN, infinity or itself
        return _encoder(indent).encode(_finite(plain))


def _finite(plain: Any) -> Any:
    match plain:
        case dict():
            return {key: _finite(item) for key, item in plain.items()}
        case list() | tuple():
            return [_finite(item) for item in plain]
        case float() if not isfinite(plain):
            return None
        case _:
            return plain


def _depth(plain: Any) -> int:
    match plain:
        case dict():
            return 1 + max(map(_depth, plain.values()), default=0)
        case list() | tuple():
            return 1 + max(map(_depth, plain), default=0)
        case _:
            return 0


@cache
def _encoder(indent: int | None) -> json.JSONEncoder:
    """Cached, because making one takes longer than writing an event."""
    separators = (",", ":") if indent is None else None
    return json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
    )


def _made_writer(kind: Any) -> Callable[[Any], dict[str, Any]]:
    form: JsonForm = getattr(kind, "json_form", _PLAIN)
    parts = {name: _part(hint) for name, hint in field_types(kind).items()}
    unsaid = {field.name: field.default for field in fields(kind) if field.name in form.omitted}
    pairs = tuple(parts.items())
    read = attrgetter(
        *parts, "__class__"
    )  # a getter of one attribute alone would not return a tuple

    def write(value: Any) -> dict[str, Any]:
        try:
            out = {name: part(item) for (name, part), item in zip(pairs, read(value), strict=False)}
        except TypeError:
            _name_fault(value, parts)
            raise
        for name, default in unsaid.items():
            if getattr(value, name) == default:
                del out[name]
        return form.applied(out) if form.spread or form.inner else out

    return write


_writer: Callable[[type], Callable[[Any], dict[str, Any]]] = cache(_made_writer)


def _name_fault(value: Any, parts: Mapping[str, _Part]) -> None:
    """Raise TypeError for the first field that is wrong, with its name."""
    for name, part in parts.items():
        try:
            part(getattr(value, name))
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None


def _part(hint: Any) -> _Part:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _part(inner[0])
    if origin in (Union, UnionType):
        return _one_of(inner)
    if origin is Literal:
        return _literal(inner)
    if origin is tuple and inner[1:] == (...,):
        return _tuple(_part(inner[0]))
    if origin is dict:
        return _object(_part(inner[1]))
    if hint is Any:
        return _anything
    if is_dataclass(hint):
        return _one_of((hint,))
    return _scalar(NoneType if hint is None else hint)


def _one_of(members: tuple[Any, ...]) -> _Part:
    written = {member for member in members if isinstance(member, type) and is_dataclass(member)}
    parts = [_part(member) for member in members if member not in written]

    def write(value: Any) -> Any:
        if type(value) in written:
            return _writer(type(value))(value)
        for part in parts:
            try:
                return part(value)
            except TypeError:
                continue
        raise TypeError(f"{type(value).__name__} does not belong here")

    return write


def _literal(values: tuple[Any, ...]) -> _Part:
    def write(value: Any) -> Any:
        if value not in values:
            raise TypeError(f"{value!r} is not one of {', '.join(map(repr, values))}")
        return value

    return write


def _tuple(part: _Part) -> _Part:
    return lambda value: [part(item) for item in _of_type(value, (tuple,))]


def _object(part: _Part) -> _Part:
    if part is _anything:
        return lambda value: _of_type(value, (dict,))
    return lambda value: {key: part(item) for key, item in _of_type(value, (dict,)).items()}


def _scalar(kind: Any) -> _Part:
    kinds = _SCALARS.get(kind, (kind,))
    return lambda value: value if value.__class__ in kinds else _of_type(value, kinds)


def _anything(value: Any) -> Any:
    return value


def _of_type(value: Any, kinds: tuple[type, ...]) -> Any:
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        return value
    raise TypeError(f"{type(value).__name__} in place of {kinds[0].__name__}")
