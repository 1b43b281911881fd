"""Rules and decisions below each other, with a mark that goes through both."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.events import Click, Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from codeagent.tui.rendering.lines import line
from codeagent.tui.rendering.palette import PLAIN, palette_of
from codeagent.tui.screens.permission_rows import Columns, Entry, Heading, parts_of

_MARK = 3
"""Cells in front of a row."""


class PermissionList(ScrollView):
    """Takes no focus: the screen moves the mark. Headings are never marked."""

    DEFAULT_CSS = """
    PermissionList {
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    can_focus = False
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._entries: tuple[Entry, ...] = ()
        self._columns = Columns()
        self._at = 0

    @property
    def marked(self) -> Entry | None:
        """None where there is neither a rule nor a decision."""
        entry = self._entries[self._at] if self._at < len(self._entries) else None
        return None if isinstance(entry, Heading) else entry

    def show(self, entries: Sequence[Entry]) -> None:
        """Replace what is shown; the mark stays on what it was on, or near it."""
        if tuple(entries) == self._entries:
            return
        before, place = self.marked, self._at
        self._entries = tuple(entries)
        self._columns = Columns.of(self._entries)
        if before is not None and before in self._entries:
            self._at = self._entries.index(before)
        else:
            self._at = self._nearest(place)
        self._lay()

    def move(self, step: int) -> None:
        """By rows that can be marked; it stops at the ends."""
        places = self._places()
        if places:
            at = places.index(self._at) if self._at in places else 0
            self._mark(places[min(max(at + step, 0), len(places) - 1)])

    def page(self, direction: int) -> None:
        self.move(direction * max(1, self.scrollable_content_region.height - 1))

    def other_part(self) -> None:
        """From the rules to the newest decision, from the decisions to the first rule."""
        here = type(self.marked)
        other = [place for place in self._places() if type(self._entries[place]) is not here]
        if other:
            self._mark(other[0])

    def on_mount(self) -> None:
        self._lay()

    def on_resize(self, event: Resize) -> None:
        self._lay()

    def on_click(self, event: Click) -> None:
        event.stop()
        at = self.scroll_offset.y + event.y
        if at in self._places():
            self._mark(at)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        at = self.scroll_offset.y + y
        if at >= len(self._entries):
            return Strip.blank(width, style)
        palette, entry = palette_of(self), self._entries[at]
        parts = parts_of(entry, max(0, width - _MARK - 1), self._columns, palette)
        if isinstance(entry, Heading):
            strip = line([(" ", None), *parts]).strip
        elif at != self._at:
            strip = line([("   ", None), *parts]).strip
        else:
            body = palette.selection
            rest = " " * max(0, width - _MARK - sum(cell_len(text) for text, _ in parts))
            shown = [(text, (style or PLAIN) + body) for text, style in parts]
            strip = line([(" ▸ ", palette.accent + body), *shown, (rest, body)]).strip
        return strip.adjust_cell_length(width, style).apply_style(style)

    def _places(self) -> list[int]:
        return [place for place, entry in enumerate(self._entries) if not isinstance(entry, Heading)]

    def _nearest(self, place: int) -> int:
        return min(self._places(), key=lambda other: abs(other - place), default=0)

    def _mark(self, at: int) -> None:
        self._at = at
        self._show_mark()

    def _lay(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._entries))
        self.refresh()
        self.call_after_refresh(self._show_mark)

    def _show_mark(self) -> None:
        """The first rule is shown with the heading above it."""
        height = max(1, self.scrollable_content_region.height)
        top = self.scroll_offset.y
        first = self._at - 1 if self._at and isinstance(self._entries[self._at - 1], Heading) else self._at
        self.scroll_to(y=min(max(top, self._at - height + 1), first), animate=False)
        self.refresh()
