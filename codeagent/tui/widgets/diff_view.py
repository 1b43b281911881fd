"""A change of one file: unified, or old and new beside each other where there is room."""

from bisect import bisect_left, bisect_right

from textual.events import Key

from codeagent.core.display import DiffBlock
from codeagent.tui.rendering.diff import diff_rows
from codeagent.tui.widgets.diff_piece import SPLIT_FROM, diff_piece
from codeagent.tui.widgets.line_pane import LinePane


class DiffView(LinePane, can_focus=True):
    """Scrolls with the arrows, goes from hunk to hunk with j and k, and from unified to split with t."""

    def __init__(self, diff: DiffBlock) -> None:
        super().__init__()
        self._path = diff.path
        self._rows = diff_rows(diff.before, diff.after, diff.start_line)
        self._hunks: dict[int, list[int]] = {}
        self._split = False

    @property
    def is_split(self) -> bool:
        return self._split and self.layout_width >= SPLIT_FROM

    def on_mount(self) -> None:
        self._show()

    def on_key(self, event: Key) -> None:
        match event.key:
            case "j" | "k":
                self.go_to_hunk(1 if event.key == "j" else -1)
            case "t":
                self.toggle()
            case _ if not self.turn(event.key):
                return
        event.stop()
        event.prevent_default()

    def toggle(self) -> None:
        """Show both versions beside each other, or below each other; nothing where they do not fit."""
        if self.layout_width >= SPLIT_FROM:
            self._split = not self._split
            self._show()

    def go_to_hunk(self, step: int) -> None:
        """Put the next hunk, or the one before, at the top; a page on where no further one is made yet."""
        hunks, top = self._hunks.get(self.layout_width, []), self.scroll_offset.y
        at = bisect_right(hunks, top) if step > 0 else bisect_left(hunks, top) - 1
        if 0 <= at < len(hunks):
            self.go_to(hunks[at])
        elif step > 0 and not self.complete:
            self.turn("pagedown")

    def _show(self) -> None:
        self._hunks.clear()
        self.show([diff_piece(self._rows, self._path, split=self._split, begins=self._begins)])

    def _begins(self, width: int, row: int) -> None:
        self._hunks.setdefault(width, []).append(row)
