"""A scrolling pane whose lines are made when they are needed, and the pieces that make them."""

import sys
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from itertools import chain
from time import perf_counter

from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.diff import DiffRow, ruler_of, split_lines, unified_lines
from codeagent.tui.rendering.lines import Line, cut_end, flat, line, selected, wrap
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import PLAIN, Palette, StyleName, palette_of

Piece = Callable[[int, Palette], Iterator[Line]]
"""Yields the lines of some content for a width in cells."""
SPLIT_FROM = 100
"""Cells from which on two columns fit."""
_ROWS = 40
"""Rows of a diff drawn in one go, unless some belong together."""
_MOST = 500
"""Rows drawn in one go at most, even if old and new lines belong together."""
_CHANGED = ("added", "removed")
_SLICE = 0.008
"""Seconds of work before pending keys are handled."""
_PAUSE = 0.004
_NEWS = 0.2
"""Seconds between two reports of lines made off screen, as each makes the screen lay itself out
again."""
_WIDTHS = 3
"""How many widths have their lines kept."""


@dataclass(eq=False)
class _Laid:
    """The lines made so far for one width."""

    rest: Iterator[Line]
    lines: list[Line] = field(default_factory=list)
    complete: bool = False
    widest: int = 0
    """The width of the widest line, in cells."""

    def reach(self, count: int, deadline: float = float("inf")) -> None:
        """Make lines until there are `count`, all are made, or the deadline has passed."""
        while not self.complete and len(self.lines) < count and perf_counter() < deadline:
            made = next(self.rest, None)
            if made is None:
                self.complete = True
            else:
                self.lines.append(made)
                self.widest = max(self.widest, made.strip.cell_length)


class Pane(ScrollView):
    """Something long to read. It never has the focus: its page handles the keys."""

    can_focus = False

    def turn(self, key: str) -> bool:
        """Scroll by a key: up or k, down or j, left, right, pageup, pagedown, home, end; False for
        any other."""
        page = max(1, self.scrollable_content_region.height - 1)
        x, y = self.scroll_offset
        places = {
            "up": (y - 1, x),
            "k": (y - 1, x),
            "down": (y + 1, x),
            "j": (y + 1, x),
            "pageup": (y - page, x),
            "pagedown": (y + page, x),
            "home": (0, 0),
            "end": (self.max_scroll_y, x),
            "left": (y, x - 8),
            "right": (y, x + 8),
        }
        if key not in places:
            return False
        self.go_to(*places[key])
        return True

    def go_to(self, row: int, column: int = 0) -> None:
        """Scroll `row` to the top and `column` to the left, or as far as possible."""
        x, y = min(column, self.max_scroll_x), min(row, self.max_scroll_y)
        self.scroll_to(max(0, x), max(0, y), animate=False)

    @abstractmethod
    def everything(self) -> str:
        """Return all of it, as text for the clipboard."""

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


