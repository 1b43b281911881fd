"""Selected text: how a row is named in a selection, and what the selected rows read."""

from textual.selection import Selection
from textual.strip import Strip

from codeagent.tui.rendering.lines import Line
from codeagent.tui.transcript.layout import BlockPlace
from codeagent.tui.transcript.sheet import Sheet

_LINES = 20
"""Bits for the row within its block."""


def encoded(place: BlockPlace) -> int:
    """A number for a row that grows downwards and stays the same when heights above it change."""
    return (place.index << _LINES) | place.line


def decoded(number: int) -> BlockPlace:
    return BlockPlace(number >> _LINES, number & ((1 << _LINES) - 1))


def selected_text(sheet: Sheet, selection: Selection) -> str:
    """What a selection reads: no gutters, wrapped rows as one line, whether they are drawn at the moment or not."""
    count = len(sheet.document.blocks)
    first = 0 if selection.start is None else decoded(selection.start.y).index
    last = count - 1 if selection.end is None else min(count - 1, decoded(selection.end.y).index)
    parts: list[str] = []
    for index in range(first, last + 1):
        lines = sheet.draw(index).lines
        above = sheet.gap(index) if lines else 0
        rows = [Line(Strip.blank(0))] * above + lines
        for number, line in enumerate(rows):
            span = selection.get_span(encoded(BlockPlace(index, number)))
            if span is None:
                continue
            start, end = max(0, span[0]), None if span[1] == -1 else max(0, span[1])
            parts += ("\n" if line.joins is None else line.joins, line.text[start:end])
    return "".join(parts[1:])
