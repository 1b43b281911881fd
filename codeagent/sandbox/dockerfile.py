"""What a Dockerfile would fetch and copy, told without building it; what cannot be told counts as fetched."""

import json
import re
from collections.abc import Iterator, Mapping

from codeagent.core.dataclass import dataclass

_DIRECTIVE = re.compile(r"#\s*escape\s*=\s*(?P<escape>[\\`])\s*", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::(?P<kind>[-+])(?P<other>[^{}]*))?\}|(?P<plain>\w+))")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)
_SCRATCH = "scratch"


@dataclass(frozen=True)
class Instruction:
    name: str
    """In capitals."""
    text: str
    """What follows the name, its lines joined."""

    def __str__(self) -> str:
        return f"{self.name} {self.text}"


@dataclass(frozen=True)
class BuildPlan:
    """What a build needs besides the Dockerfile itself."""

    bases: tuple[str, ...]
    """Images that it begins with or copies from."""
    fetches: tuple[str, ...]
    """Instructions for which the engine would use the network, whatever network the commands of the build have."""
    copies: bool
    """Files of the build context are copied into it."""


def instructions(text: str) -> tuple[Instruction, ...]:
    """Split a Dockerfile into its instructions, without comments."""
    first = text.split("\n", 1)[0].strip()
    directive = _DIRECTIVE.fullmatch(first)
    escape = directive["escape"] if directive else "\\"
    found: list[Instruction] = []
    pending = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        pending += line
        if pending.endswith(escape):
            pending = pending[:-1].rstrip() + " "
            continue
        found.append(_instruction(pending))
        pending = ""
    return (*found, _instruction(pending)) if pending.strip() else tuple(found)


def plan(text: str, arguments: Mapping[str, str]) -> BuildPlan:
    """Tell what a build with these arguments would need."""
    given = dict(arguments)
    bases: list[str] = []
    fetches: list[str] = []
    stages: set[str] = set()
    copies = begun = False
    for each in instructions(text):
        words = each.text.split()
        if each.name == "ARG" and not begun:
            for name, _, value in (word.partition("=") for word in words):
                given.setdefault(name, _replaced(value.strip("\"'"), given))
        elif each.name == "FROM":
            begun = True
            names = [word for word in words if not word.startswith("--")]
            base = _replaced(names[0], given) if names else ""
            if base.lower() not in stages and base != _SCRATCH:
                bases.append(base)
            if len(names) == 3 and names[1].upper() == "AS":
                stages.add(names[2].lower())
        elif each.name in ("COPY", "ADD"):
            source = _copied_from(words)
            copies = copies or source is None
            if source is not None and source.lower() not in stages and not source.isdigit():
                bases.append(source)
            if each.name == "ADD" and any("$" in path or _REMOTE.match(path) for path in _paths(each.text)):
                fetches.append(str(each))
    return BuildPlan(tuple(dict.fromkeys(bases)), tuple(fetches), copies)


def _instruction(line: str) -> Instruction:
    name, _, rest = line.partition(" ")
    return Instruction(name.upper(), rest.strip())


def _copied_from(words: list[str]) -> str | None:
    """Return the image or stage that files are copied from; None for the build context."""
    return next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), None)


def _paths(text: str) -> Iterator[str]:
    """Yield every path of a COPY or ADD, in either of its two forms."""
    words = [word for word in text.split() if not word.startswith("--")]
    try:
        listed = json.loads(" ".join(words))
    except ValueError:
        yield from words
        return
    yield from map(str, listed if isinstance(listed, list) else [listed])


def _replaced(text: str, given: Mapping[str, str]) -> str:
    """Put in the values of variables; one without a value is empty, as it is for the engine."""

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"]
        if match["kind"] == "-":
            return given.get(name) or match["other"]
        if match["kind"] == "+":
            return str(match["other"]) if given.get(name) else ""
        return given.get(name, "")

    return _VARIABLE.sub(value, text)
