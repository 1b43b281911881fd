"""The changes between two texts as rows, drawn in one column or side by side."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby, pairwise, zip_longest
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.core.display import matching
from codeagent.tui.rendering.code import StyledLine, highlight
from codeagent.tui.rendering.lines import NARROWEST, Line, Row, Styled, segment, wrap
from codeagent.tui.rendering.palette import Palette

LINES_BY_WORD = 5_000
"""Lines of both texts together up to which words within lines are compared."""
LEAST_FOLDED = 5
"""The fewest rows worth leaving out, as one row in their place gives their number."""
_PAIRS = 200
_COLOURED = 1_000
"""Rows that are highlighted as code at most: more would block the screen."""
_DIGITS = 4
_BETWEEN = " │ "
_NARROWEST_HALF = 2 * NARROWEST
_WORD = re.compile(r"\w+|[ \t]+|.", re.DOTALL)
_WORDS = 400
_ALIKE = 0.4
_PAIRED = 400
"""Pairs of lines tried at most if it is not obvious which line became which."""
Span = tuple[int, int]
"""The first character, and the one after the last."""


@dataclass(frozen=True)
class DiffRow:
    """A line of the old or the new text, a number of omitted lines (`gap`), or a remark about the
    texts (`note`)."""

    kind: Literal["same", "added", "removed", "gap", "note"]
    text: str
    """The line without its newline, or the text of a gap or a note."""
    old: int | None = None
    """Its number in the old text."""
    new: int | None = None
    changed: tuple[Span, ...] = ()
    """The words that differ from the line it is paired with."""


def diff_rows(
    before: str, after: str, start_line: int = 1, context: int = 3
) -> tuple[DiffRow, ...]:
    """Return the changes with `context` lines around them; both texts begin at line `start_line` of
    their file.

    Words within lines are not compared if the texts have more than 5,000 lines together.
    """
    old, new = _lines_of(before, after)
    rows = list(_all(old, new, start_line))
    ending = ending_rows(before, after)
    return (
        *line_end_notes(before, after),
        *_folded(rows, context, to_the_end=bool(ending)),
        *ending,
    )


def counts(rows: Sequence[DiffRow]) -> tuple[int, int]:
    """Return the numbers of lines added and removed."""
    return sum(row.kind == "added" for row in rows), sum(row.kind == "removed" for row in rows)


def _lines_of(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines of both texts; if one of them mixes its line ends, the carriage returns are
    kept."""
    ends = (line_ends(before), line_ends(after))
    if "mixed" in ends:
        return _split(before, "\n"), _split(after, "\n")
    old, new = ("\r\n" if end == "CRLF" else "\n" for end in ends)
    return _split(before, old), _split(after, new)


def line_end_notes(before: str, after: str) -> tuple[DiffRow, ...]:
    """Return notes about the line ends of both texts, if each has only one kind."""
    old, new = line_ends(before), line_ends(after)
    if old and new and old != new and "mixed" not in (old, new):
        return (DiffRow("note", f"line ends change from {old} to {new}"),)
    return (DiffRow("note", "lines end in CRLF"),) if new == "CRLF" and not old else ()


def line_ends(text: str) -> str:
    """Return LF, CRLF or mixed; empty if there is only one line."""
    both, newlines = text.count("\r\n"), text.count("\n")
    if not newlines:
        return ""
    return "LF" if not both else "CRLF" if both == newlines else "mixed"


def _split(text: str, end: str) -> list[str]:
    lines = text.split(end)
    return lines if lines[-1] else lines[:-1]


def ending_rows(before: str, after: str) -> list[DiffRow]:
    """Return notes about a last line without a newline."""
    had, has = before.endswith("\n") or not before, after.endswith("\n") or not after
    if had and not has:
        return [
            DiffRow(
                "note", "the newline at the end is removed" if before else "no newline at the end"
            )
        ]
    if has and not had and after:
        return [DiffRow("note", "a newline is added at the end")]
    return []


