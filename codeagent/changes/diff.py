"""Diffs of one file, for the user and for the model."""

import os
from collections.abc import Sequence

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import on_one_line, spelled
from codeagent.core.text_files import shown

_CONTEXT = 8
_MOST_LINES = 120
_MOST_CHARACTERS = 8_000
_LINE_NUMBER = lazy_regex(r"(?<=[-+])\d+")
LEFT_OUT = "[… the rest of the diff is left out …]"
"""The last line of a diff for the model that was cut."""


@dataclass(frozen=True)
class Region:
    """The differing part of two texts, with a few lines around it."""

    first: int
    """The index (from 0) of its first line, in both texts."""
    before: str
    after: str

    @property
    def is_shown_whole(self) -> bool:
        """Whether it can be shown exactly as it is, without escapes."""
        return shown(self.before) == self.before and shown(self.after) == self.after


def region(before: str, after: str) -> Region:
    old, new = before.split("\n"), after.split("\n")
    head, tail = same_ends(old, new)
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    return Region(
        head, "\n".join(old[head : len(old) - tail]), "\n".join(new[head : len(new) - tail])
    )


def diff_block(path: str, before: str, after: str) -> DiffBlock:
    """Return the part of the file that changes, as the user sees it."""
    part = region(before, after)
    return DiffBlock(
        path=spelled(path),
        before=shown(part.before),
        after=shown(part.after),
        start_line=part.first + 1,
    )


def review_block(change: Change[Node]) -> DiffBlock | None:
    """Return the diff of a change, a link as the text `-> target`; None if there is no text in
    which the two sides differ."""
    texts = Change(change.path, _as_text(change.before), _as_text(change.after)).texts
    if texts is None or texts[0] == texts[1]:
        return None
    return diff_block(change.path, *texts)


def _as_text(node: Node | None) -> Node | None:
    if node is None or node.kind != "link":
        return node
    return Node(
        "file", f"-> {on_one_line(os.fsdecode(node.data))}\n".encode(errors="surrogateescape")
    )


def unified(before: str, after: str) -> str:
    """Return a unified diff; if it is long, it is cut and ends with `LEFT_OUT`."""
    part = region(before, after)
    from difflib import unified_diff  # a start changes nothing

    lines = list(
        unified_diff(
            shown(part.before).split("\n"), shown(part.after).split("\n"), lineterm="", n=2
        )
    )[2:]
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            lines[at] = _LINE_NUMBER.sub(lambda found: str(int(found[0]) + part.first), line)
    text = "\n".join(lines[:_MOST_LINES])
    whole = len(lines) <= _MOST_LINES and len(text) <= _MOST_CHARACTERS
    return text if whole else f"{text[:_MOST_CHARACTERS]}\n{LEFT_OUT}"


def count(number: int, noun: str) -> str:
    """Return `1 line` or `2,000 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def same_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items the two share at the beginning and, apart from these, at the end."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail
