"""What was typed while the agent works and waits to be read, in two labelled lanes."""

from dataclasses import dataclass

from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from codeagent.core.queued import Queued
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette, palette_of
from codeagent.tui.stage import Lanes
from codeagent.tui.widgets.fitting import cut_end
from codeagent.tui.widgets.lane_rows import in_lanes, text_row, title_row

_MOST_ROWS = 4
"""Texts shown of one lane."""
_BACK = "Up to edit it"
_CHANGE = "/queue to change it"


@dataclass(frozen=True)
class _Drawn:
    """One row, and the text a click on it takes back."""

    line: Line
    queued_id: str | None = None


class LanesView(Widget):
    """Hidden while nothing waits. A click on a text asks for it back, a click elsewhere for the list of all."""

    DEFAULT_CSS = """
    LanesView {
        height: auto;
        display: none;
    }
    """
    ALLOW_SELECT = False

    class TakeBack(Message):
        """The person wants this text back in the composer."""

        def __init__(self, queued_id: str) -> None:
            super().__init__()
            self.queued_id = queued_id

    class ListWanted(Message):
        """The person wants to change what waits."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__()
        self._lanes = lanes

    def on_mount(self) -> None:
        self._lanes.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Draw the lanes as they are now."""
        self.display = bool(self._lanes.items)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(_drawn(self._lanes.items, width, palette_of(self)))

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        rows = _drawn(self._lanes.items, width, palette_of(self))
        if y >= len(rows):
            return Strip.blank(width, style)
        return rows[y].line.strip.adjust_cell_length(width, style).apply_style(style)

    def on_click(self, event: Click) -> None:
        rows = _drawn(self._lanes.items, self.size.width, palette_of(self))
        if event.y >= len(rows):
            return
        event.stop()
        queued_id = rows[event.y].queued_id
        self.post_message(self.ListWanted() if queued_id is None else self.TakeBack(queued_id))


def _drawn(items: tuple[Queued, ...], width: int, palette: Palette) -> list[_Drawn]:
    newest = items[-1].id if items else ""
    rows: list[_Drawn] = []
    for title, waiting in in_lanes(items):
        rows.append(_Drawn(title_row(title, width, palette, "" if rows else _CHANGE)))
        rows.extend(_lane(waiting, newest, width, palette))
    return rows


def _lane(items: tuple[Queued, ...], newest: str, width: int, palette: Palette) -> list[_Drawn]:
    """The newest are shown: they are the ones that can still be thought better of."""
    hidden = len(items) - _MOST_ROWS if len(items) > _MOST_ROWS else 0
    rows = [
        _Drawn(text_row(item, width, palette, note=_BACK if item.id == newest else ""), item.id)
        for item in items[hidden:]
    ]
    if hidden:
        rows.insert(0, _Drawn(line([("   ", None), (cut_end(f"and {hidden} more", width - 3), palette.muted)])))
    return rows