def _all(old: Sequence[str], new: Sequence[str], start: int) -> Iterator[DiffRow]:
    by_word = len(old) + len(new) <= LINES_BY_WORD
    left = right = 0
    for first, begin, size in [*matching(old, new), (len(old), len(new), 0)]:
        removed = [DiffRow("removed", old[at], old=start + at) for at in range(left, first)]
        added = [DiffRow("added", new[at], new=start + at) for at in range(right, begin)]
        if by_word:
            mark_words(removed, added)
        yield from removed
        yield from added
        for at in range(size):
            yield DiffRow("same", new[begin + at], start + first + at, start + begin + at)
        left, right = first + size, begin + size


def mark_words(removed: list[DiffRow], added: list[DiffRow]) -> None:
    """Mark the words that differ between a line and its replacement, unless there are too many
    lines."""
    if max(len(removed), len(added)) > _PAIRS:
        return
    for at, to in paired([row.text for row in removed], [row.text for row in added]):
        gone, come = changed_words(removed[at].text, added[to].text)
        removed[at], added[to] = (
            replace(removed[at], changed=gone),
            replace(added[to], changed=come),
        )


def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the parts of two lines that differ; empty if the lines have little in common."""
    left, right = _WORD.findall(old), _WORD.findall(new)
    if max(len(left), len(right)) > _WORDS:
        return (), ()
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return (), ()
    blocks = matcher.get_matching_blocks()
    gone = _between(left, [(block.a, block.a + block.size) for block in blocks])
    return gone, _between(right, [(block.b, block.b + block.size) for block in blocks])


def paired(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pair old lines with the new lines that they became, in order, by the most words in common."""
    if len(old) == len(new) or len(old) * len(new) > _PAIRED:
        return list(zip(range(len(old)), range(len(new)), strict=False))
    left, right = [[Counter(_WORD.findall(line)) for line in side] for side in (old, new)]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for at in range(len(old) - 1, -1, -1):
        for to in range(len(new) - 1, -1, -1):
            together = best[at + 1][to + 1] + _in_common(left[at], right[to])
            best[at][to] = max(together, best[at + 1][to], best[at][to + 1])
    found = []
    at = to = 0
    while at < len(old) and to < len(new):
        if best[at][to] == best[at + 1][to]:
            at += 1
        elif best[at][to] == best[at][to + 1]:
            to += 1
        else:
            found.append((at, to))
            at, to = at + 1, to + 1
    return found


def _in_common(old: Counter[str], new: Counter[str]) -> float:
    whole = old.total() + new.total()
    return 2 * (old & new).total() / whole if whole else 0.0


def _between(words: Sequence[str], kept: Sequence[Span]) -> tuple[Span, ...]:
    offsets = [0]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    found: list[Span] = []
    at = 0
    for first, end in kept:
        if first > at:
            found.append((offsets[at], offsets[first]))
        at = end
    return tuple(found)


def _folded(rows: Sequence[DiffRow], context: int, *, to_the_end: bool) -> Iterator[DiffRow]:
    """Leave out rows far from any change, if there are enough of them to be worth it."""
    near = bytearray(len(rows))
    changes = [at for at, row in enumerate(rows) if row.kind != "same"]
    for at in [*changes, len(rows)] if to_the_end else changes:
        first, end = max(at - context, 0), min(at + context + 1, len(rows))
        near[first:end] = b"\1" * (end - first)
    at = 0
    for shown, run in groupby(near):
        size = sum(1 for _ in run)
        if shown or size < LEAST_FOLDED:
            yield from rows[at : at + size]
        else:
            yield DiffRow("gap", f"{size:,} unchanged lines")
        at += size


