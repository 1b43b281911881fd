"""A change of a text cut into hunks, and what is left of it when a person takes only some of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from codeagent.core.line_matching import Match, matching

HunkAnswer = bool | tuple[str, ...]
"""True: taken. False: left as it was. Lines: these in place of the hunk's new ones."""


@dataclass(frozen=True)
class Hunk:
    """One run of lines that change. Lines are what stands between newlines: `text.split("\\n")`."""

    start: int
    """Index (from 0) of the first of `old` among the lines before; where `old` is empty, of the line it goes before."""
    old: tuple[str, ...]
    new: tuple[str, ...]


def cut(before: str, after: str) -> tuple[Hunk, ...]:
    """The runs in which the two differ, in order; nothing where they are the same.

    The same two texts always give the same hunks. Where too many lines differ to match them in reasonable time, a run
    is longer than it would have to be.
    """
    old, new = before.split("\n"), after.split("\n")
    found: list[Hunk] = []
    left = right = 0
    for first, begin, size in [*_matching(old, new), (len(old), len(new), 0)]:
        if left < first or right < begin:
            found.append(Hunk(left, tuple(old[left:first]), tuple(new[right:begin])))
        left, right = first + size, begin + size
    return tuple(found)


def _matching(old: list[str], new: list[str]) -> list[Match]:
    if [""] not in (old, new):
        return matching(old, new)
    # An empty text has no line, though splitting gives one: no blank line of the other is the same as that.
    return [(len(old) - 1, len(new) - 1, 1)] if old[-1] == new[-1] else []


def landed(before: str, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]) -> str:
    """The text with the hunks as they were answered. Raises ValueError where there is not one answer for each."""
    lines = before.split("\n")
    out: list[str] = []
    at = 0
    for hunk, answer in zip(hunks, answers, strict=True):
        out += lines[at : hunk.start]
        at = hunk.start + len(hunk.old)
        match answer:
            case True:
                out += hunk.new
            case False:
                out += hunk.old
            case _:
                out += answer
    return "\n".join([*out, *lines[at:]])
