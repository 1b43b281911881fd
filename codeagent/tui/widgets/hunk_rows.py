"""The rows of a change hunk by hunk, each with the unchanged lines around it."""

from collections.abc import Sequence
from dataclasses import dataclass

from codeagent.core.display import DiffBlock
from codeagent.core.hunks import Hunk, landed
from codeagent.tui.rendering.diff import LEAST_FOLDED, LINES_BY_WORD, DiffRow, ending_rows, line_ends, mark_words

CONTEXT = 3
"""Unchanged lines shown before and after a hunk."""


@dataclass(frozen=True)
class HunkRows:
    """One hunk; every row of the diff is in exactly one."""

    line: int
    """The number of its first line in the old text; where it only adds, of the line it goes before."""
    gap: int
    """Unchanged lines left out before it."""
    rows: tuple[DiffRow, ...]


def hunk_rows(
    diff: DiffBlock, hunks: Sequence[Hunk], new: Sequence[tuple[str, ...]], *, everything: bool = False
) -> tuple[HunkRows, ...]:
    """`new` is what stands in place of each hunk's old lines. `everything`: no unchanged line is left out."""
    carriage = common_carriage(diff)
    lines = [line.removesuffix(carriage) for line in diff.before.split("\n")]
    total = len(lines)
    by_word = total + sum(map(len, new)) <= LINES_BY_WORD
    ending = ending_rows(diff.before, landed(diff.before, hunks, tuple(new)))
    found: list[HunkRows] = []
    before_first = range(hunks[0].start if hunks else 0)
    lead, gap, shift = (before_first if everything else before_first[-CONTEXT:]), 0, 0
    for at, hunk in enumerate(hunks):
        end = hunk.start + len(hunk.old)
        is_last = end == total
        old, come = (side[:-1] if is_last and side[-1:] == ("",) else side for side in (hunk.old, new[at]))
        first = diff.start_line + hunk.start
        removed = [DiffRow("removed", line.removesuffix(carriage), old=first + place) for place, line in enumerate(old)]
        added = [
            DiffRow("added", line.removesuffix(carriage), new=first + shift + place) for place, line in enumerate(come)
        ]
        if by_word:
            mark_words(removed, added)
        following = hunks[at + 1].start if at + 1 < len(hunks) else total - (lines[-1] == "")
        between = range(end, max(end, following))
        trail, next_lead = _shared(between, everything, is_last=at + 1 == len(hunks))
        rows = [*_same(lead, lines, diff.start_line, shift), *removed, *added]
        shift += len(new[at]) - len(hunk.old)
        rows += [*_same(trail, lines, diff.start_line, shift), *(ending if is_last else ())]
        found.append(HunkRows(first, gap, tuple(rows)))
        lead, gap = next_lead, len(between) - len(trail) - len(next_lead)
    return tuple(found)


def common_carriage(diff: DiffBlock) -> str:
    """A carriage return where all lines of both texts end with one: it says nothing then. Else the empty string."""
    ends = {line_ends(diff.before), line_ends(diff.after)} - {""}
    return "\r" if ends == {"CRLF"} else ""


def line_end_notes(diff: DiffBlock) -> tuple[DiffRow, ...]:
    """What is to be said about how all lines end."""
    old, new = line_ends(diff.before), line_ends(diff.after)
    if old and new and old != new and "mixed" not in (old, new):
        return (DiffRow("note", f"line ends change from {old} to {new}"),)
    return (DiffRow("note", "lines end in CRLF"),) if new == "CRLF" and not old else ()


def _shared(between: range, everything: bool, *, is_last: bool) -> tuple[range, range]:
    """Of the lines between two hunks, those that are shown after the first and those before the second."""
    if is_last:
        return (between if everything else between[:CONTEXT]), range(0)
    if everything or len(between) < 2 * CONTEXT + LEAST_FOLDED:
        place = max(0, len(between) - CONTEXT)
        return between[:place], between[place:]
    return between[:CONTEXT], between[-CONTEXT:]


def _same(places: range, lines: Sequence[str], start: int, shift: int) -> list[DiffRow]:
    return [DiffRow("same", lines[at], start + at, start + at + shift) for at in places]