def unified_lines(
    rows: Sequence[DiffRow], width: int, palette: Palette, filename: str = ""
) -> list[Line]:
    """Draw the rows in one column. Long lines wrap; a copy has only the text of the file."""
    drawing = _Drawing(width, palette, rows)
    return [
        line
        for row, styled in _coloured(rows, filename, palette)
        for line in drawing.row(row, styled, row.old if row.kind == "removed" else row.new)
    ]


def split_lines(
    rows: Sequence[DiffRow], width: int, palette: Palette, filename: str = ""
) -> list[Line]:
    """Draw the old text on the left and the new one, which is copied, on the right; one column if
    there is no room."""
    half = (width - len(_BETWEEN)) // 2
    if half < _NARROWEST_HALF:
        return unified_lines(rows, width, palette, filename)
    drawing, whole = _Drawing(half, palette, rows), _Drawing(width, palette, rows)
    between = segment(_BETWEEN, palette.rule)
    lines: list[Line] = []
    for left, right in _sides(_coloured(rows, filename, palette)):
        if left is not None and left[0].old is None:
            lines += whole.row(*left, None)
            continue
        old = [] if left is None else drawing.row(*left, left[0].old)
        new = [] if right is None else drawing.row(*right, right[0].new)
        for before, after in zip_longest(old, new):
            strip = Strip([]) if before is None else before.strip
            strip = Strip([*strip, Segment(" " * (half - strip.cell_length)), between])
            if after is None:
                lines.append(Line(strip, "", strip.cell_length, ""))
            else:
                joined = Strip([*strip, *after.strip])
                lines.append(Line(joined, after.text, strip.cell_length + after.start, after.joins))
    return lines


def ruler_of(rows: Sequence[DiffRow]) -> DiffRow:
    """Return a row with the highest number: drawn first and left out, it gives all parts the same
    gutter."""
    return DiffRow("gap", "", new=_highest(rows))


def _highest(rows: Sequence[DiffRow]) -> int:
    return max(
        (number for row in rows for number in (row.old, row.new) if number is not None), default=0
    )


