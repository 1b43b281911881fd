"""A widget that draws the visible rows of a sheet, and keeps them in place while things change
elsewhere."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import palette_of
from codeagent.tui.transcript.document import BlockSplice, Document
from codeagent.tui.transcript.layout import BLANK, MARGIN, BlockRow
from codeagent.tui.transcript.render import runs
from codeagent.tui.transcript.sheet import Anchor, Sheet

_FIRST_FLUSH = 0.012
_FLUSH_EVERY = 1 / 30
_SLOW = 0.020
_SLOWDOWN, _SLOWEST_FLUSH = 5, 0.25
"""If drawing is slow, the pause between two drawings: so many times the duration of one, at most so
many seconds."""
_ECHO = 0.03
"""Seconds after the user typed in which nothing is drawn, so that the letter is on screen first."""
_PATIENCE = 0.1
"""Seconds without a drawing after which typing does not put it off any more."""
_WORK_MS = 8.0
"""Milliseconds spent at a time on work that is not urgent."""
_TRIES = 4
_NOTHING = Strip([], 0)


class SheetView(ScrollView):
    """Draws a document that changes all the time: rarely enough to stay cheap, and not at all while
    nothing changes.

    It follows the end while the end is in view. Otherwise the row at the top stays where it is, and
    a marker counts the blocks that are new or changed further down.
    """

    DEFAULT_CSS = """
    SheetView {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """

    def __init__(
        self,
        document: Document,
        *,
        clock: Callable[[], float] = time.time,
        typed_at: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        """`clock` gives seconds since the epoch, like the document's times.

        `typed_at` says when the user last typed, elsewhere on the screen, on the clock of
        `time.monotonic`.
        """
        super().__init__()
        self.document = document
        self._typed_at = typed_at
        self.sheet = Sheet(document, clock, palette_of(None))
        self.held_at: Anchor | None = None
        """The place that stays at the top; None while the end is followed."""
        self._clock = clock
        self._window = Size(0, 0)
        self._timer: Timer | None = None
        self._ticker: Timer | None = None
        self._earliest = 0.0
        self._drawn_at = -math.inf
        self._slow = False
        self._counting: set[int] = set()
        self._unread: set[int] = set()
        """Blocks below the view that are new or changed since the user left the end."""
        self._marker_drawn = ""
        self._placing = False
        self._to_top = False
        """The user went to the first row before the first block was loaded."""
        self._painting = False
        self._base = Style.null()

    @property
    def ticking(self) -> bool:
        """Whether counting durations are redrawn once a second."""
        return self._ticker is not None

    def on_mount(self) -> None:
        self.sheet.set_palette(palette_of(self))
        self.document.on_change = self._arm
        self.document.on_splice = self.follow
        self._arm()

    def on_unmount(self) -> None:
        self.document.on_change = lambda: None
        self.document.on_splice = lambda splice: None

    def on_resize(self) -> None:
        """Draw many resizes as one if drawing takes long."""
        self._window = self.scrollable_content_region.size
        if self._slow:
            self._arm()
        else:
            self.flush()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        old, new = round(old_value), round(new_value)
        if self._placing or old == new or not len(self.sheet.layout):
            return
        if 0 < old - new <= 2 * self._window.height:
            self._hold(self.sheet.above(self.sheet.layout.at(old), old - new))
        else:
            self.go_to_row(new)

    def go_to_row(self, row: int) -> None:
        """Scroll a row to the top of the view; if that shows the end, follow it from now on."""
        self._hold(self.sheet.layout.at(row))

    def _hold(self, place: BlockRow) -> None:
        at_end = self.sheet.layout.row(place) >= self.sheet.layout.total - self._window.height
        self.held_at = None if at_end else Anchor(place)
        self._to_top = False
        self.settle()

    def scroll_end(self, **options: Any) -> None:
        self.go_to_end()

    def scroll_home(self, **options: Any) -> None:
        """Go to the first row, and stay there while earlier blocks are inserted."""
        self.go_to_row(0)
        self._to_top = self.document.partial

    def go_to_end(self) -> None:
        self.held_at = None
        self._to_top = False
        self.settle()

    def reveal(self, index: int, row: int) -> None:
        """Scroll as far as needed to show a row of a block (not counting the gap above)."""
        height, layout = self._window.height, self.sheet.layout
        self.sheet.drawn(index)
        place = BlockRow(index, row + self.sheet.gap(index))
        # Blocks that come into view may differ from their estimated height, so the first try may
        # miss.
        for _ in range(_TRIES):
            wanted, top = layout.row(place), self.scroll_offset.y
            if top <= wanted < top + height:
                return
            self.go_to_row(max(0, wanted - height // 3))

    def place_at(self, y: int) -> BlockRow | None:
        """Return the place at a row of the view; None below the end."""
        row = self.scroll_offset.y + y
        return self.sheet.layout.at(row) if row < self.sheet.layout.total else None

    def is_marker(self, x: int, y: int) -> bool:
        """Whether that cell belongs to the marker that counts unread blocks."""
        return (
            bool(self._unread)
            and y == self._window.height - 1
            and x >= self._window.width - len(self._marker())
        )

    def margin(self, place: BlockRow, usual: Segment) -> Segment:
        """Return the margin to the left of a row."""
        return usual

    def styled(self, line: Line, place: BlockRow) -> Strip:
        """Return the strip of a row, or the line's own strip if there is nothing to add."""
        return line.strip

    def linked(self, line: Line) -> Line:
        """Return a row with what can be opened in it as links; called once for each that is
        drawn."""
        return line

    def flush(self) -> None:
        """Draw what changed, now."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        started = time.monotonic()
        changed = self.document.take_changes()
        if self._window.width and self._window.width != self.sheet.width:
            self.held_at = self.sheet.held(self.held_at)
            self.sheet.set_width(self._window.width)
        self.sheet.absorb(changed)
        self._note(changed)
        self.settle()
        if self.sheet.work(_WORK_MS):
            self._arm()
        self._drawn_at = time.monotonic()
        took = self._drawn_at - started
        self._slow = took > _SLOW
        self._earliest = started + (
            min(_SLOWDOWN * took, _SLOWEST_FLUSH) if self._slow else _FLUSH_EVERY
        )

    def follow(self, splice: BlockSplice) -> None:
        """Keep everything in its place on screen while blocks are inserted above."""
        blocks, layout = self.document.blocks, self.sheet.layout
        top, above = None if self.held_at is None else self.held_at.place, 0
        if top is not None and splice.first == top.index < splice.stop:
            # Blocks are inserted in its place: hold on to the block below.
            below = BlockRow(top.index + 1, 0)
            top, above = (
                below,
                layout.row(below) - layout.row(top) if below.index < len(layout) else 0,
            )
        self.sheet.splice(splice)
        if self._to_top:
            self.held_at = Anchor(BlockRow(0, 0))
        elif self.held_at is not None and top is not None:
            place = replace(top, index=min(splice.place(top.index), len(blocks) - 1))
            self.held_at = replace(self.held_at, place=self.sheet.above(place, above))
        added = range(splice.first, splice.first + splice.count)
        self._unread = {splice.place(key) for key in self._unread}
        self._counting = {
            splice.place(key) for key in self._counting if not splice.first <= key < splice.stop
        }
        self._counting |= {key for key in added if runs(blocks[key])}
        self.flush()

    def settle(self) -> None:
        """Draw what is in view, keep the anchor where it is, and refresh the rows of the screen
        that changed."""
        height, before = self._window.height, self.virtual_size
        if not height:
            return
        top = self.sheet.show(self.held_at, height)
        total = self.sheet.layout.total
        if top + height >= total:
            self.held_at = None
            self._unread.clear()
        self._placing = True
        size = Size(self._window.width, total)
        if size != before:
            # Not assigned, because that would lay out the whole screen again.
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)
        moved = self.scroll_offset.y != top
        self._scroll_to(y=top, force=True)
        self._placing = False
        self._refresh_damaged(top, everything=moved, to_end=total != before.height)

    def render_lines(self, crop: Region) -> list[Strip]:
        self.sheet.set_palette(palette_of(self))
        self._base = self.rich_style
        self._painting = True
        try:
            return super().render_lines(crop)
        finally:
            self._painting = False

    def render_line(self, y: int) -> Strip:
        """Return the row for the terminal; if the mouse asks for it, with the offsets that a
        selection needs."""
        place, layout = self.place_at(y), self.sheet.layout
        line = None if place is None else self.sheet.line(place)
        strip = (
            self._finished(BLANK, _NOTHING)
            if place is None or line is None
            else self._row(line, place)
        )
        if self._unread and y == self._window.height - 1:
            strip = self._with_marker(strip)
        if self._painting:
            return strip
        where = place or BlockRow(len(layout), self.scroll_offset.y + y - layout.total)
        return strip.apply_offsets(-MARGIN - (0 if line is None else line.start), where.encoded)

    def _row(self, line: Line, place: BlockRow) -> Strip:
        """Return a row of a block; the strips of most rows are cached with the block."""
        drawn = self.sheet.seen(place.index)
        margin, body = self.margin(place, drawn.margin), self.styled(line, place)
        if margin is not drawn.margin or body is not line.strip:
            return self._finished(margin, body)
        if drawn.base != self._base:
            drawn.base = self._base
            drawn.finished.clear()
        row = place.line - self.sheet.gap(place.index)
        strip = drawn.finished.get(row)
        if strip is None:
            strip = drawn.finished[row] = self._finished(margin, self.linked(line).strip)
        return strip

    def _finished(self, margin: Segment, body: Strip) -> Strip:
        """Return the strip at the width of the view, on its background."""
        width, base = self._window.width, self._base
        segments = [
            Segment(text, base if style is None else base + style)
            for text, style, _ in (margin, *body)
        ]
        length = margin.cell_length + body.cell_length
        if length < width:
            segments.append(Segment(" " * (width - length), base))
        strip = Strip(segments, max(length, width))
        return strip if length <= width else strip.crop(0, width)

    def _with_marker(self, strip: Strip) -> Strip:
        marker = self._marker()
        style = self._base + self.sheet.palette.running
        return Strip(
            [*strip.crop(0, max(0, self._window.width - len(marker))), Segment(marker, style)]
        )

    def _scroll_to(self, *position: Any, **options: Any) -> bool:
        """Scroll at once, without animation; every way of scrolling ends here."""
        return super()._scroll_to(*position, **{**options, "animate": False})

    def _scroll_update(self, virtual_size: Size) -> None:
        """Bring the scroll position within bounds, which is not the user's scrolling."""
        placing = self._placing
        self._placing = True
        super()._scroll_update(virtual_size)
        self._placing = placing

    def _arm(self) -> None:
        """Schedule a drawing: at once after a pause, at a limited rate while things keep
        changing."""
        if self._timer is None and self.is_attached:
            self._timer = self.set_timer(
                max(_FIRST_FLUSH, self._earliest - time.monotonic()), self._draw
            )

    def _draw(self) -> None:
        """Draw what changed, a moment later if the user has just typed."""
        now = time.monotonic()
        if now - self._typed_at() < _ECHO and now - self._drawn_at < _PATIENCE:
            self._timer = self.set_timer(_ECHO, self._draw)
        else:
            self.flush()

    def _note(self, changed: frozenset[int]) -> None:
        """Remember which blocks are unread below the view, and which are running."""
        blocks = self.document.blocks
        last = self.sheet.visible[-1] if self.sheet.visible else -1
        if self.held_at is not None:
            self._unread |= {key for key in changed if key >= last}
        for key in changed:
            (self._counting.add if runs(blocks[key]) else self._counting.discard)(key)
        if self._counting and self._ticker is None:
            self._ticker = self.set_interval(1.0, self.tick)
        elif not self._counting and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def tick(self) -> None:
        """Redraw durations; called once a second."""
        self.sheet.tick()
        self.settle()

    def _marker(self) -> str:
        """Return the text of the marker; empty if nothing is unread."""
        return f" ↓ {len(self._unread):,} new "[: self._window.width] if self._unread else ""

    def _refresh_damaged(self, top: int, *, everything: bool, to_end: bool) -> None:
        """Refresh the damaged rows; `to_end`: everything below the damage moved."""
        damage = self.sheet.damage
        self.sheet.damage = {}
        if everything:
            return
        layout, height = self.sheet.layout, self._window.height
        first, last = height, -1
        for index, (start, end) in damage.items():
            above = layout.offset(index) + self.sheet.gap(index) - top
            first, last = min(first, above + start), max(last, above + end)
        if to_end:
            first, last = min(first, height - 1), height - 1
        if self._marker_drawn != self._marker():
            self._marker_drawn = self._marker()
            first, last = min(first, height - 1), height - 1
        first, last = max(0, first), min(height - 1, last)
        if first <= last:
            self.refresh(Region(0, first, self.size.width, last - first + 1))
