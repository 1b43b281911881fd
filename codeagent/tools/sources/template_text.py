"""Placeholders in the text of a tool file, and how the values of arguments are written as text."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codeagent.core.tool import InvalidArgs

_PLACEHOLDER = re.compile(r"\{\{\s*(?:args|inputs)\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_MEANT = re.compile(r"\{\{\s*(?P<what>[A-Za-z_][\w.-]*)\s*\}\}")

Values = Mapping[str, Any]
"""The arguments of a call by name; what is missing, or null, is not in it."""


@dataclass(frozen=True)
class Parameter:
    """What a template has to know of a parameter."""

    name: str
    type: str
    """As in JSON Schema, or `path`."""
    may_be_missing: bool = False
    """It is optional and has no default."""
    allow_dash: bool = False


def is_text(parameter: Parameter) -> bool:
    """A model can write anything for it."""
    return parameter.type not in ("integer", "number", "boolean")


Parameters = Mapping[str, Parameter]


@dataclass(frozen=True)
class Placeholder:
    name: str
    start: int
    """Characters from the beginning of the text."""
    end: int
    source: str
    """As it stands in the file."""


@dataclass(frozen=True)
class Flaw:
    """Why a template cannot be used, or why it should not."""

    text: str
    source: str = ""
    """The placeholder it is about, as it stands in the file; empty for all of the template."""
    at: tuple[str | int, ...] = ()
    """Below the template's own key."""
    warning: bool = False


def placeholders(text: str) -> tuple[Placeholder, ...]:
    return tuple(
        Placeholder(match["name"], match.start(), match.end(), match[0]) for match in _PLACEHOLDER.finditer(text)
    )


def flaws_of_names(text: str, known: list[str]) -> tuple[Flaw, ...]:
    """Placeholders that stand for no parameter. `{{.Name}}` and the like are none, but text for other programs."""
    flaws = []
    for match in _MEANT.finditer(text):
        inner = _PLACEHOLDER.fullmatch(match[0])
        if inner is None:
            name = match["what"].rpartition(".")[2]
            flaws.append(Flaw(f"{match[0]} is no placeholder; write {{{{args.{name}}}}}", match[0]))
        elif inner["name"] not in known:
            from difflib import get_close_matches

            close = get_close_matches(inner["name"], known, n=1, cutoff=0.5)
            there = f"there are {', '.join(known)}" if known else "there are no parameters"
            hint = f"did you mean {{{{args.{close[0]}}}}}?" if close else there
            flaws.append(Flaw(f"{match[0]} names no parameter; {hint}", match[0]))
    return tuple(flaws)


def text_of(value: Any) -> str:
    """A value as one text: a string as it is, numbers and truth values as JSON writes them, so also anything else."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def texts_of(value: Any) -> list[str]:
    """The items of a list; of anything else its one text."""
    return [text_of(item) for item in value] if isinstance(value, list) else [text_of(value)]


def refuse_nul(values: Values) -> None:
    """Raises InvalidArgs: no argument of a program can hold one."""
    for name, value in values.items():
        if any("\0" in text for text in texts_of(value)):
            raise InvalidArgs(f"argument '{name}' holds a NUL character, which no program can be given")


def refuse_dash(name: str, text: str) -> None:
    """Raises InvalidArgs where the text would be taken for an option."""
    if text.startswith("-"):
        raise InvalidArgs(
            f"argument '{name}' begins with -, so the program would take it for an option: {text[:80]!r}; "
            "write it another way (./-x for a file)"
        )
