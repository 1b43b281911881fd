"""How a fault in a call's arguments is said: the same words for every kind of tool."""

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

LONGEST_QUOTE = 200
_SUBJECT = re.compile(r"(?:Input|String|List|Tuple|Set|Dictionary|Value|Number) (?=should )")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with the arguments of a call."""

    where: str
    """`path`, or `edits.0.old_string`; empty for the arguments as a whole."""
    text: str
    """A phrase without its subject; for an unknown argument the nearest names, which may be none."""
    kind: Literal["wrong", "missing", "unknown", "broken"] = "wrong"
    """`broken`: it fits the schema and makes no sense; the text is a whole sentence."""
    given: Any = None

    def __hash__(self) -> int:
        return hash((self.where, self.text, self.kind))

    def said(self, tool: str) -> str:
        """The line a model reads."""
        match self.kind:
            case "missing":
                return f"Validation Error: Missing required argument '{self.where}' for tool '{tool}'"
            case "unknown":
                return f"Validation Error: Unknown argument '{self.where[:LONGEST_QUOTE]}' for tool '{tool}'{self.text}"
            case "broken":
                subject = f"Argument {self.where!r}: " if self.where else ""
                return f"Validation Error: {subject}{self.text} for tool '{tool}'"
            case "wrong":
                subject = f"Argument '{self.where}'" if self.where else "The arguments"
                given = f"; got {kind_of(self.given)} {quoted(text_or_json(self.given))}" if self.where else ""
                return f"Validation Error: {subject} for tool '{tool}' {_SUBJECT.sub('', self.text)}{given}"


def nearest_names(name: str, known: list[str]) -> str:
    """`; did you mean a or b?`, or nothing."""
    close = get_close_matches(name, known, n=2, cutoff=0.4)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def quoted(text: str) -> str:
    return repr(printable(text[:LONGEST_QUOTE])) + ("…" if len(text) > LONGEST_QUOTE else "")


def printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text_or_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
