"""Renders Markdown as lines: plain, left aligned, never too wide, and copied as Markdown."""

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.code import StyledLine, highlight
from codeagent.tui.rendering.lines import NARROWEST, Line, Parts, Row, draw, segment, wrap
from codeagent.tui.rendering.markdown_parser import (
    ParsedBlock,
    blank,
    blocks_of,
    inline_parts,
    is_too_deep,
    normalized,
    piece_end,
    pieces_of,
)
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.rendering.table import table_lines

if TYPE_CHECKING:
    from markdown_it.token import Token

BLANK = Line(Strip([]))
_SAMPLE = "# a\n\n- b `c`\n\n| d |\n| - |\n| e |\n\n```python\nf = 1\n```\n"
_BAR = "▎ "
_GUTTER = "│ "
_MEASURE = 120
"""Cells that a row of running text takes at most."""


@dataclass(slots=True)
class Level:
    """What precedes every row of a nested block: a quote's bar, or a list's indent."""

    drawn: str
    style: Style
    marker: str = ""
    """Drawn instead before the first row; empty once it was drawn."""
    copied: bool = False


def warm_up() -> None:
    """Load libraries and compile a lexer, so that the first answer need not wait for them.

    Call it in a thread, once there is something on screen.
    """
    render_markdown(_SAMPLE, 80, Palette())
    gc.freeze()  # loaded modules stay: a full garbage collection, which stops everything, need not visit them


def render_markdown(text: str, width: int, palette: Palette) -> list[Line]:
    """Return the lines of a text at a width in cells (at least `NARROWEST`)."""
    source = normalized(text)
    lines: list[Line] = []
    rows = source.split("\n")
    for block in blocks_of(source):
        if lines and block.gap:
            lines.append(BLANK)
        lines += render_block(block, rows, width, palette)
    return lines


def render_block(
    block: ParsedBlock, source: Sequence[str], width: int, palette: Palette
) -> list[Line]:
    """Return the lines of one block, whose text is in the lines `source`."""
    drawing = _Drawing(source, width, palette)
    if is_too_deep(block):
        for line in source[block.start : block.end]:
            drawing.rows(wrap([(line, palette.text)], drawing.room, words=False))
    else:
        drawing.blocks(block.tokens)
    return drawing.lines


def extended(rows: list[Row], joint: str, parts: Parts, width: int) -> list[Row]:
    """Return the rows of running text extended by a piece; all but the last row stay as they
    are."""
    if not rows:
        return wrap(parts, width)
    if not parts:
        return rows
    last = rows[-1]
    more = wrap([*last.parts, (joint, None), *parts], width)
    return [*rows[:-1], Row(more[0].parts, last.joins), *more[1:]]


def measure(room: int) -> int:
    """Return how many of the cells a row of running text takes: longer rows are hard to follow."""
    return min(room, _MEASURE)


def running_rows(text: str, width: int, palette: Palette, base: Style) -> list[Row]:
    """Return running text with its inline Markdown; there is at least one row."""
    rows: list[Row] = []
    for joint, piece in pieces_of(text):
        rows = extended(rows, joint, inline_parts(piece, palette, base), width)
    return rows


@dataclass(frozen=True)
class CodeFrame:
    """How code is drawn: in `room` cells after a gutter, whose first `start` cells are not
    copied."""

    gutter: Sequence[Segment]
    start: int
    room: int

    @classmethod
    def at(cls, width: int, palette: Palette) -> "CodeFrame":
        """Return the frame for code that is not nested."""
        return _Drawing((), width, palette).code_frame()

    def name(self, language: str, palette: Palette) -> Line:
        """Return the row above the code with its language; it is not copied."""
        (first, *_) = wrap([(language, palette.muted)], self.room, words=False)
        return Line(draw(first, gutter=self.gutter).strip, "", self.start)

    def draw(self, styled: StyledLine, *, under_name: bool) -> list[Line]:
        """Draw a line of code, cut if it is too long but copied in full; the name above it is not
        part of a copy."""
        rows = wrap(list(styled), self.room, words=False)
        if under_name:
            rows[0] = Row(rows[0].parts, "")
        return [draw(row, gutter=self.gutter, start=self.start, exact=True) for row in rows]


def language_of(info: str) -> str:
    """Return the language of a fence, from the text after its opening marker."""
    words = info.split()
    return words[0].strip("{}.").lower() if words else ""


