"""Finds the line of a setting in the text of its file."""

import json
from collections.abc import Sequence
from itertools import takewhile

from codeagent.core.lazy_regex import lazy_regex

_HEADER = lazy_regex(r"\s*\[\[?\s*(?P<name>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = lazy_regex(r"\s*(?P<name>[A-Za-z0-9_\-.\"' ]+?)\s*=")


def line_of(text: str, path: Sequence[str]) -> int:
    """Return the line (from 1) that sets the key at `path` or opens its nearest table; 1 if neither
    is found."""
    wanted = tuple(path)
    table: tuple[str, ...] = ()
    best, best_length = 1, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = found = _parts(header["name"])
        elif key := _KEY.match(line):
            found = table + _parts(key["name"])
        else:
            continue
        common = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted, found, strict=False))
        )
        if common > best_length:
            best, best_length = number, common
    return best


def line_of_text(text: str, path: Sequence[str], *values: str) -> int:
    """Return the line (from 1) of the last of `values`, each searched for below the one before, the
    first below `path`.

    A value whose spelling is not recognised leaves the line of the one before it.
    """
    lines = text.splitlines()
    at = line_of(text, path) - 1
    for value in values:
        spellings = (json.dumps(value), json.dumps(value, ensure_ascii=False), f"'{value}'")
        at = next(
            (n for n in range(at, len(lines)) if any(one in lines[n] for one in spellings)), at
        )
    return at + 1


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
