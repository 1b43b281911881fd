"""Writes the vocabulary's dataclasses as JSON, checking every field against its type; pydantic
reads them.

Pydantic could write them as well, but a start logs its first events before anything else needs
pydantic.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from codeagent.core.dataclass import field_types
from codeagent.core.json_types import JsonForm

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
        plain = to_plain(value)
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


def to_plain(value: Any) -> dict[str, Any]:
    """Return the JSON of a dataclass as plain values. Raises TypeError for a wrong field."""
    return _writer(type(value))(value)


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
    reshaped = form.inner or form.spread
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
        return form.applied(out) if reshaped else out

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
    if origin is tuple:
        return _tuple(inner)
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


def _tuple(members: tuple[Any, ...]) -> _Part:
    if members[1:] == (...,):
        part = _part(members[0])
        return lambda value: [part(item) for item in _of_type(value, (tuple,))]
    parts = [_part(member) for member in members]
    return lambda value: [
        part(item) for part, item in zip(parts, _of_type(value, (tuple,)), strict=True)
    ]


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
