"""The lines of a diff, made a few rows at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from codeagent.tui.rendering.diff import DiffRow, split_lines, unified_lines
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.line_pane import Piece

SPLIT_FROM = 100
"""Cells from which on two versions fit beside each other."""
_ROWS = 40
"""Rows drawn in one go, where nothing keeps them together."""
_MOST = 500
"""Rows drawn in one go, though what goes stands beside what comes."""
_CHANGED = ("added", "removed")


@dataclass(frozen=True)
class Chunk:
    """Rows that are drawn together."""

    rows: tuple[DiffRow, ...]
    begins: bool
    """The first row begins a hunk: what is before it is left out, or there is nothing."""


def diff_piece(
    rows: Sequence[DiffRow], path: str, *, split: bool, begins: Callable[[int, int], None] | None = None
) -> Piece:
    """Draws the rows; `begins` is told the width, and at which line from 0, where a hunk begins.

    `split`: old and new beside each other where there is room for it, else below each other.
    """
    highest = max((number for row in rows for number in (row.old, row.new) if number is not None), default=0)
    # The gutter is as wide as the highest number drawn: this row makes it the same for all chunks, and is left out.
    ruler = DiffRow("gap", "", new=highest)

    def make(width: int, palette: Palette) -> Iterator[Line]:
        made = 0
        draw = split_lines if split and width >= SPLIT_FROM else unified_lines
        for chunk in chunks(rows):
            if chunk.begins and begins is not None:
                begins(width, made)
            for found in draw((ruler, *chunk.rows), width, palette, path)[1:]:
                yield found
                made += 1

    return make


def chunks(rows: Sequence[DiffRow]) -> Iterator[Chunk]:
    """All rows in their order, cut before gaps and elsewhere only where split rows need not stand together."""
    first, begins, pairs = 0, True, False
    for at, row in enumerate(rows):
        size = at - first
        is_gap = row.kind == "gap"
        if size and (is_gap or size >= _MOST or (size >= _ROWS and not (pairs and row.kind in _CHANGED))):
            yield Chunk(tuple(rows[first:at]), begins)
            first, begins = at, is_gap
        pairs = row.kind == "removed" or (pairs and row.kind == "added")
    if first < len(rows):
        yield Chunk(tuple(rows[first:]), begins)
