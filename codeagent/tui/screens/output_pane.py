"""Shows long output: only the rows on screen are drawn."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from codeagent.tui.rendering.ansi import ansi_line
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import palette_of
from codeagent.tui.rendering.rows import cells
from codeagent.tui.screens.output_text import Found, OutputText


class OutputPane(ScrollView):
    """Rows are not wrapped: what is too wide is reached by scrolling to the right."""

    DEFAULT_CSS = """
    OutputPane {
        height: 1fr;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
    }
    """
    can_focus = False

    def __init__(self, text: str | Sequence[str]) -> None:
        super().__init__()
        self.text = OutputText(text)
        self._query = ""
        self._found: Found | None = None

    def on_mount(self) -> None:
        self.virtual_size = Size(0, len(self.text))

    def on_resize(self, event: Resize) -> None:
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def everything(self) -> str:
        return self.text.whole

    def turn(self, key: str) -> bool:
        """Scroll by a key: up, down, pageup, pagedown, home, end, left, right; False for any other."""
        page = max(1, self.scrollable_content_region.height - 1)
        x, y = self.scroll_offset
        places = {
            "up": (x, y - 1),
            "down": (x, y + 1),
            "pageup": (x, y - page),
            "pagedown": (x, y + page),
            "home": (0, 0),
            "end": (x, self.max_scroll_y),
            "left": (x - 8, y),
            "right": (x + 8, y),
        }
        if key not in places:
            return False
        self._go(*places[key])
        return True

    def find(self, text: str) -> Found | None:
        """Go to the first match that is not above the screen; empty text ends the search."""
        self._query = text
        self._found = self.text.find(text, self.scroll_offset.y, 0) if text and len(self.text) else None
        return self._show_found()

    def next(self, *, backwards: bool = False) -> Found | None:
        """The next match, round the end; None where there is none or nothing is searched for."""
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

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _widen(self, cells: int) -> None:
        """A wider row than any before came on screen: to measure all of them would take too long."""
        if cells > self.virtual_size.width:
            self.virtual_size = Size(cells, len(self.text))

    def _line(self, row: int) -> Line:
        palette = palette_of(self)
        return ansi_line(self.text.raw(row), palette, palette.text)

    def _marked(self, found: Line, row: int) -> Strip:
        """The row with what was found and what is selected."""
        palette = palette_of(self)
        strip = found.strip
        here = self._found
        for begin, end in self.text.spans(self._query, row):
            current = here is not None and (here.row, here.start) == (row, begin)
            strip = _styled(
                strip, found, begin, end, palette.match + Style(underline=True, bold=True) if current else palette.match
            )
        selection = self.text_selection
        span = None if selection is None else selection.get_span(row)
        if span is not None:
            strip = _styled(strip, found, span[0], len(found.text) if span[1] == -1 else span[1], palette.selection)
        return strip

    def _show_found(self) -> Found | None:
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
            self._go(x, y)
        return found

    def _go(self, x: int, y: int) -> None:
        self.scroll_to(max(0, min(x, self.max_scroll_x)), max(0, min(y, self.max_scroll_y)), animate=False)


def _styled(strip: Strip, found: Line, begin: int, end: int, style: Style) -> Strip:
    """The strip with some characters of its text in another style."""
    left = found.start + cells(found.text[:begin])
    right = found.start + cells(found.text[:end])
    if right <= left:
        return strip
    middle = Strip(Segment.apply_style(strip.crop(left, right), post_style=style))
    return Strip.join([strip.crop(0, left), middle, strip.crop(right)])
