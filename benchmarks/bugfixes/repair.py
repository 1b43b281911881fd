"""What the model does: edits made from two versions of a file, and the turns around them."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bugfixes.releases import Fix, Trouble

CONTEXT = 20
"""Lines the model reads around each change; what it replaces lies within."""


@dataclass(frozen=True)
class Change:
    """Lines [start, end) of the old file, and the lines that replace them."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Repair:
    """What the model does to one file."""

    path: str
    lines: tuple[str, ...]
    """Of the file as it is, ended by a plain newline whatever the file has."""
    result: bytes
    """The whole file afterwards."""
    changes: tuple[Change, ...]
    edits: tuple[dict[str, str], ...]


def repair_of(path: str, old_root: Path, new_root: Path, kept: Sequence[int]) -> Repair:
    """Raises Trouble where the recorded changes are not there."""
    (old, newline), (new, _) = (_lines_of(root / path) for root in (old_root, new_root))
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    every = [Change(i1, i2, tuple(new[j1:j2])) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
    if not kept or max(kept) >= len(every):
        raise Trouble(f"{path} has {len(every)} changes, which do not hold {list(kept)}")
    changes = tuple(every[index] for index in sorted(kept))
    lines, edits, shift = list(old), [], 0
    for change in changes:
        start, end = change.start + shift, change.end + shift
        edits.append(_edit(lines, start, end, change.lines, path))
        lines[start:end] = change.lines
        shift += len(change.lines) - (end - start)
    result = "".join(lines).replace("\n", newline).encode()
    return Repair(path, tuple(old), result, changes, tuple(edits))


def _lines_of(path: Path) -> tuple[list[str], str]:
    """As a model sees them, and how they end in the file. Raises Trouble."""
    with path.open(encoding="utf-8") as file:
        lines = list(file)
    if not isinstance(file.newlines, str):
        raise Trouble(f"{path} has several kinds of line ends, or none")
    return lines, file.newlines


def _edit(lines: list[str], start: int, end: int, new: Sequence[str], path: str) -> dict[str, str]:
    """One replacement with as much context as makes it the only one in the file."""
    whole = "".join(lines)
    for context in range(1, CONTEXT):
        before, after = lines[max(0, start - context) : start], lines[end : end + context]
        old_string = "".join([*before, *lines[start:end], *after])
        if whole.count(old_string) == 1:
            return {"old_string": old_string, "new_string": "".join([*before, *new, *after])}
    raise Trouble(f"{path}: lines {start + 1}-{end} cannot be told from others")


def script_of(fix: Fix, repairs: Sequence[Repair], test_command: str) -> list[dict[str, Any]]:
    """The model's turns; what each expects makes the tests' failing and passing a condition of the
    run."""
    number = len(fix.failing)
    looks = [["read", page] for repair in repairs for page in _pages(repair)]
    names = sorted({name for repair in repairs if (name := _enclosing(repair)) is not None})
    definition = rf"(def|class) ({'|'.join(names)})\b" if names else "^import |^from "
    edits = [["edit", {"path": repair.path, "edits": list(repair.edits)}] for repair in repairs]
    tests = {"command": test_command}
    return [
        {
            "text": "I'll look at the code in question and at who defines it.",
            "calls": [*looks, ["search", {"pattern": definition, "glob": "*.py"}]],
        },
        {
            "text": "Now the tests, before anything is changed.",
            "calls": [["bash", tests]],
            "expect": definition,
        },
        {
            "text": f"The bug is there: {fix.bug}.",
            "calls": edits,
            "expect": rf"(?m)^{number} failed in [\s\S]*\[exit code 1\]",
        },
        {"text": "The tests again.", "calls": [["bash", tests]], "expect": r"^Edited "},
        {
            "text": f"Fixed: {fix.bug}.",
            "expect": rf"(?m)^{number} passed in (?![\s\S]*\[exit code)",
        },
    ]


def _pages(repair: Repair) -> Iterator[dict[str, str | int]]:
    """Arguments of the reads that show every change with its context."""
    spans: list[tuple[int, int]] = []
    for change in repair.changes:
        first, last = max(0, change.start - CONTEXT), change.end + CONTEXT
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    for first, last in spans:
        yield {"path": repair.path, "offset": first + 1, "limit": last - first}


def _enclosing(repair: Repair) -> str | None:
    """The function or class around the last change."""
    above = reversed(repair.lines[: repair.changes[-1].start])
    found = (re.match(r"\s*(?:def|class) (\w+)", line) for line in above)
    return next((match[1] for match in found if match), None)
