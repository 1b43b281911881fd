"""Everything that waits to be read, one text marked."""

from rich.cells import cell_len
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from codeagent.core.queued import Queued
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette, palette_of
from codeagent.tui.stage import Lanes
from codeagent.tui.widgets.lane_rows import in_lanes, lane_of, text_row, title_row


class QueueList(ScrollView):
    """Takes no focus: whoever owns it moves the mark. A click marks the text it is on."""

    DEFAULT_CSS = """
    QueueList {
        height: auto;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """
    can_focus = False
    ALLOW_SELECT = False

    class Changed(Message):
        """Other texts wait now, or in another order."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__()
        self._lanes = lanes
        self._marked = self._items[0].id if self._items else ""

    @property
    def marked(self) -> Queued | None:
        return next((item for item in self._lanes.items if item.id == self._marked), None)

    def move(self, step: int) -> None:
        """The mark, by texts; it stops at the ends."""
        at = self._at + step
        if 0 <= at < len(self._items):
            self._marked = self._items[at].id
            self._show_mark()

    def place(self, step: int) -> int | None:
        """Where among all that waits, from 0, the marked text has to go to change places within its lane."""
        item, at = self.marked, self._at + step
        if item is None or not 0 <= at < len(self._items) or lane_of(self._items[at]) != lane_of(item):
            return None
        return self._lanes.items.index(self._items[at])

    def on_mount(self) -> None:
        self._lanes.watch(self._sync)
        self._lay()

    def on_unmount(self) -> None:
        self._lanes.unwatch(self._sync)

    def on_resize(self, event: Resize) -> None:
        self._lay()

    def on_click(self, event: Click) -> None:
        event.stop()
        at = self.scroll_offset.y + event.y
        rows = self._rows(palette_of(self))
        if at < len(rows) and rows[at][0]:
            self._marked = rows[at][0]
            self._show_mark()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, self._height)

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        rows, at = self._rows(palette_of(self)), self.scroll_offset.y + y
        if at >= len(rows):
            return Strip.blank(width, style)
        return rows[at][1].strip.adjust_cell_length(width, style).apply_style(style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def _sync(self) -> None:
        """Whatever changed, the mark stays on its text, or near where it was."""
        at = self._at
        if self.marked is None and self._items:
            self._marked = self._items[min(at, len(self._items) - 1)].id
        self._lay()
        self.post_message(self.Changed())

    @property
    def _items(self) -> tuple[Queued, ...]:
        """As they are shown: lane by lane."""
        return tuple(item for _, waiting in in_lanes(self._lanes.items) for item in waiting)

    @property
    def _at(self) -> int:
        return next((at for at, item in enumerate(self._items) if item.id == self._marked), 0)

    @property
    def _height(self) -> int:
        return sum(1 + len(waiting) for _, waiting in in_lanes(self._lanes.items))

    def _lay(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, self._height)
        self.refresh(layout=True)
        self.call_after_refresh(self._show_mark)

    def _show_mark(self) -> None:
        height = max(1, self.scrollable_content_region.height)
        ids = [row[0] for row in self._rows(palette_of(self))]
        row = ids.index(self._marked) if self._marked in ids else 0
        highest = max(0, row - 1) if height > 1 else row
        self.scroll_to(y=min(max(self.scroll_offset.y, row - height + 1), highest), animate=False)
        self.refresh()

    def _rows(self, palette: Palette) -> list[tuple[str, Line]]:
        """(id of the text or nothing, row)."""
        width = max(1, self.scrollable_content_region.width)
        rows: list[tuple[str, Line]] = []
        for title, waiting in in_lanes(self._lanes.items):
            rows.append(("", title_row(title, width, palette)))
            rows.extend((item.id, self._row(item, width, palette)) for item in waiting)
        return rows

    def _row(self, item: Queued, width: int, palette: Palette) -> Line:
        if item.id != self._marked:
            return text_row(item, width, palette)
        drawn = text_row(item, width, palette, lead=" ▸ ", body=palette.selection)
        rest = line([(" " * (width - cell_len(drawn.strip.text)), palette.selection)])
        return Line(Strip.join([drawn.strip, rest.strip]), drawn.text)
