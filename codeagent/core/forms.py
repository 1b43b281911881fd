"""What the fields of a form accept, in words and as values, and what is wrong with a text that they
do not."""

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from operator import ge, gt, le, lt
from urllib.parse import urlsplit

from codeagent.core.display import FieldKind, FormField

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
