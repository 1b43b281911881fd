"""The model's to-do list above the composer: its progress, what is being done, and what comes
next."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.events import Click

from codeagent.core.memory import TodoItem, TodoState, how_far
from codeagent.tui.parts.rows import RowsWidget
from codeagent.tui.rendering.lines import Line, cut_end, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import StatusBoard

_MOST_ROWS = 3
"""Items shown below the title."""
_ROOMY = 30
"""Rows of a screen from which on more than the title is shown during a run."""
_LOW = 12
"""Rows of a screen from which on it is shown at all."""
_ALL = "/todo shows all"
_SIGNS: dict[TodoState, str] = {"pending": "○", "active": "●", "done": "✓"}


def open_items(items: Sequence[TodoItem]) -> tuple[TodoItem, ...]:
    """Return the items that are not done, the active ones first."""
    return tuple(item for state in ("active", "pending") for item in items if item.state == state)


def todo_lines(items: Sequence[TodoItem], width: int, rows: int, palette: Palette) -> list[Line]:
    """Draw the title and at most `rows` items that are not done; without rows, the title names the
    first one."""
    left = open_items(items)
    words = f"── todo · {how_far(items)} "
    if rows == 0:
        words += f"· {left[0].text} "
    words = cut_end(words, width)
    note = f" {_ALL} ──" if cell_len(words + _ALL) + 8 <= width else ""
    rule = "─" * (width - cell_len(words) - cell_len(note))
    drawn = [line([(words, palette.muted), (rule, palette.rule), (note, palette.muted)])]
    shown = left[:rows] if len(left) <= rows else left[: rows - 1]
    for item in shown if rows else ():
        style = palette.running if item.state == "active" else palette.muted
        drawn.append(
            line(
                [
                    (f"   {_SIGNS[item.state]} ", style),
                    (cut_end(item.text, width - 5), palette.text),
                ]
            )
        )
    if rows and len(shown) < len(left):
        drawn.append(
            line([(cut_end(f"   and {len(left) - len(shown)} more", width), palette.muted)])
        )
    return drawn


class TodoView(RowsWidget):
    """Shows the list; hidden while there is nothing to do, or no run. A click asks for the whole
    list."""

    DEFAULT_CSS = """
    TodoView {
        height: auto;
        display: none;
    }
    """

    def __init__(self, status: StatusBoard) -> None:
        super().__init__()
        self._status = status
        self._items: tuple[TodoItem, ...] = ()
        self._in_run = False

    def on_mount(self) -> None:
        self._status.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Draw the list as it is now."""
        now = self._status.now
        if (self._items, self._in_run) != (now.work.todo, now.run.in_run):
            self._items = now.work.todo
            self._in_run = now.run.in_run
            self.display = self._in_run and bool(open_items(self._items))
            self.refresh(layout=True)

    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.run_action("screen.command('command.todo')")

    def rows(self, width: int, palette: Palette) -> Sequence[Line]:
        height = self.app.size.height
        if height < _LOW or not open_items(self._items):
            return []
        rows = _MOST_ROWS if height >= _ROOMY else 0
        return todo_lines(self._items, width, rows, palette)