class _Drawing:
    """Draws tokens one after the other; keeps track of the nesting."""

    def __init__(self, source: Sequence[str], width: int, palette: Palette) -> None:
        self.lines: list[Line] = []
        self._source = source
        self._width = max(width, NARROWEST)
        self._palette = palette
        self._levels: list[Level] = []

    @property
    def room(self) -> int:
        """Cells for text after the levels: never less than half of the width."""
        return max(
            self._width - sum(len(level.drawn) for level in self._levels),
            self._width // 2,
            NARROWEST,
        )

    def blocks(self, tokens: "Sequence[Token]") -> None:
        """Draw consecutive blocks, with blank rows where the source has them."""
        index = 0
        while index < len(tokens):
            end = _end_of(tokens, index)
            start = (tokens[index].map or [0])[0]
            if index and start and blank(self._source[start - 1]):
                self._blank_row()
            self._block(tokens[index:end])
            index = end

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            gutter, start, copied = self._gutter(row.joins is not None)
            self.lines.append(draw(row, gutter=gutter, start=start, copied=copied))

    def _block(self, tokens: "Sequence[Token]") -> None:
        first, inner = tokens[0], tokens[1:-1]
        palette = self._palette
        match first.type:
            case "paragraph_open":
                self.rows(running_rows(inner[0].content, measure(self.room), palette, self._base()))
            case "heading_open":
                text = inner[0].content
                style = palette.heading if piece_end(text, 0) is None else palette.text
                self.rows(running_rows(text, measure(self.room), palette, style))
            case "bullet_list_open" | "ordered_list_open":
                self.blocks(inner)
            case "list_item_open":
                marker = f"{first.info}{first.markup} " if first.info else "• "
                self._within(Level(" " * len(marker), palette.accent, marker, copied=True), inner)
            case "blockquote_open":
                self._within(Level(_BAR, palette.rule), inner)
            case "fence":
                self._code(first.content, language_of(first.info))
            case "code_block":
                self._code(first.content, "")
            case "hr":
                self._rule()
            case "table_open":
                self._table(tokens)
            case _:
                self.rows(wrap([(first.content, palette.text)], self.room))

    def _within(self, level: Level, inner: "Sequence[Token]") -> None:
        self._levels.append(level)
        if inner:
            self.blocks(inner)
        else:
            self.rows([Row([])])
        self._levels.pop()

    def code_frame(self) -> CodeFrame:
        """The frame for code at the current nesting."""
        self._levels.append(Level(_GUTTER, self._palette.rule))
        gutter, start, _ = self._gutter(False)
        frame = CodeFrame(gutter, start, self.room)
        self._levels.pop()
        return frame

    def _code(self, code: str, language: str) -> None:
        frame = self.code_frame()
        if language:
            self.lines.append(frame.name(language, self._palette))
            frame = self.code_frame()
        styled = highlight(code.removesuffix("\n"), language, self._palette.code)
        for number, line in enumerate(styled):
            self.lines += frame.draw(line, under_name=bool(language) and number == 0)
            if number == 0:
                frame = self.code_frame()

    def _rule(self) -> None:
        gutter, start, copied = self._gutter(False)
        strip = Strip([*gutter, segment("─" * self.room, self._palette.rule)])
        self.lines.append(Line(strip, copied + "---", start))

    def _table(self, tokens: "Sequence[Token]") -> None:
        for row in table_lines(tokens, self.room, self._palette):
            gutter, start, copied = self._gutter(False)
            self.lines.append(
                Line(Strip([*gutter, *row.strip]), copied + row.text, start, row.joins)
            )

    def _blank_row(self) -> None:
        if not self._quoted():
            self.lines.append(BLANK)
            return
        gutter, _, _ = self._gutter(True)
        self.lines.append(Line(Strip(gutter), "", sum(len(part.text) for part in gutter)))

    def _gutter(self, continued: bool) -> tuple[list[Segment], int, str]:
        """Return what precedes a row, how many of its cells are not copied, and what is copied for
        the others."""
        parts: list[tuple[str, Style]] = []
        copied = ""
        for level in self._levels:
            parts.append((level.marker or level.drawn, level.style))
            copied = (
                copied + (level.marker or level.drawn).replace("•", "-") if level.copied else ""
            )
            if not continued:
                level.marker = ""
        over = sum(len(text) for text, _ in parts) - (self._width - self.room)
        while over > 0:
            text, style = parts[0]
            parts[0] = (text[over:], style)
            over -= len(text)
            if not parts[0][0]:
                parts.pop(0)
        gutter = [segment(text, style) for text, style in parts]
        size = sum(len(part.text) for part in gutter)
        kept = "" if continued else copied[-size:] if size else ""
        return gutter, size - len(kept), kept

    def _base(self) -> Style:
        return self._palette.prose.quote if self._quoted() else self._palette.text

    def _quoted(self) -> bool:
        return any(not level.copied for level in self._levels)


def _end_of(tokens: "Sequence[Token]", start: int) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].nesting
        if depth == 0:
            return index + 1
    return len(tokens)
