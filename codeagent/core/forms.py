"""What the fields of a form accept, in words and as values, what is wrong with a text that they do
not, and the fields for a JSON Schema."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from operator import ge, gt, le, lt
from typing import Any, cast
from urllib.parse import urlsplit

from codeagent.core.display import FieldKind, FormField
from codeagent.core.sanitize import one_line

_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("at_least", "at least", ge),
    ("more_than", "more than", gt),
    ("at_most", "at most", le),
    ("less_than", "less than", lt),
)
_NUMBERS = ("integer", "number")
_KINDS = {
    "text": "",
    "integer": "a whole number",
    "number": "a number",
    "email": "an email address",
    "uri": "an address such as https://example.org",
    "date": "a date such as 2026-05-30",
    "date-time": "a date and time such as 2026-05-30T14:00:00Z",
}

_KEYWORDS = {
    "text": {"minLength": "at_least", "maxLength": "at_most"},
    "several": {"minItems": "at_least", "maxItems": "at_most"},
    "number": {
        "minimum": "at_least",
        "exclusiveMinimum": "more_than",
        "maximum": "at_most",
        "exclusiveMaximum": "less_than",
    },
}
"""The JSON Schema keywords that bound a field of each kind, and what the form calls them."""
_LONGEST_TEXT = 500
_LONGEST_LABEL = 60
_LONGEST_OPTION = 100
_YES, _NO = "yes", "no"
FormValues = dict[str, str | int | float | bool | list[str] | None]


def takes(field: FormField) -> str:
    """Say what may be written, as in `required, a whole number, at least 1`; empty if any text is
    accepted."""
    known = ((words, getattr(field, name)) for name, words, _ in _BOUNDS)
    bounds = (f"{words} {bound:g}{_unit(field)}" for words, bound in known if bound is not None)
    kind = "separated by commas" if field.several else _KINDS[field.kind]
    options = ", ".join(field.options)
    return ", ".join(filter(None, ("required" if field.required else "", kind, options, *bounds)))


def read(field: FormField, text: str) -> str | int | float | list[str]:
    """Return what the text means. Raises ValueError, with the reason, if the field does not take
    it."""
    if field.several:
        words = _separated(text, field.options)
        for word in words:
            _check_option(field, word)
        _check_bounds(field, len(words))
        return words
    _check_option(field, text)
    if field.options:
        return text
    if field.kind not in _NUMBERS:
        if not _is_of_kind(field.kind, text):
            raise ValueError(f"it takes {_KINDS[field.kind]}")
        _check_bounds(field, len(text))
        return text
    number = _number(field, text)
    _check_bounds(field, number)
    return number


def problem_of(field: FormField, text: str) -> str:
    """Say why the field does not take the text, as a phrase; empty if it does.

    A field that is not required may be empty.
    """
    if not text:
        return "it is required" if field.required else ""
    try:
        read(field, text)
    except ValueError as error:
        return str(error)
    return ""


def _separated(text: str, options: Sequence[str]) -> list[str]:
    """Return the texts between commas; a comma within an option does not separate."""
    whole = {", ".join(_pieces(option)): option for option in options}
    longest = max((len(_pieces(option)) for option in options), default=1)
    found: list[str] = []
    left = _pieces(text)
    while left:
        joined = {size: ", ".join(left[:size]) for size in range(min(longest, len(left)), 0, -1)}
        size = next((size for size, words in joined.items() if words in whole), 1)
        found.append(whole.get(joined[size], joined[size]))
        left = left[size:]
    return found


def _pieces(text: str) -> list[str]:
    return [piece.strip() for piece in text.split(",") if piece.strip()]


def _unit(field: FormField) -> str:
    if field.several:
        return " of them"
    return "" if field.kind in _NUMBERS else " characters"


def _is_of_kind(kind: FieldKind, text: str) -> bool:
    """Tell whether a text has the form of its kind; any text is a text."""
    try:
        match kind:
            case "email":
                name, at, host = text.rpartition("@")
                return bool(name and at and host) and not any(letter.isspace() for letter in text)
            case "uri":
                parts = urlsplit(text)
                return bool(parts.scheme and (parts.netloc or parts.path)) and not any(
                    map(str.isspace, text)
                )
            case "date":
                return date.fromisoformat(text).isoformat() == text
            case "date-time":
                return (
                    "T" in text.upper() and datetime.fromisoformat(text.upper()).tzinfo is not None
                )
            case _:
                return True
    except ValueError:
        return False


def _check_option(field: FormField, text: str) -> None:
    if field.options and text not in field.options:
        raise ValueError(f"it takes one of: {', '.join(field.options)}")


def _check_bounds(field: FormField, size: float) -> None:
    for name, words, holds in _BOUNDS:
        bound = getattr(field, name)
        if bound is not None and not holds(size, bound):
            raise ValueError(f"it takes {words} {bound:g}{_unit(field)}")


def _number(field: FormField, text: str) -> int | float:
    try:
        number = int(text) if field.kind == "integer" else float(text)
        finite = math.isfinite(number)
    except (ValueError, OverflowError):  # OverflowError: an integer of some hundred digits
        finite = False
    if not finite:
        raise ValueError(f"it takes {_KINDS[field.kind]}")
    return number


def field_of(name: str, about: Mapping[str, Any], *, required: bool) -> FormField:
    """Return the field for a value that a JSON Schema is about."""
    several = about.get("type") == "array"
    kind = _kind(about)
    options = _choices(about)
    default = about.get("default")
    begins = next(
        (
            text
            for text, value in options.items()
            if value == default and type(value) is type(default)
        ),
        "",
    )
    if not options and isinstance(default, str | int | float) and not isinstance(default, bool):
        begins = one_line(str(default), _LONGEST_TEXT)
    bounds = _KEYWORDS[
        "several" if several else "number" if kind in ("integer", "number") else "text"
    ]
    return FormField(
        name=name,
        label=one_line(str(about.get("title") or about.get("description") or name), _LONGEST_LABEL),
        kind="text" if options else kind,
        options=tuple(options),
        several=several,
        required=required,
        begins=begins,
        **{
            said: bound
            for key, said in bounds.items()
            if (bound := _bound(about.get(key))) is not None
        },
    )


def _kind(about: Mapping[str, Any]) -> FieldKind:
    """Return what a field takes; a format that is not one of the protocol's is any text."""
    match about:
        case {"type": "integer" | "number" as kind} | {
            "format": "email" | "uri" | "date" | "date-time" as kind
        }:
            return cast("FieldKind", kind)
        case _:
            return "text"


