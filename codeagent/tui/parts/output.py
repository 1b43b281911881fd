"""Long output: its rows, a search in them, and the pane that draws the rows on screen."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from rich.style import Style
from textual.events import Resize
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import visible
from codeagent.tui.parts.line_pane import Pane
from codeagent.tui.rendering.ansi import ansi_line
from codeagent.tui.rendering.lines import Line, cells, restyled, selected
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.rendering.palette import palette_of
from codeagent.tui.state import JobBoard
from codeagent.tui.transcript.spelling import counted

LONGEST = 2_000
"""Characters of one row; a longer line continues in the next."""
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


_DIM, _END = "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class OutputMatch:
    """One match."""

    row: int
    start: int
    """The first character, in the row as it is shown."""
    number: int
    """Its number, from 1."""
    total: int


class OutputText:
    """Rows of raw text, in which only colours have an effect."""

    def __init__(self, text: str | Sequence[str]) -> None:
        lines = text.split("\n") if isinstance(text, str) else list(text)
        if lines and not lines[-1]:
            lines.pop()
        if lines and max(map(len, lines)) > LONGEST:
            lines = [part for line in lines for part in _parts(line)]
        self._rows = lines

    def __len__(self) -> int:
        return len(self._rows)

    def raw(self, row: int) -> str:
        """Return a row with its colours, but without any other control sequence."""
        return _cleaned(self._rows[row])

    def plain(self, row: int) -> str:
        """Return a row as it is shown."""
        return _shown(self._rows[row])

    @cached_property
    def whole(self) -> str:
        """Return all rows as they are shown; most only lose their colours, which is done for all at
        once."""
        joined = "\n".join(self._rows)
        plain = _COLOUR.sub("", joined) if "\x1b" in joined else joined
        if _ACTS.search(plain) is not None:
            rows = zip(plain.split("\n"), self._rows, strict=True)
            plain = "\n".join(_shown(raw) if _ACTS.search(row) else row for row, raw in rows)
        # ASCII has no control sequences left, and a search for them in megabytes would be
        # noticeable.
        return (plain if plain.isascii() else visible(plain)).replace("\t", "    ")

    def find(
        self, text: str, row: int, start: int, *, backwards: bool = False
    ) -> OutputMatch | None:
        """Return the match at or after that place, or before it; wraps around. Case matters if
        `text` has capitals."""
        whole = self._searched(text)
        here = self._starts[row] + start if self._rows else 0
        if backwards:
            at = whole.rfind(text, 0, max(0, here + len(text) - 1))
            at = whole.rfind(text) if at < 0 else at
        else:
            at = whole.find(text, here)
            at = whole.find(text) if at < 0 else at
        if at < 0 or not text:
            return None
        found = bisect_right(self._starts, at) - 1
        return OutputMatch(
            found, at - self._starts[found], whole.count(text, 0, at) + 1, whole.count(text)
        )

    def spans(self, text: str, row: int) -> Iterator[tuple[int, int]]:
        """Return the matches in a row as (start, end) in characters."""
        shown = self.plain(row)
        at = _like(text, shown).find(text) if text else -1
        while at >= 0:
            yield at, at + len(text)
            at = _like(text, shown).find(text, at + len(text))

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(row) + 1 for row in self.whole.split("\n"))]

    @cached_property
    def _lowered(self) -> str:
        return _lower(self.whole)

    def _searched(self, text: str) -> str:
        return self._lowered if text == _lower(text) else self.whole


def _parts(line: str) -> Iterator[str]:
    """Split a line that is too long for a row; it loses its colours, as a colour sequence could be
    cut in two."""
    if len(line) <= LONGEST:
        yield line
        return
    plain = _COLOUR.sub("", _cleaned(line, limit=False))
    yield from (plain[at : at + LONGEST] for at in range(0, max(len(plain), 1), LONGEST))


def _cleaned(line: str, *, limit: bool = True) -> str:
    if _ACTS.search(line) is None:
        return line
    if not limit:
        return "".join(_cleaned(line[at : at + LONGEST]) for at in range(0, len(line), LONGEST))
    buffer = OutputBuffer(1, 0)
    buffer.feed(line)
    return "".join(buffer.lines())


def _shown(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    return visible(_COLOUR.sub("", _cleaned(line))).replace("\t", "    ")


def _like(text: str, shown: str) -> str:
    return _lower(shown) if text == _lower(text) else shown


def _lower(text: str) -> str:
    """Return the text in lower case and of the same length: letters whose lower case is longer stay
    as they are."""
    lowered = text.lower()
    return (
        lowered
        if len(lowered) == len(text)
        else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    )


class OutputPane(Pane):
    """Draws the rows without wrapping them: long rows scroll to the right."""

    DEFAULT_CSS = """
    OutputPane {
        height: 1fr;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
    }
    """

    def __init__(self, text: str | Sequence[str]) -> None:
        super().__init__()
        self.text = OutputText(text)
        self._query = ""
        self._found: OutputMatch | None = None

    def on_mount(self) -> None:
        self.virtual_size = Size(0, len(self.text))

    def on_resize(self, event: Resize) -> None:
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def everything(self) -> str:
        return self.text.whole

    def find(self, text: str) -> OutputMatch | None:
        """Go to the first match on screen or below; an empty text ends the search."""
        self._query = text
        self._found = (
            self.text.find(text, self.scroll_offset.y, 0) if text and len(self.text) else None
        )
        return self._show_found()

    def next(self, *, backwards: bool = False) -> OutputMatch | None:
        """Go to the next match, wrapping around, and return it; None if there is none or no
        search."""
        if self._found is None:
            return None
        start = self._found.start if backwards else self._found.start + 1
        self._found = self.text.find(self._query, self._found.row, start, backwards=backwards)
        return self._show_found()

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        x, top = self.scroll_offset
        row = top + y
        if row >= len(self.text):
            return Strip.blank(width, style)
        found = self._line(row)
        if found.strip.cell_length > self.virtual_size.width:
            self.call_next(self._widen, found.strip.cell_length)
        before = len(found.strip.crop(0, x).text)
        strip = self._marked(found, row).crop(x, x + width).apply_offsets(before, row)
        return strip.adjust_cell_length(width, style).apply_style(style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = 0 if selection.start is None else selection.start.y
        last = len(self.text) - 1 if selection.end is None else selection.end.y
        rows = []
        for row in range(first, min(last + 1, len(self.text))):
            begin, end = selection.get_span(row) or (0, -1)
            shown = self.text.plain(row)
            rows.append(shown[begin:] if end == -1 else shown[begin:end])
        return "\n".join(rows), "\n"

    def _widen(self, cells: int) -> None:
        """Widen the pane for a row that just came on screen, as measuring all rows would take too
        long."""
        if cells > self.virtual_size.width:
            self.virtual_size = Size(cells, len(self.text))

    def _line(self, row: int) -> Line:
        return ansi_line(self.text.raw(row), palette_of(self).text)

    def _marked(self, found: Line, row: int) -> Strip:
        """Return the row with matches and selection highlighted."""
        palette = palette_of(self)
        here = self._found
        for begin, end in self.text.spans(self._query, row):
            current = here is not None and (here.row, here.start) == (row, begin)
            style = (
                palette.marks.match + Style(underline=True, bold=True)
                if current
                else palette.marks.match
            )
            found = restyled(found, begin, end, style)
        return selected(found, self.text_selection, row, palette.marks.selection).strip

    def _show_found(self) -> OutputMatch | None:
        self.refresh()
        found = self._found
        if found is not None:
            self._widen(self._line(found.row).strip.cell_length)
            x, y = self.scroll_offset
            region = self.scrollable_content_region
            if not y <= found.row < y + region.height:
                y = found.row - region.height // 3
            left = cells(self.text.plain(found.row)[: found.start])
            if not x <= left < x + region.width - len(self._query):
                x = left - region.width // 3 if left >= region.width - len(self._query) else 0
            self.go_to(y, x)
        return found


class JobTail(OutputPane):
    """Shows the end of a job's output and, while it runs, its beginning."""

    def __init__(self, board: JobBoard) -> None:
        super().__init__("")
        self._board = board
        self._job_id = ""
        self._missing = 0
        self.following = True
        """Whether the end is on screen, and new output scrolls it."""

    def show(self, job_id: str) -> None:
        """Show another job from its end, or update the same job."""
        row = self._board.get(job_id)
        if row is None:
            return
        output = self._board.output(job_id)
        lines, missing = list(output.lines()), max(0, row.lines - len(output))
        if missing:
            words = f"{_DIM}… {counted(missing, 'line', 'lines')} more: o shows everything{_END}"
            lines.insert(output.gap_at or 0, words)
        fell = missing - self._missing
        self._missing = missing
        if job_id != self._job_id:
            self._job_id = job_id
            self.following = True
        self.text = OutputText(lines)
        self.virtual_size = self.virtual_size.with_height(len(self.text))
        if self.following:
            self.call_after_refresh(self._to_end)
        elif fell > 0:
            self.go_to(self.scroll_offset.y - fell, self.scroll_offset.x)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._to_end()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value >= self.max_scroll_y:
            self.following = True
        elif new_value < old_value:
            self.following = False

    def _to_end(self) -> None:
        if self.following:
            self.go_to(self.max_scroll_y, self.scroll_offset.x)
