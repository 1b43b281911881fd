"""Pieces that a pane of lines is made of: a text, a blank line, a diff a few rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.rendering.diff import DiffRow, split_lines, unified_lines
from codeagent.tui.rendering.lines import Line, line, wrap
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import PLAIN, Palette

SPLIT_FROM = 100
"""Cells from which on two versions fit beside each other."""
_ROWS = 40
"""Rows drawn in one go, where nothing keeps them together."""
_MOST = 500
"""Rows drawn in one go, though what goes stands beside what comes."""
_CHANGED = ("added", "removed")


def marked_piece(text: str, style: str, *, lead: str = "") -> Piece:
    """All of a text, in the palette's style of that name but for what `marked_lines` points out.

    `lead` stands in front of its first line, and is not copied.
    """
    indent = cell_len(lead)

    def make(width: int, palette: Palette) -> Iterator[Line]:
        plain, wanted = {None, PLAIN, palette.text}, getattr(palette, style)
        for row, found in enumerate(marked_lines(text, max(1, width - indent), palette)):
            front = (Segment(" " * indent if row else lead, wanted),) if lead else ()
            segments = (Segment(part, wanted if own in plain else own) for part, own, _ in found.strip)
            yield replace(found, strip=Strip([*front, *segments]), start=found.start + indent)

    return make


def wrapped_piece(text: str, style: str = "text") -> Piece:
    """A text of codeagent's own, wrapped between words, in the palette's style of that name."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        for row in wrap([(text, getattr(palette, style))], width):
            yield line(row.parts, joins=row.joins)

    return make


def blank(width: int, palette: Palette) -> Iterator[Line]:
    """A piece of one empty line."""
    yield line([])


def diff_piece(rows: Sequence[DiffRow], path: str, *, split: bool) -> Piece:
    """The rows of a diff; `split`: old and new beside each other where there is room for it, else below each other."""
    highest = max((number for row in rows for number in (row.old, row.new) if number is not None), default=0)
    # The gutter is as wide as the highest number drawn: this row makes it the same for all chunks, and is left out.
    ruler = DiffRow("gap", "", new=highest)

    def make(width: int, palette: Palette) -> Iterator[Line]:
        draw = split_lines if split and width >= SPLIT_FROM else unified_lines
        for chunk in chunks(rows):
            yield from draw((ruler, *chunk), width, palette, path)[1:]

    return make


def chunks(rows: Sequence[DiffRow]) -> Iterator[tuple[DiffRow, ...]]:
    """All rows in their order, cut before gaps and elsewhere only where split rows need not stand together."""
    first, pairs = 0, False
    for at, row in enumerate(rows):
        size = at - first
        if size and (row.kind == "gap" or size >= _MOST or (size >= _ROWS and not (pairs and row.kind in _CHANGED))):
            yield tuple(rows[first:at])
            first = at
        pairs = row.kind == "removed" or (pairs and row.kind == "added")
    if first < len(rows):
        yield tuple(rows[first:])
