"""Patterns, and what they match: those of rules, of lists of tools, and of git's ignore files."""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex

HOLE = "\0"
"""Stands for text that is unknown before a call runs."""
SYSTEM_FOLDER = lazy_regex(r"\A/(?:usr/(?:local/)?)?s?bin/")
"""A program in one of these folders counts as the program of that name."""


def meets(pattern: str, text: str) -> bool:
    """Whether some text in each hole makes the pattern match; a blank beside an empty hole vanishes
    with it."""
    places = _onward({0}, text)
    for token in pattern:
        if not places:
            return False
        if token == "*":
            places = set(range(min(places), len(text) + 1))
            continue
        stay = {at for at in places if text[at : at + 1] == HOLE}
        step = {
            at + 1
            for at in places
            if at < len(text) and text[at] != HOLE and token in ("?", text[at])
        }
        places = _onward(stay | step, text)
    return len(text) in places


def _onward(places: set[int], text: str) -> set[int]:
    """Add the states that are reached by skipping a hole, with a blank on one side of it."""
    todo, found = list(places), set(places)
    while todo:
        at = todo.pop()
        sizes = {HOLE: (1, 2) if text[at + 1 : at + 2] == " " else (1,), " ": (2,)}
        hole_follows = text[at : at + 1] == HOLE or text[at : at + 2] == " " + HOLE
        for size in sizes[text[at]] if hole_follows else ():
            if at + size not in found:
                found.add(at + size)
                todo.append(at + size)
    return found


@lru_cache(maxsize=1024)
def glob_of(pattern: str, kind: str) -> re.Pattern[str]:
    """Compile a pattern with `*` and `?` as in a shell; in a path they stop at `/` and `**` does
    not.

    ` *` at the end of a command matches any further words, or none: `pytest *` matches `pytest`,
    not `pytest-x`. `/**` at the end of a path also matches the folder itself.
    """
    within = "[^/]" if kind == "path" else "."
    out: list[str] = []
    pattern = SYSTEM_FOLDER.sub("", pattern) if kind == "command" else pattern
    rest, end = pattern, ""
    if kind == "command" and len(pattern) > 2 and pattern.endswith(" *"):
        rest, end = pattern[:-2], "(?: .*)?"
    if kind == "path" and len(pattern) > 3 and pattern.endswith("/**"):
        rest, end = pattern[:-3], "(?:/.*)?"
    while rest:
        if kind == "path" and rest.startswith("**/"):
            out.append("(?:.*/)?")
            rest = rest[3:]
        elif rest.startswith("**"):
            out.append(".*")
            rest = rest[2:]
        else:
            out.append({"*": within + "*", "?": within}.get(rest[0], re.escape(rest[0])))
            rest = rest[1:]
    return re.compile("".join(out) + end, re.DOTALL)


_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \t",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_NEVER = lazy_regex(r"(?!)")


@dataclass(frozen=True)
class IgnoreLine:
    """A pattern that matches a path itself; skipping what is below an ignored directory is up to
    the walk."""

    expression: re.Pattern[str]
    negated: bool
    directories_only: bool
    whole_path: bool
    """Whether it is matched against the path from the ignore file's directory, not just against the
    last part."""

    def matches(self, path: str, directory: bool) -> bool:
        if self.directories_only and not directory:
            return False
        text = path if self.whole_path else path.rpartition("/")[2]
        return self.expression.fullmatch(text) is not None


def ignore_line(line: str) -> IgnoreLine | None:
    """Parse a line; None if it is empty or a comment."""
    pattern = _without_trailing_blanks(line.removesuffix("\r"))
    if not pattern or pattern.startswith("#"):
        return None
    negated = pattern.startswith("!")
    pattern = pattern[1:] if negated else pattern
    directories_only = pattern.endswith("/")
    pattern = pattern[:-1] if directories_only else pattern
    if not pattern:
        return None
    whole_path = "/" in pattern
    return IgnoreLine(wildmatch(pattern.removeprefix("/")), negated, directories_only, whole_path)


