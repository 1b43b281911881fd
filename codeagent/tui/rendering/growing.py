"""Draws text that is still being written: finished parts are drawn once, and only the end is drawn
again."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from rich.style import Style

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.code import Highlighter, StyledLine, highlight
from codeagent.tui.rendering.lines import NARROWEST, Line, Row, draw, paragraph
from codeagent.tui.rendering.markdown import (
    BLANK,
    CodeFrame,
    extended,
    language_of,
    measure,
    render_block,
)
from codeagent.tui.rendering.markdown_parser import (
    ParsedBlock,
    blocks_of,
    inline_parts,
    normalized,
    piece_end,
    piece_of,
    pieces_of,
    stays,
)
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.rendering.table import TableDrawing

if TYPE_CHECKING:
    from markdown_it.token import Token

AT_ONCE = 100
"""Lines of a code block that are coloured while it grows; in longer blocks the rest waits for
`work`."""
_CUT = "x"
"""Replaces the part of a paragraph that is already drawn, so that the rest is parsed as its
continuation."""
_DELIMITER = re.compile(r"[ \t]*[-:|][-:| \t]*")


@dataclass
class _Fence:
    """A code block that is not closed yet: its lines are drawn as they arrive."""

    language: str
    marker: str
    first: int
    """The index in `lines` of its first row of code."""
    code: list[str] = field(default_factory=list)

    def closes(self, line: str) -> bool:
        """Whether a line is only a marker, at least as long as the opening one."""
        mark = line.strip(" \t")
        indent = len(line) - len(line.lstrip(" "))
        return (
            indent < 4 and line[indent:].startswith(self.marker) and not mark.strip(self.marker[0])
        )


@dataclass
class _OpenTable:
    """A table that is not closed yet: each row is parsed once, together with the first two lines of
    the table."""

    head: Sequence[str]
    first: int
    """The index in `lines` of its first row."""
    drawing: TableDrawing


@dataclass
class _Colouring:
    """A closed code block whose plain rows are replaced by coloured ones step by step."""

    fence: _Fence
    at: int
    """The index in `lines` of the next row that is still plain."""
    highlighter: Highlighter
    done: int = 0


class GrowingMarkdown:
    """Renders Markdown that arrives in pieces cut anywhere. Once closed, its lines equal those of
    `render_markdown`.

    It draws when `lines` is read, so the cost depends on how often that is. A long code block is
    plain until `work` colours it, which does not change the number of lines.
    """

    def __init__(self, width: int, palette: Palette) -> None:
        """`width` in cells."""
        self._width = max(width, NARROWEST)
        self._palette = palette
        self._frame = CodeFrame.at(self._width, palette)
        self._lines: list[Line] = []
        self._frozen = 0
        self._new: list[str] = []
        self._return = ""
        self._dirty = False
        self._closed = False
        self._source = ""
        self._gap = True
        self._fence: _Fence | None = None
        self._flow: Row | None = None
        self._table: _OpenTable | None = None
        self._colouring: deque[_Colouring] = deque()

    def append(self, text: str) -> None:
        """Append a piece; costs nothing until `lines` is read."""
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        self._new.append(normalized(text.removesuffix("\r")))
        self._dirty = True

    def close(self) -> None:
        """End the text."""
        self._new.append("\n" if self._return else "")
        self._return = ""
        self._closed = True
        self._dirty = True

    @property
    def lines(self) -> Sequence[Line]:
        """All lines so far: always the same list, updated when it is read."""
        if self._dirty:
            self._dirty = False
            self._advance()
        return self._lines

    @property
    def stable(self) -> int:
        """The index before which lines never change again, in text or colours."""
        unsure = [self._frozen]
        if (growing := self._fence or self._table) is not None:
            unsure.append(growing.first)
        if self._colouring:
            unsure.append(self._colouring[0].at)
        return min(unsure)

    @property
    def needs_work(self) -> bool:
        """Whether code is waiting for its colours."""
        return bool(self._colouring)

    def work(self, milliseconds: float) -> bool:
        """Colour code for about that long; return whether more is left."""
        if self._colouring:
            job = self._colouring[0]
            more = job.highlighter.work(milliseconds)
            for line in job.highlighter.lines[job.done :]:
                rows = self._code_rows(job.fence, line, job.at)
                self._lines[job.at : job.at + len(rows)] = rows
                job.at += len(rows)
                job.done += 1
            if not more:
                self._colouring.popleft()
        return self.needs_work

    def _advance(self) -> None:
        self._source += "".join(self._new)
        self._new.clear()
        del self._lines[self._frozen :]
        while self._fence is None or self._read_fence(self._fence):
            blocks = blocks_of(self._source, continued=self._flow is not None)
            source = self._source.split("\n")
            last = _first_open(blocks, source)
            for block in blocks[:last]:
                self._draw(block, source, final=True)
            if last:
                self._freeze("\n".join(source[blocks[last].start :]), gap=blocks[last].gap)
                continue
            if blocks and (
                self._open_fence(blocks[0], source) or self._open_table(blocks[0], source)
            ):
                continue
            if len(blocks) == 1 and blocks[0].tokens[0].type == "paragraph_open":
                self._freeze_rows(blocks[0].tokens[1].content)
                blocks = blocks_of(self._source, continued=self._flow is not None)
                source = self._source.split("\n")
            for block in blocks:
                self._draw(block, source, final=self._closed)
            break
        if self._closed:
            self._freeze("", gap=True)

    def _freeze(self, rest: str, *, gap: bool) -> None:
        """Keep what is drawn as final; `rest` of the source comes after it."""
        self._frozen = len(self._lines)
        self._source = rest
        self._gap = gap
        self._flow = None
        self._table = None

    def _draw(self, block: ParsedBlock, source: Sequence[str], *, final: bool) -> None:
        if self._flow is not None and block.start == 0:
            rows = [self._flow]
            for joint, piece in pieces_of(block.tokens[1].content.removeprefix(_CUT)):
                rows = self._extended(rows, joint, piece)
            self._lines += map(draw, rows)
            return
        if self._table is not None and block.start == 0:
            self._draw_rows(self._table, block, source, final=final)
            return
        self._begin(block.gap if block.start else self._gap)
        token = block.tokens[0]
        if token.type != "fence" or token.content.count("\n") <= AT_ONCE:
            self._lines += render_block(block, source, self._width, self._palette)
            return
        fence = self._fence_of(token)
        fence.code = token.content.removesuffix("\n").split("\n")
        self._draw_plain(fence, fence.code)
        if final:
            self._colour_later(fence)

    def _begin(self, gap: bool) -> None:
        if gap and self._lines:
            self._lines.append(BLANK)

    def _extended(self, rows: list[Row], joint: str, piece: str) -> list[Row]:
        return extended(
            rows,
            joint,
            inline_parts(piece, self._palette, self._palette.text),
            measure(self._width),
        )

    def _freeze_rows(self, text: str) -> None:
        """Freeze the rows of a paragraph that later text cannot change: all but the last of its
        finished pieces."""
        lead = len(self._source) - len(self._source.lstrip())
        if self._flow is not None:
            text, lead = text.removeprefix(_CUT), 1
        at, rows = 0, [] if self._flow is None else [self._flow]
        while (end := piece_end(text, at)) is not None and stays(text, at, end):
            rows = self._extended(rows, *piece_of(text[at:end]))
            at = end
        if not at:
            return
        if self._flow is None:
            self._begin(self._gap)
        self._lines += map(draw, rows[:-1])
        self._freeze(_CUT + self._source[lead + at :], gap=False)
        self._flow = rows[-1]

    def _open_fence(self, block: ParsedBlock, source: Sequence[str]) -> bool:
        """Begin to read a code block line by line, if it is one and its first line is complete."""
        token = block.tokens[0]
        opening = source[block.start]
        if (
            token.type != "fence"
            or block.start + 1 >= len(source)
            or "|" in opening
            or opening[0] in " \t"
        ):
            return False
        self._begin(self._gap)
        self._fence = self._fence_of(token)
        self._freeze("\n".join(source[block.start + 1 :]), gap=True)
        return True

    def _open_table(self, block: ParsedBlock, source: Sequence[str]) -> bool:
        """Begin to read a table row by row, if it is one and its first two lines are complete."""
        if (
            self._table is not None
            or block.tokens[0].type != "table_open"
            or block.start + 2 >= len(source)
        ):
            return False
        self._begin(self._gap)
        self._freeze("\n".join(source[block.start :]), gap=True)
        head = source[block.start : block.start + 2]
        self._table = _OpenTable(head, len(self._lines), TableDrawing(self._width, self._palette))
        return True

    def _draw_rows(
        self, table: _OpenTable, block: ParsedBlock, source: Sequence[str], *, final: bool
    ) -> None:
        """Draw new rows of a table; complete rows are not parsed again."""
        head = len(table.head)
        complete = (block.end if final else min(block.end, len(source) - 1)) - head
        rest = table.drawing.add(block.tokens, complete)
        self._lines[table.first :] = table.drawing.lines
        self._frozen = len(self._lines)
        self._source = "\n".join([*table.head, *source[head + complete :]])
        self._lines += rest

    def _fence_of(self, token: "Token") -> _Fence:
        """Draw the row above a code block."""
        language = language_of(token.info)
        if language:
            self._lines.append(self._frame.name(language, self._palette))
        return _Fence(language, token.markup, len(self._lines))

    def _read_fence(self, fence: _Fence) -> bool:
        """Draw new lines of code; return whether the block is closed."""
        *complete, partial = self._source.split("\n")
        if self._closed and partial.strip(" \t"):
            complete, partial = [*complete, partial], ""
        end = next((number for number, line in enumerate(complete) if fence.closes(line)), None)
        code = complete if end is None else complete[:end]
        fence.code += code
        if end is None and not self._closed:
            if code and len(fence.code) <= AT_ONCE:
                self._draw_coloured(fence)
            else:
                self._draw_plain(fence, code)
            self._freeze(partial, gap=True)
            if partial.strip(" \t").strip(fence.marker[0]):  # it cannot become the end of the block
                self._draw_plain(fence, [partial])
            return False
        self._fence = None
        if len(fence.code) <= AT_ONCE:
            self._draw_coloured(fence)
        else:
            self._draw_plain(fence, code)
            self._colour_later(fence)
        self._freeze("" if end is None else "\n".join([*complete[end + 1 :], partial]), gap=True)
        return True

    def _colour_later(self, fence: _Fence) -> None:
        highlighter = Highlighter("\n".join(fence.code), fence.language, self._palette.code)
        self._colouring.append(_Colouring(fence, fence.first, highlighter))

    def _draw_coloured(self, fence: _Fence) -> None:
        del self._lines[fence.first :]
        for line in highlight("\n".join(fence.code), fence.language, self._palette.code):
            self._lines += self._code_rows(fence, line, len(self._lines))

    def _draw_plain(self, fence: _Fence, code: Sequence[str]) -> None:
        for line in code:
            self._lines += self._code_rows(
                fence, [(line, self._palette.code.text)], len(self._lines)
            )

    def _code_rows(self, fence: _Fence, line: StyledLine, at: int) -> list[Line]:
        """Return the rows of a line of code, the first of which has that index."""
        return self._frame.draw(line, under_name=bool(fence.language) and at == fence.first)


class GrowingText:
    """Renders plain text that arrives in pieces; its lines equal those of `paragraph`. Ended lines
    are drawn once."""

    def __init__(self, width: int, style: Style, first: str) -> None:
        """`first` is as for `paragraph`, but only blanks."""
        self._width = width
        self._style = style
        self._first = first
        self._done: list[Line] = []
        self._open = ""
        self.length = 0
        """The number of characters so far."""

    def append(self, text: str) -> None:
        self.length += len(text)
        *ended, self._open = (self._open + text).split("\n")
        for line in ended:
            self._done += self._rows(line)

    @property
    def lines(self) -> list[Line]:
        return [*self._done, *self._rows(self._open)]

    def _rows(self, text: str) -> list[Line]:
        return paragraph(text, self._width, self._style, first=self._first)


def _first_open(blocks: Sequence[ParsedBlock], source: Sequence[str]) -> int:
    """Return the index of the first block that later text may still change.

    The start of a block is certain once its first two lines are complete, as the second may make
    them a table.
    """
    for index in range(len(blocks) - 1, 0, -1):
        start = blocks[index].start
        item = blocks[index].tokens[0].type == "list_item_open"
        if start + 2 < len(source) and not (item and _DELIMITER.fullmatch(source[start + 1])):
            return index
    return 0
