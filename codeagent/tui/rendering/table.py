"""Tables of Markdown, fitted to a width: cells wrap, and if there is no room even for that, a row becomes a list."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.lines import NARROWEST, Line, Row, cells, draw, segment, wrap
from codeagent.tui.rendering.markdown_parser import inline_parts
from codeagent.tui.rendering.palette import Palette

if TYPE_CHECKING:
    from markdown_it.token import Token

_BETWEEN = " │ "
Cell = list[tuple[str, Style | None]]


def table_lines(tokens: "Sequence[Token]", width: int, palette: Palette) -> Iterator[Line]:
    """The rows of a table in at most `width` cells; copied, they are Markdown where no cell wraps."""
    rows, aligned = _read(tokens, palette)
    natural = [max(_width(row[column]) for row in rows) for column in range(len(aligned))]
    columns = _fitted(natural, width - len(_BETWEEN) * (len(natural) - 1))
    if columns is None:
        yield from _listed(rows, width, palette)
        return
    for number, row in enumerate(rows):
        yield from _row(row, columns, aligned, palette)
        if number == 0:
            between = "─┼─".join("─" * column for column in columns)
            yield Line(Strip([segment(between, palette.rule)]), between.replace("─", "-").replace("┼", "|"))


def _read(tokens: "Sequence[Token]", palette: Palette) -> tuple[list[list[Cell]], list[str]]:
    """The rows, of which the first is the heading and all have as many cells, and how each column is aligned."""
    rows: list[list[Cell]] = []
    aligned: list[str] = []
    head = True
    for token in tokens:
        match token.type:
            case "tr_open":
                rows.append([])
            case "th_open":
                aligned.append(str(token.attrs.get("style", "")).rpartition(":")[2])
            case "thead_close":
                head = False
            case "inline":
                base = palette.strong if head else palette.text
                parts = inline_parts(token.content, palette, base)
                rows[-1].append([(text.replace("\n", " "), style) for text, style in parts])
            case _:
                pass
    return rows, aligned


def _width(cell: Cell) -> int:
    return cells(visible("".join(text for text, _ in cell)))


def _fitted(natural: list[int], room: int) -> list[int] | None:
    """The columns' widths, the widest ones narrowed until all have room; None if there is too little room."""
    if room < NARROWEST * len(natural):
        return None if sum(natural) > room else natural
    widths = [max(width, 1) for width in natural]
    if sum(widths) <= room:
        return widths
    share, left = 0, room
    for number, width in enumerate(sorted(widths)):
        share = left // (len(widths) - number)
        if width > share:
            break
        left -= width
    fitted = [min(width, share) for width in widths]
    spare = room - sum(fitted)
    for index, width in enumerate(widths):
        if spare and width > fitted[index]:
            fitted[index] += 1
            spare -= 1
    return fitted


def _row(row: list[Cell], columns: list[int], aligned: list[str], palette: Palette) -> Iterator[Line]:
    wrapped = [wrap(cell, column) for cell, column in zip(row, columns, strict=True)]
    empty = Row([])
    for level in zip_longest(*wrapped, fillvalue=empty):
        segments: list[Segment] = []
        text = ""
        for index, (part, column) in enumerate(zip(level, columns, strict=True)):
            if index:
                segments.append(segment(_BETWEEN, palette.rule))
                text += " | "
            spare = column - cells("".join(piece for piece, _ in part.parts))
            before = {"right": spare, "center": spare // 2}.get(aligned[index], 0)
            after = 0 if index == len(columns) - 1 else spare - before
            line = draw(part, gutter=[Segment(" " * before)], exact=True)
            segments += [*line.strip, Segment(" " * after)]
            text += " " * before + line.text + " " * after
        yield Line(Strip(segments), text.rstrip())


def _listed(table: Sequence[list[Cell]], width: int, palette: Palette) -> Iterator[Line]:
    """Every row as its headings with what belongs to them."""
    heading, *rows = table
    for number, row in enumerate(rows or [heading]):
        if number:
            yield Line(Strip([segment("─" * min(width, NARROWEST), palette.rule)]), "---")
        for name, cell in zip(heading, row, strict=True):
            parts = [*name, (": ", palette.muted), *cell] if rows else cell
            for part in wrap(parts, width):
                yield draw(part)
