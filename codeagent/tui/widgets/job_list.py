"""All jobs of a conversation, one of them marked."""

from collections.abc import Callable

from rich.cells import cell_len
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from codeagent.core.job import Job
from codeagent.tui.job_board import JobBoard
from codeagent.tui.rendering.lines import line
from codeagent.tui.rendering.palette import PLAIN, palette_of
from codeagent.tui.widgets.job_rows import parts_of

_MARK = 3
"""Cells in front of a row."""


class JobList(ScrollView):
    """Takes no focus: the screen moves the mark. A click marks the job it is on.

    `clock` gives seconds since the epoch.
    """

    DEFAULT_CSS = """
    JobList {
        height: auto;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """
    can_focus = False
    ALLOW_SELECT = False

    class Marked(Message):
        """Another job is marked now."""

    def __init__(self, board: JobBoard, marked: str = "", *, clock: Callable[[], float]) -> None:
        """`marked` is the id of the job the mark begins on; the newest that runs where there is no such job."""
        super().__init__()
        self._board = board
        self._clock = clock
        running = [row.id for row in board.rows if row.status == "running"]
        rows = [row.id for row in board.rows]
        self._marked = marked if marked in rows else (running or rows or [""])[-1]

    @property
    def marked(self) -> Job | None:
        return self._board.get(self._marked)

    def move(self, step: int) -> None:
        """By jobs; it stops at the ends."""
        rows, at = self._board.rows, self._at + step
        if 0 <= at < len(rows):
            self._mark(rows[at].id)

    def sync(self) -> None:
        """Draw the jobs as they are now; the mark stays on its job."""
        self._lay()

    def on_mount(self) -> None:
        self._lay()
        self.call_after_refresh(self._show_mark)

    def on_resize(self, event: Resize) -> None:
        self._lay()
        self.call_after_refresh(self._show_mark)

    def on_click(self, event: Click) -> None:
        event.stop()
        rows, at = self._board.rows, self.scroll_offset.y + event.y
        if at < len(rows):
            self._mark(rows[at].id)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._board.rows))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        rows, at = self._board.rows, self.scroll_offset.y + y
        if at >= len(rows):
            return Strip.blank(width, style)
        palette = palette_of(self)
        parts = parts_of(rows[at], max(0, width - _MARK - 1), self._clock(), palette)
        if rows[at].id != self._marked:
            strip = line([("   ", None), *parts]).strip
        else:
            body = palette.selection
            rest = " " * max(0, width - _MARK - sum(cell_len(text) for text, _ in parts))
            shown = [(text, (own or PLAIN) + body) for text, own in parts]
            strip = line([(" ▸ ", palette.accent + body), *shown, (rest, body)]).strip
        return strip.adjust_cell_length(width, style).apply_style(style)

    @property
    def _at(self) -> int:
        return next((at for at, row in enumerate(self._board.rows) if row.id == self._marked), 0)

    def _mark(self, job_id: str) -> None:
        self._marked = job_id
        self._show_mark()
        self.post_message(self.Marked())

    def _lay(self) -> None:
        size = Size(self.scrollable_content_region.width, len(self._board.rows))
        grown = size.height != self.virtual_size.height
        self.virtual_size = size
        self.refresh(layout=grown)

    def _show_mark(self) -> None:
        height = max(1, self.scrollable_content_region.height)
        self.scroll_to(y=min(max(self.scroll_offset.y, self._at - height + 1), self._at), animate=False)
        self.refresh()
