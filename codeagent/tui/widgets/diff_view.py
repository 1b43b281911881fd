"""A change of one file: unified, or old and new beside each other where there is room."""

from collections.abc import Iterator, Sequence

from codeagent.tui.rendering.diff import DiffRow, split_lines, unified_lines
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.line_pane import Piece

SPLIT_FROM = 100
"""Cells from which on two versions fit beside each other."""
_CHUNK = 100
"""Rows drawn in one go."""


def diff_piece(rows: Sequence[DiffRow], path: str, *, split: bool) -> Piece:
    """The lines of a diff, made a few rows at a time."""
    draw = split_lines if split else unified_lines

    def make(width: int, palette: Palette) -> Iterator[Line]:
        for at in range(0, len(rows), _CHUNK):
            yield from draw(rows[at : at + _CHUNK], width, palette, path)

    return make
