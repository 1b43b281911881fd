"""What is wrong with a value, in words: the fault of an argument, what was given, the nearest name."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex

LONGEST_QUOTE = 200
_MOST_NAMED = 40
_SUBJECT = lazy_regex(r"(?:Input|String|List|Tuple|Set|Dictionary|Value|Number) (?=should )")


@dataclass(frozen=True)
class Fault:
    """One fault in the arguments of a call."""

    where: str
    """The place, such as `path` or `edits.0.old_string`; empty for the arguments as a whole."""
    text: str
    """A phrase without a subject; for an unknown argument the nearest names, if there are any."""
    kind: Literal["wrong", "missing", "unknown", "broken"] = "wrong"
    """`broken`: it matches the schema but does not make sense; the text is then a whole
    sentence."""
    given: Any = None

    def __hash__(self) -> int:
        return hash((self.where, self.text, self.kind))

    def said(self, tool: str) -> str:
        """Return the line for the model."""
        match self.kind:
            case "missing":
                return (
                    f"Validation Error: Missing required argument '{self.where}' for tool '{tool}'"
                )
            case "unknown":
                return f"Validation Error: Unknown argument '{self.where[:LONGEST_QUOTE]}' for tool '{tool}'{self.text}"
            case "broken":
                subject = f"Argument {self.where!r}: " if self.where else ""
                return f"Validation Error: {subject}{self.text} for tool '{tool}'"
            case "wrong":
                subject = f"Argument '{self.where}'" if self.where else "The arguments"
                given = (
                    f"; got {kind_of(self.given)} {quoted(text_or_json(self.given))}"
                    if self.where
                    else ""
                )
                return f"Validation Error: {subject} for tool '{tool}' {_SUBJECT.sub('', self.text)}{given}"

    def in_words(self, whole: str) -> str:
        """Return the line for a value other than a call's arguments; `whole` names that value."""
        text = {"missing": "is missing", "unknown": "is not a key of the schema"}.get(
            self.kind, self.text
        )
        return f"{self.where or whole} {text}"


def unknown_argument(where: str, name: str, known: Iterable[str]) -> Fault:
    """Return the fault for an unknown argument, with the nearest names: `old` is close enough to
    `old_string`."""
    return Fault(where, nearest_names(name, known, cutoff=0.4), "unknown")


def nearest_names(
    name: str,
    known: Iterable[str],
    form: Callable[[str], str] = str,
    *,
    most: int = 2,
    cutoff: float = 0.5,
) -> str:
    """Return `; did you mean a or b?`, each written in that form, or an empty text; case is
    ignored.

    `cutoff` is the least similarity of two names, from 0 to 1.
    """
    from difflib import get_close_matches  # only for a mistyped name

    by_lower = {one.lower(): form(one) for one in known}
    close = [
        by_lower[lower]
        for lower in get_close_matches(name.lower()[:100], by_lower, n=most, cutoff=cutoff)
    ]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def nearest_or_all(
    name: str, known: Iterable[str], form: Callable[[str], str] = str, *, most: int = 2
) -> str:
    """Return the nearest names as `nearest_names` does, or else `; there are a, b, c`."""
    names = list(known)
    listed = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    return nearest_names(name, names, form, most=most) or f"; there are {listed or 'none'}"


def quoted(text: str) -> str:
    return repr(printable(text[:LONGEST_QUOTE])) + ("…" if len(text) > LONGEST_QUOTE else "")


def printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text_or_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def kind_of(value: Any) -> str:
    kinds = (
        (bool, "a boolean"),
        (int | float, "a number"),
        (str, "a string"),
        (list, "a list"),
        (type(None), "null"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "an object")