def values_of(
    form: tuple[FormField, ...], abouts: Mapping[str, Mapping[str, Any]], answer: str
) -> FormValues:
    """Return what was filled in, each value of its field's type; `abouts` are the schemas of the
    fields. Raises ValueError if it is not valid."""
    try:
        given = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not a form") from error
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise ValueError("it is not a form")
    content: FormValues = {}
    for field in form:
        text = given.get(field.name, "").strip()
        if problem := problem_of(field, text):
            raise ValueError(f"{field.label}: {problem}")
        if text:
            choices = _choices(abouts[field.name])
            value = read(field, text)
            chosen = (
                [str(choices.get(word, word)) for word in value]
                if isinstance(value, list)
                else value
            )
            content[field.name] = choices.get(chosen, chosen) if isinstance(chosen, str) else chosen
    return content


def _bound(value: object) -> float | None:
    """Return a schema's bound; None for what is not a number, or not a finite one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        bound = float(value)
    except OverflowError:  # an integer of some hundred digits
        return None
    return bound if math.isfinite(bound) else None


def _choices(about: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the allowed values of a field, by the text shown for each; empty if any value is
    allowed."""
    match about:
        case {"type": "boolean"}:
            return {_YES: True, _NO: False}
        case {"type": "array", "items": Mapping() as items}:
            return _choices(items)
        case {"enum": [*values], "enumNames": [*titles]} if len(titles) == len(values):
            pairs = list(zip(titles, values, strict=True))
        case {"enum": [*values]}:
            pairs = [(value, value) for value in values]
        case {"oneOf": [*forms]} | {"anyOf": [*forms]}:
            pairs = [
                (form.get("title"), form.get("const"))
                for form in forms
                if isinstance(form, Mapping)
            ]
        case _:
            return {}
    return {
        one_line(str(title or value), _LONGEST_OPTION): value
        for title, value in pairs
        if isinstance(value, str | int | float)
    }