class LinePane(Pane):
    """Shows pieces one below the other. Lines on screen are made at once, the rest in short slices.

    Text can be selected; a copy leaves out gutters and the breaks of wrapped lines.
    """

    DEFAULT_CSS = """
    LinePane {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
    }
    """

    class Moved(Message):
        """Other lines are on screen now, or more lines are known."""

        @property
        def control(self) -> "LinePane":
            sender = self._sender
            assert isinstance(sender, LinePane)
            return sender

    def __init__(self) -> None:
        super().__init__()
        self._pieces: tuple[Piece, ...] = ()
        self._laid: OrderedDict[int, _Laid] = OrderedDict()
        self._palette: Palette | None = None
        self.layout_width = 0
        """The current width of a line, in cells; 0 before the first layout."""
        self._timer: Timer | None = None
        self._to_end = False
        self._published = 0.0
        self.reserve = 0
        """Rows that other widgets need if the height is auto: together they take at most half of
        the screen."""

    def show(self, pieces: Sequence[Piece]) -> None:
        """Replace the content, and scroll to its beginning."""
        self._pieces = tuple(pieces)
        self._laid.clear()
        self._to_end = False
        self.scroll_to(y=0, animate=False)
        self._lay()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        enough = max(0, viewport.height // 2 - self.reserve)
        laid = self._at(width - self.styles.scrollbar_size_vertical)
        laid.reach(enough)
        return min(len(laid.lines), enough)

    @property
    def lines(self) -> Sequence[Line]:
        """The lines made so far for the current width."""
        return self._laid[self.layout_width].lines if self.layout_width in self._laid else ()

    @property
    def complete(self) -> bool:
        """Whether all lines of the current width are made."""
        return self.layout_width in self._laid and self._laid[self.layout_width].complete

    @property
    def widest(self) -> int:
        """Cells of the widest line made so far; greater than the width if a line had to be cut."""
        return self._laid[self.layout_width].widest if self.layout_width in self._laid else 0

    @property
    def below(self) -> int:
        """How many rows are known to be below the screen."""
        return max(
            0, len(self.lines) - self.scroll_offset.y - self.scrollable_content_region.height
        )

    @property
    def pages(self) -> tuple[int, int]:
        """The page on screen, from 1, and how many are known; consecutive pages share a row."""
        height = max(1, self.scrollable_content_region.height)
        step = max(1, height - 1)
        count = 1 + max(0, -(-(len(self.lines) - height) // step))
        return min(count, 1 + -(-self.scroll_offset.y // step)), count

    @property
    def at_end(self) -> bool:
        """Whether the last line is on screen, or will be once it is painted."""
        return self.complete and self.below == 0 and self.scrollable_content_region.height > 0

    def turn(self, key: str) -> bool:
        if key == "end":
            self._to_end = not self.complete
        return super().turn(key)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda theme: self._lay())

    def on_resize(self, event: Resize) -> None:
        self._lay()
        # The scroll bar was based on the rows of the previous width, and would stay even if the new
        # rows fit.
        self.call_after_refresh(self._refresh_scrollbars)

    def on_unmount(self) -> None:
        self._stop()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._lay()

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        if self.layout_width < 1:
            return Strip.blank(width, style)
        row = y + self.scroll_offset.y
        laid = self._at(self.layout_width)
        laid.reach(row + 1)
        if row >= len(laid.lines):
            return Strip.blank(width, style)
        found = laid.lines[row]
        found = replace(found, strip=_selectable(found, row))
        found = selected(found, self.text_selection, row, palette_of(self).marks.selection)
        return found.strip.adjust_cell_length(width, style).apply_style(style)

    def everything(self) -> str:
        """Return all of it as text for the clipboard; missing lines are made for it."""
        self._at(self.layout_width).reach(sys.maxsize)
        return self.get_selection(Selection(None, None))[0]

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        first = 0 if selection.start is None else selection.start.y
        last = len(self.lines) - 1 if selection.end is None else selection.end.y
        out = ""
        for row, found in enumerate(self.lines[first : last + 1], first):
            if row > first:
                out += "\n" if found.joins is None else found.joins
            begin, end = selection.get_span(row) or (0, -1)
            out += found.text[begin:] if end == -1 else found.text[begin:end]
        return out, "\n"

    def _lay(self) -> None:
        """Make the lines on screen now, and start on the rest."""
        self.layout_width = self.scrollable_content_region.width
        if self.layout_width < 1 or not self.is_attached:
            return
        laid = self._at(self.layout_width)
        laid.reach(self.scroll_offset.y + 2 * self.scrollable_content_region.height)
        self._publish(laid)
        if not laid.complete and self._timer is None:
            self._timer = self.set_interval(_PAUSE, self._more)

    def _more(self) -> None:
        laid = self._at(self.layout_width)
        deadline = perf_counter() + _SLICE
        while not laid.complete and perf_counter() < deadline:
            laid.reach(len(laid.lines) + 16, deadline)
        if laid.complete:
            self._stop()
        if laid.complete or deadline > self._published + _NEWS:
            self._publish(laid)
        if laid.complete and self._to_end:
            self._to_end = False
            self.go_to(len(laid.lines))

    def _publish(self, laid: _Laid) -> None:
        self._published = perf_counter()
        size = Size(self.layout_width, len(laid.lines))
        if size != self.virtual_size:
            self.virtual_size = size
        self.refresh()
        self.post_message(self.Moved())

    def _at(self, width: int) -> _Laid:
        palette = palette_of(self)
        if palette is not self._palette and palette != self._palette:
            self._palette = palette
            self._laid.clear()
        if width not in self._laid:
            made = (piece(max(1, width), palette) for piece in self._pieces)
            self._laid[width] = _Laid(chain.from_iterable(made))
            while len(self._laid) > _WIDTHS:
                self._laid.popitem(last=False)
        self._laid.move_to_end(width)
        return self._laid[width]

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


def _selectable(line: Line, row: int) -> Strip:
    """Return the strip with the offsets of its text, which a selection needs."""
    strip = line.strip
    if not line.start:
        return strip.apply_offsets(0, row)
    return Strip.join([strip.crop(0, line.start), strip.crop(line.start).apply_offsets(0, row)])


def marked_piece(text: str, style: StyleName, *, lead: str = "") -> Piece:
    """Return a piece for a whole text, in the palette's style of that name; `marked_lines` points
    out odd characters.

    `lead` comes before the first line, and is not copied.
    """
    indent = cell_len(lead)

    def make(width: int, palette: Palette) -> Iterator[Line]:
        plain, wanted = {None, PLAIN, palette.text}, palette.named(style)
        for row, found in enumerate(marked_lines(text, max(1, width - indent), palette)):
            front = (Segment(" " * indent if row else lead, wanted),) if lead else ()
            segments = (
                Segment(part, wanted if own in plain else own) for part, own, _ in found.strip
            )
            yield replace(found, strip=Strip([*front, *segments]), start=found.start + indent)

    return make


def markdown_piece(text: str) -> Piece:
    """Return a piece for a text in Markdown; control characters in it are only drawn."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        from codeagent.tui.rendering.markdown import render_markdown  # loads a parser

        yield from render_markdown(text, width, palette)

    return make


def wrapped_piece(text: str, style: StyleName = "text") -> Piece:
    """Return a piece for a text of codeagent's own, wrapped between words, in the palette's style
    of that name."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        for row in wrap([(text, palette.named(style))], width):
            yield line(row.parts, joins=row.joins)

    return make


def cut_piece(text: str, style: StyleName) -> Piece:
    """Return a piece for one line, cut off at the width, in the palette's style of that name."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        yield line([(cut_end(flat(text), width), palette.named(style))])

    return make


def blank(width: int, palette: Palette) -> Iterator[Line]:
    """Yield one empty line; a piece."""
    yield line([])


def diff_piece(rows: Sequence[DiffRow], path: str, *, split: bool) -> Piece:
    """Return a piece for the rows of a diff; if `split` and there is room, old and new are side by
    side."""
    ruler = ruler_of(rows)

    def make(width: int, palette: Palette) -> Iterator[Line]:
        draw = split_lines if split and width >= SPLIT_FROM else unified_lines
        for chunk in chunks(rows):
            yield from draw((ruler, *chunk), width, palette, path)[1:]

    return make


def chunks(rows: Sequence[DiffRow]) -> Iterator[tuple[DiffRow, ...]]:
    """Yield all rows in order, in chunks that end before gaps or between rows that need not be side
    by side."""
    first, pairs = 0, False
    for at, row in enumerate(rows):
        size = at - first
        if size and (
            row.kind == "gap"
            or size >= _MOST
            or (size >= _ROWS and not (pairs and row.kind in _CHANGED))
        ):
            yield tuple(rows[first:at])
            first = at
        pairs = row.kind == "removed" or (pairs and row.kind == "added")
    if first < len(rows):
        yield tuple(rows[first:])
