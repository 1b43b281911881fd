"""Patterns of rules: what one matches, and what it could match if part of the text is unknown."""

import re
from functools import lru_cache

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
