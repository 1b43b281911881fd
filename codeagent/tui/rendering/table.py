"""Draws Markdown tables fitted to a width: cells wrap, and if even that does not fit, each row
becomes a list."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.lines import NARROWEST, Line, Row, Styled, cells, draw, segment, wrap
from codeagent.tui.rendering.markdown_parser import inline_parts
from codeagent.tui.rendering.palette import Palette

if TYPE_CHECKING:
    from markdown_it.token import Token

_BETWEEN = " │ "


def table_lines(tokens: "Sequence[Token]", width: int, palette: Palette) -> list[Line]:
    """Return the rows of a table in at most `width` cells; rows in which no cell wraps are copied
    as Markdown."""
    table = TableDrawing(width, palette)
    table.add(tokens, None)
    return table.lines


class TableDrawing:
    """A table that may still grow: rows are drawn once, unless a column changes its width."""

    def __init__(self, width: int, palette: Palette) -> None:
        """`width` in cells."""
        self.lines: list[Line] = []
        """The lines of the complete rows."""
        self._width = width
        self._palette = palette
        self._rows: list[list[Styled]] = []
        self._aligned: list[str] = []
        self._natural: list[int] = []
        self._columns: list[int] | None = None

    def add(self, tokens: "Sequence[Token]", complete: int | None) -> list[Line]:
        """Add the first `complete` rows below the heading, which never changes; None adds all.

        Returns the lines of the remaining rows.
        """
        (heading, *rows), self._aligned = _read(tokens, self._palette)
        if not self._rows:
            self._rows = [heading]
            self._natural = [_width(cell) for cell in heading]
        known, added, rest = len(self._rows), rows[:complete], rows[len(rows[:complete]) :]
        self._natural = _widest(self._natural, added)
        columns = _fitted(
            _widest(self._natural, rest), self._width - len(_BETWEEN) * (len(heading) - 1)
        )
        self._rows += added
        if known == 1 or columns != self._columns:
            self._columns = columns
            self.lines = list(self._drawn(self._rows, 0))
        else:
            self.lines += self._drawn(added, known)
        return list(self._drawn(rest, len(self._rows)))

    def _drawn(self, rows: Sequence[list[Styled]], first: int) -> Iterator[Line]:
        """Draw rows, the first of which has that number; the heading is number 0."""
        columns, palette = self._columns, self._palette
        if columns is None:
            yield from self._listed(rows, first)
            return
        for number, row in enumerate(rows, first):
            yield from _row(row, columns, self._aligned, palette)
            if number == 0:
                between = "─┼─".join("─" * column for column in columns)
                yield Line(
                    Strip([segment(between, palette.rule)]),
                    between.replace("─", "-").replace("┼", "|"),
                )

    def _listed(self, rows: Sequence[list[Styled]], first: int) -> Iterator[Line]:
        """As `_drawn`, with each row as a list of heading and cell; if there are no rows yet, the
        heading."""
        heading, palette = self._rows[0], self._palette
        for number, row in enumerate(rows, first):
            if number > 1:
                yield Line(Strip([segment("─" * min(self._width, NARROWEST), palette.rule)]), "---")
            for name, cell in zip(heading, row, strict=True) if number else ():
                for part in wrap([*name, (": ", palette.muted), *cell], self._width):
                    yield draw(part)
        if first == 0 and len(rows) == 1:
            yield from (draw(part) for name in heading for part in wrap(name, self._width))


def _widest(widths: list[int], rows: Sequence[list[Styled]]) -> list[int]:
    """Return the width of each column once it holds these rows as well."""
    return [
        max(width, *(_width(row[at]) for row in rows)) if rows else width
        for at, width in enumerate(widths)
    ]


def _read(tokens: "Sequence[Token]", palette: Palette) -> tuple[list[list[Styled]], list[str]]:
    """Return the rows, heading first and all with the same number of cells, and the alignment of
    each column."""
    rows: list[list[Styled]] = []
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


def _width(cell: Styled) -> int:
    return cells(visible("".join(text for text, _ in cell)))


def _fitted(natural: list[int], room: int) -> list[int] | None:
    """Narrow the widest columns until all fit, and return the widths; None if there is too little
    room."""
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


def _row(
    row: list[Styled], columns: list[int], aligned: list[str], palette: Palette
) -> Iterator[Line]:
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