def wildmatch(pattern: str) -> re.Pattern[str]:
    """Translate: `*`, `?` and `[…]` stop at a slash, `**` between slashes does not; a broken one
    matches nothing."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            piece, at = _stars(pattern, at)
        elif char == "?":
            piece, at = "[^/]", at + 1
        elif char == "[":
            found = _bracket(pattern, at)
            if found is None:
                return _NEVER
            piece, at = found
        elif char == "\\":
            if at + 1 == len(pattern):
                return _NEVER
            piece, at = re.escape(pattern[at + 1]), at + 2
        else:
            piece, at = re.escape(char), at + 1
        out.append(piece)
    return re.compile("".join(out), re.DOTALL)


def _stars(pattern: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(pattern) and pattern[end] == "*":
        end += 1
    alone = end - at >= 2 and (at == 0 or pattern[at - 1] == "/")
    if alone and end == len(pattern):
        return ".*", end
    if alone and pattern[end] == "/":
        return "(?:.*/)?", end + 1
    if alone and pattern.startswith("\\/", end):
        return "(?:.*/)?", end + 2
    return "[^/]*", end


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """Return the set that opens at `at`, and where it ends; None if it is not closed or names no
    class."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^") and pattern[at : at + 1] != ""
    at += negated
    out: list[str] = []
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return _set(out, negated), at + 1
        first = False
        if pattern.startswith("[:", at):
            end = pattern.find(":]", at + 2)
            name = pattern[at + 2 : end]
            if end >= 0 and name in _CLASSES:
                out.append(_CLASSES[name])
                at = end + 2
                continue
            if end >= 0 and "]" not in name:
                return None
        low, at = _literal(pattern, at)
        if pattern.startswith("-", at) and at + 1 < len(pattern) and pattern[at + 1] != "]":
            high, at = _literal(pattern, at + 1)
            if low <= high:
                out.append(f"{re.escape(low)}-{re.escape(high)}")
            continue
        out.append(re.escape(low))
    return None


def _literal(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        return pattern[at + 1], at + 2
    return pattern[at], at + 1


def _set(items: list[str], negated: bool) -> str:
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]"
    return f"(?!/)[{inside}]" if inside else "(?!)"


def _without_trailing_blanks(line: str) -> str:
    """Remove trailing spaces except one after a backslash."""
    end = len(line)
    while end and line[end - 1] == " ":
        backslashes = len(line[: end - 1]) - len(line[: end - 1].rstrip("\\"))
        if backslashes % 2:
            break
        end -= 1
    return line[:end]


_PATTERN = lazy_regex(r"[A-Za-z0-9_*?-]{1,128}")


@dataclass(frozen=True)
class AllowList:
    """Lists of tool names and of patterns such as `mcp__github__*`: a tool must be in each; without
    a list, all may.

    Each list comes from one place: the command line or the user's file, the project, a recipe, an
    agent. A place can only take away from what the others allow.
    """

    lists: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lists)

    def allows(self, name: str) -> bool:
        return all(any(fnmatchcase(name, pattern) for pattern in one) for one in self.lists)

    def narrowed(self, names: Iterable[str] | None) -> "AllowList":
        """Return this list narrowed by another one; None changes nothing. Raises ConfigError for an
        impossible name."""
        return self if names is None else AllowList((*self.lists, checked_names(names)))

    def unknown(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the names and patterns that match none of these tools."""
        every = dict.fromkeys(pattern for one in self.lists for pattern in one)
        return tuple(
            pattern for pattern in every if not any(fnmatchcase(name, pattern) for name in names)
        )


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names and patterns without repetitions. Raises ConfigError for an impossible
    name."""
    every = tuple(dict.fromkeys(names))
    if (
        wrong := next((name for name in every if _PATTERN.fullmatch(name) is None), None)
    ) is not None:
        raise ConfigError(
            f"{wrong[:100]!r} is not a tool's name; * and ? may stand for parts of one"
        )
    return every


def split_names(text: str) -> tuple[str, ...]:
    """Split a list such as `read, bash`. Raises ConfigError for an impossible name."""
    return checked_names(filter(None, map(str.strip, text.split(","))))


class IgnoreRules(Protocol):
    """What `.gitignore`, `.ignore` and `.git/info/exclude` leave out, read once for one walk of the
    tree.

    Ask about a directory before its entries: a path inside an ignored directory is ignored.
    """

    @property
    def from_above(self) -> bool:
        """Whether ignore files above the root count, because the root is a folder of a
        repository."""

    def ignored(self, path: str, directory: bool) -> bool:
        """`path` is relative to the root. Unreadable ignore files count as empty."""
