"""Finds the line of a key in a TOML file, for messages that point at it."""

import json
import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?\s*(?P<name>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*(?P<name>[A-Za-z0-9_\-.\"' ]+?)\s*=")


def line_of(text: str, path: Sequence[str]) -> int:
    """The line (from 1) where the key at `path` is set, or its nearest table is opened; 1 where neither is found."""
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
        common = _common(wanted, found)
        if common > best_length:
            best, best_length = number, common
    return best


def line_of_text(text: str, path: Sequence[str], *values: str) -> int:
    """The line (from 1) of the last of `values`, each sought from where the one before is; they begin below `path`.

    Where one is written in a way that is not found here, the line before it is near enough.
    """
    lines = text.splitlines()
    at = line_of(text, path) - 1
    for value in values:
        spellings = (json.dumps(value), json.dumps(value, ensure_ascii=False), f"'{value}'")
        at = next((n for n in range(at, len(lines)) if any(one in lines[n] for one in spellings)), at)
    return at + 1


def _common(wanted: tuple[str, ...], found: tuple[str, ...]) -> int:
    """How many leading parts are equal."""
    return next(
        (at for at, (want, got) in enumerate(zip(wanted, found, strict=False)) if want != got),
        min(len(wanted), len(found)),
    )


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