class _Drawing:
    """Draws single rows at a width, all with the same gutter."""

    def __init__(self, width: int, palette: Palette, rows: Sequence[DiffRow]) -> None:
        digits = max(len(str(_highest(rows))), _DIGITS)
        width = max(width, NARROWEST)
        room = width - max(width // 2, NARROWEST)
        self._digits = digits if digits + 3 <= room else 0
        self._gutter = digits + 3 if self._digits else 2 if room >= 2 else 0
        self._room = width - self._gutter
        self._palette = palette
        # Copies, so that marked blanks differ from text in an equal style.
        self._trailing = {
            "added": (palette.diff.added + palette.warning).copy(),
            "removed": (palette.diff.removed + palette.warning).copy(),
        }
        self._return = palette.warning.copy()

    def row(self, row: DiffRow, styled: StyledLine, number: int | None) -> list[Line]:
        """Return the lines of a row, with `number` in the gutter."""
        palette = self._palette
        if row.kind in ("gap", "note"):
            text = f"{'⋯' if row.kind == 'gap' else '!'} {row.text}"
            style = palette.muted if row.kind == "gap" else palette.warning
            return [
                self._line(each, " ", None, None, copied=False)
                for each in wrap([(text, style)], self._room)
            ]
        sign, whole = {
            "added": ("+", palette.diff.added),
            "removed": ("-", palette.diff.removed),
            "same": (" ", None),
        }[row.kind]
        found = wrap(self._parts(row, styled, whole), self._room, words=False)
        numbers = [number, *([None] * (len(found) - 1))]
        return [self._line(each, sign, at, whole) for each, at in zip(found, numbers, strict=True)]

    def _parts(self, row: DiffRow, styled: StyledLine, whole: Style | None) -> Styled:
        """Return the line's text in styles; on a changed line, trailing blanks and carriage returns
        are marked."""
        text = row.text.removesuffix("\r")
        parts: Styled = list(styled)
        if whole is not None:
            parts = [
                (part, whole if whole.bgcolor is None else whole + style) for part, style in styled
            ]
            word = (
                self._palette.diff.added_word
                if row.kind == "added"
                else self._palette.diff.removed_word
            )
            parts = _over(parts, row.changed, lambda own: word if own is None else own + word)
            blanks = (len(text.rstrip(" \t")), len(text))
            parts = _over(parts, [blanks], lambda _: self._trailing[row.kind])
        return _over(parts, [(len(text), len(row.text))], lambda _: self._return)

    def _line(
        self, row: Row, sign: str, number: int | None, whole: Style | None, *, copied: bool = True
    ) -> Line:
        palette = self._palette
        segments: list[Segment] = []
        if self._digits:
            segments.append(
                Segment(f"{'' if number is None else number:>{self._digits}} ", palette.muted)
            )
        if self._gutter:
            signed = (
                palette.success if sign == "+" else palette.error if sign == "-" else palette.muted
            )
            segments.append(Segment(f"{sign} ", signed))
        for text, style in row.parts:
            segments.append(self._drawn(text, style, whole))
        strip = Strip(segments)
        if whole is not None and whole.bgcolor is not None:
            rest = self._gutter + self._room - strip.cell_length
            strip = Strip([*segments, Segment(" " * rest, whole)])
        text = "".join(part for part, style in row.parts if style is not self._return)
        return Line(strip, text if copied else "", self._gutter, row.joins if copied else "")

    def _drawn(self, text: str, style: Style | None, whole: Style | None) -> Segment:
        if style is self._return:
            return segment("␍", style)
        if whole is None:
            return segment(text, style)
        text = text.replace("\t", "→   ")
        blank = any(style is each for each in self._trailing.values())
        return segment(text.replace(" ", "·") if blank else text, style)


def _sides(
    rows: Iterable[tuple[DiffRow, StyledLine]],
) -> Iterator[tuple[tuple[DiffRow, StyledLine] | None, tuple[DiffRow, StyledLine] | None]]:
    """Pair up the two sides, with removed lines beside those that replace them."""
    for changed, run in groupby(rows, key=lambda each: each[0].kind in ("added", "removed")):
        if not changed:
            yield from ((each, each) for each in run)
            continue
        pending: list[tuple[DiffRow, StyledLine]] = []
        for kind, part in groupby(run, key=lambda each: each[0].kind):
            if kind == "removed":
                yield from ((each, None) for each in pending)
                pending = list(part)
            else:
                yield from zip_longest(pending, part)
                pending = []
        yield from ((each, None) for each in pending)


def _coloured(
    rows: Sequence[DiffRow], filename: str, palette: Palette
) -> list[tuple[DiffRow, StyledLine]]:
    """Highlight every row in the colours of its language, the old and the new text separately."""
    colours = replace(palette.code, text=palette.text)
    language = filename if len(rows) <= _COLOURED else ""
    sides = [
        iter(highlight("\n".join(row.text for row in rows if row.kind in kinds), language, colours))
        for kinds in (("removed", "same"), ("added", "same"))
    ]
    found: list[tuple[DiffRow, StyledLine]] = []
    for row in rows:
        old = next(sides[0]) if row.kind in ("removed", "same") else []
        new = next(sides[1]) if row.kind in ("added", "same") else []
        found.append((row, new or old))
    return found


def _over(parts: Styled, spans: Sequence[Span], restyle: Callable[[Style | None], Style]) -> Styled:
    """Return the parts with another style for spans of their text."""
    spans = [span for span in spans if span[0] < span[1]]
    if not spans:
        return parts
    edges = sorted({edge for span in spans for edge in span})
    found: Styled = []
    at = 0
    for text, own in parts:
        cuts = [0, *(edge - at for edge in edges if at < edge < at + len(text)), len(text)]
        for first, end in pairwise(cuts):
            inside = any(start <= at + first < stop for start, stop in spans)
            found.append((text[first:end], restyle(own) if inside else own))
        at += len(text)
    return found
