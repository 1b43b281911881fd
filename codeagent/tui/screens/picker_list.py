"""Rows to choose one from, drawn line by line."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from codeagent.tui.fuzzy import scattered
from codeagent.tui.rendering.lines import line
from codeagent.tui.rendering.palette import PLAIN, palette_of
from codeagent.tui.widgets.fitting import cut_end, flat

_MARK = 3
"""Cells in front of a row's text."""
_BESIDE = 36
"""Cells from which on there is room for words about a row."""


@dataclass(frozen=True)
class PickerRow:
    key: str
    """What choosing it gives."""
    text: str
    about: str = ""
    warn: bool = False
    """The words about it are a warning."""


class PickerList(ScrollView):
    """Takes no focus: whoever owns it moves the mark."""

    DEFAULT_CSS = """
    PickerList {
        height: auto;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """
    can_focus = False
    ALLOW_SELECT = False

    class Marked(Message):
        """Another row is marked; None where there is no row."""

        def __init__(self, row: PickerRow | None) -> None:
            super().__init__()
            self.row = row

    class Clicked(Message):
        """A row was clicked, and is marked now."""

    def __init__(self, rows: Sequence[PickerRow], marked: str = "") -> None:
        """`marked` is the key of the row the mark begins on."""
        super().__init__()
        self._all = tuple(rows)
        self._rows = self._all
        self._at = next((at for at, row in enumerate(rows) if row.key == marked), 0)
        self._column = max((cell_len(flat(row.text)) for row in rows), default=0)
        self._beside = max((cell_len(flat(row.about)) for row in rows), default=0)

    @property
    def marked(self) -> PickerRow | None:
        return self._rows[self._at] if self._rows else None

    @property
    def count(self) -> int:
        return len(self._rows)

    def narrow(self, query: str) -> None:
        """Show what matches, the best first; the mark stays on its row, or goes to the best."""
        before = self.marked
        self._rows = matching(self._all, query)
        self._at = self._rows.index(before) if not query and before in self._rows else 0
        self._lay()
        if self.marked is not before:
            self.post_message(self.Marked(self.marked))

    def move(self, step: int) -> None:
        """By rows; it stops at the ends."""
        at = min(max(self._at + step, 0), len(self._rows) - 1)
        if self._rows and at != self._at:
            self._at = at
            self._show_mark()
            self.post_message(self.Marked(self.marked))

    def page(self, direction: int) -> None:
        self.move(direction * max(1, self.scrollable_content_region.height - 1))

    def on_mount(self) -> None:
        self._lay()

    def on_resize(self, event: Resize) -> None:
        self._lay()

    def on_click(self, event: Click) -> None:
        event.stop()
        at = self.scroll_offset.y + event.y
        if at < len(self._rows):
            self.move(at - self._at)
            self.post_message(self.Clicked())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._rows))

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        at = self.scroll_offset.y + y
        if at < len(self._rows):
            strip = self._row(self._rows[at], width, marked=at == self._at)
        elif at == 0:
            strip = line(
                [("   nothing matches" if self._all else "   there is nothing here yet", palette_of(self).muted)]
            ).strip
        else:
            return Strip.blank(width, style)
        return strip.adjust_cell_length(width, style).apply_style(style)

    def _lay(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        self.refresh()
        self.call_after_refresh(self._show_mark)

    def _show_mark(self) -> None:
        height = max(1, self.scrollable_content_region.height)
        top = self.scroll_offset.y
        self.scroll_to(y=min(max(top, self._at - height + 1), self._at), animate=False)
        self.refresh()

    def _row(self, row: PickerRow, width: int, *, marked: bool) -> Strip:
        palette = palette_of(self)
        body = palette.selection if marked else PLAIN
        room = max(0, width - _MARK - 1)
        text, about = flat(row.text), flat(row.about)
        if about and room >= _BESIDE:
            column = min(self._column, max(room // 2, room - self._beside - 2))
            text = set_cell_size(cut_end(text, column), column)
            about = "  " + cut_end(about, room - column - 2)
        elif about and row.warn:
            text = cut_end(text, max(8, room - cell_len(about) - 2))
            about = "  " + cut_end(about, max(0, room - cell_len(text) - 2))
        else:
            text, about = cut_end(text, room), ""
        rest = " " * max(0, width - _MARK - cell_len(text) - cell_len(about))
        beside = body if marked else palette.warning if row.warn else palette.muted
        mark = " ▸ " if marked else "   "
        return line([(mark, palette.accent + body), (text, palette.text + body), (about, beside), (rest, body)]).strip


def matching(rows: Sequence[PickerRow], query: str) -> tuple[PickerRow, ...]:
    """Those whose text begins with the query, then that contain it, then whose words about it do, then scattered."""
    wanted = query.strip().lower()
    if not wanted:
        return tuple(rows)
    pattern = scattered(wanted)
    ranked: list[tuple[int, int, PickerRow]] = []
    for place, row in enumerate(rows):
        text = flat(row.text).lower()
        if text.startswith(wanted):
            rank = 0
        elif wanted in text:
            rank = 1
        elif wanted in flat(row.about).lower():
            rank = 2
        elif pattern.search(text):
            rank = 3
        else:
            continue
        ranked.append((rank, place, row))
    return tuple(row for _, _, row in sorted(ranked, key=lambda found: found[:2]))
