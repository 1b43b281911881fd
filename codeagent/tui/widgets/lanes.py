"""What was typed while the agent works and waits to be read, in two labelled lanes."""

from dataclasses import dataclass

from rich.cells import cell_len
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette, palette_of
from codeagent.tui.stage import Lanes, QueuedText
from codeagent.tui.widgets.fitting import cut_end, flat

_MOST_ROWS = 4
"""Texts shown of one lane."""
_BACK = "Up takes it back"


@dataclass(frozen=True)
class _Drawn:
    """One row, and the text a click on it takes back."""

    line: Line
    queued_id: str | None = None


class LanesView(Widget):
    """Hidden while nothing waits. A click on a text asks for it back."""

    DEFAULT_CSS = """
    LanesView {
        height: auto;
        max-height: 40%;
        display: none;
    }
    """
    ALLOW_SELECT = False

    class TakeBack(Message):
        """The person wants this text back in the composer."""

        def __init__(self, queued_id: str) -> None:
            super().__init__()
            self.queued_id = queued_id

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
        if event.y < len(rows) and (queued_id := rows[event.y].queued_id) is not None:
            event.stop()
            self.post_message(self.TakeBack(queued_id))


def _drawn(items: tuple[QueuedText, ...], width: int, palette: Palette) -> list[_Drawn]:
    newest = items[-1].id if items else ""
    soon = [item for item in items if item.lane != "follow_up"]
    later = [item for item in items if item.lane == "follow_up"]
    rows: list[_Drawn] = []
    for title, lane in (("will be read after this batch", soon), ("when it is done", later)):
        if lane:
            rows.append(_Drawn(_title(title, width, palette)))
            rows.extend(_lane(lane, newest, width, palette))
    return rows


def _lane(items: list[QueuedText], newest: str, width: int, palette: Palette) -> list[_Drawn]:
    """The newest are shown: they are the ones that can still be thought better of."""
    hidden = len(items) - _MOST_ROWS if len(items) > _MOST_ROWS else 0
    rows = [_Drawn(_text(item, item.id == newest, width, palette), item.id) for item in items[hidden:]]
    if hidden:
        rows.insert(0, _Drawn(line([("   ", None), (cut_end(f"and {hidden} more", width - 3), palette.muted)])))
    return rows


def _title(title: str, width: int, palette: Palette) -> Line:
    words = cut_end(f"── {title} ", width)
    return line([(words + "─" * (width - cell_len(words)), palette.rule)])


def _text(item: QueuedText, newest: bool, width: int, palette: Palette) -> Line:
    lines = [flat(row) for row in visible(item.text).strip().split("\n")]
    more = f" +{len(lines) - 1} {'line' if len(lines) == 2 else 'lines'}" if len(lines) > 1 else ""
    mark = "interrupt: " if item.lane == "interrupt" else ""
    back = _BACK if newest and width >= len(_BACK) + len(mark) + len(more) + 24 else ""
    room = max(1, width - 4 - len(mark) - len(more) - (len(back) + 2 if back else 0))
    text = cut_end(f"“{lines[0]}”" if lines[0] else "“”", room)
    pad = " " * (room - cell_len(text) + 2) if back else ""
    return line(
        [
            ("   ", None),
            (mark, palette.warning),
            (text, palette.text),
            (more, palette.muted),
            (pad, None),
            (back, palette.muted),
        ]
    )
