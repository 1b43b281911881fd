"""Draws the message queue above the composer, in two labelled lanes."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.events import Click
from textual.message import Message

from codeagent.core.acts import Queued
from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import visible
from codeagent.tui.parts.rows import RowsWidget
from codeagent.tui.rendering.lines import Line, Styled, cut_end, flat, line
from codeagent.tui.rendering.palette import Palette, palette_of
from codeagent.tui.state import QueuedMessages

SOON = "will be read after this batch"
LATER = "when the agent is done"
EARLIER = "not sent last time"
_LEAST = 20
"""Cells that a text keeps beside its note."""
_MOST_ROWS = 4
"""How many texts of a lane are shown."""
_BACK = "Up to edit it"
_CHANGE = "/queue to change it"


def lane_of(item: Queued) -> str:
    """Return the title of the lane that a text waits in."""
    return LATER if item.kind == "follow_up" else SOON


def by_lane(items: Sequence[Queued]) -> tuple[tuple[str, tuple[Queued, ...]], ...]:
    """Return (title, texts in order) of each non-empty lane, the one that is delivered first in
    front."""
    lanes = (
        (title, tuple(item for item in items if lane_of(item) == title)) for title in (SOON, LATER)
    )
    return tuple((title, waiting) for title, waiting in lanes if waiting)


def title_parts(title: str, width: int, palette: Palette, note: str = "") -> Styled:
    """Return `── title ────────── note ──`; the note is dropped if there is no room."""
    words = cut_end(f"── {title} ", width)
    beside = f" {note} ──" if note and cell_len(words + note) + 8 <= width else ""
    rule = "─" * (width - cell_len(words) - cell_len(beside))
    return [(words + rule, palette.rule), (beside, palette.rule)]


def text_parts(item: Queued, width: int, palette: Palette, note: str = "") -> Styled:
    """Return kind, first line in quotes and length of a text, and the note if there is room."""
    lines = [flat(row) for row in visible(item.text).strip().split("\n")]
    more = f" +{len(lines) - 1} {'line' if len(lines) == 2 else 'lines'}" if len(lines) > 1 else ""
    mark = "interrupt: " if item.kind == "interrupt" else ""
    back = note if note and width >= len(note) + len(mark) + len(more) + _LEAST else ""
    room = max(1, width - len(mark) - len(more) - (len(back) + 2 if back else 0))
    text = cut_end(f"“{lines[0]}”" if lines[0] else "“”", room)
    pad = " " * (room - cell_len(text) + 2) if back else ""
    return [
        (mark, palette.warning),
        (text, palette.text),
        (more, palette.muted),
        (pad, None),
        (back, palette.muted),
    ]


@dataclass(frozen=True)
class _Drawn:
    """A row, and the queued text that a click on it takes back; its id is empty for what was left
    unsent."""

    line: Line
    queued_id: str | None = None


class QueueView(RowsWidget):
    """Hidden while the queue is empty and nothing was left unsent.

    A click on a text takes it back, a click elsewhere opens the list of all.
    """

    DEFAULT_CSS = """
    QueueView {
        height: auto;
        display: none;
    }
    """

    @dataclass
    class TakeBack(Message):
        """The user wants this text back in the composer."""

        queued_id: str

    class TakeEarlier(Message):
        """The user wants what was left unsent before this start back in the composer."""

    class ListWanted(Message):
        """The user wants to change the queue."""

    def __init__(self, queue: QueuedMessages) -> None:
        super().__init__()
        self._queue = queue

    def on_mount(self) -> None:
        self._queue.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Draw the queue as it is now."""
        self.display = bool(self._queue.items or self._queue.earlier)
        self.refresh(layout=True)

    def rows(self, width: int, palette: Palette) -> Sequence[Line]:
        return [drawn.line for drawn in _drawn(self._queue, width, palette)]

    def on_click(self, event: Click) -> None:
        rows = _drawn(self._queue, self.size.width, palette_of(self))
        if event.y >= len(rows):
            return
        event.stop()
        match rows[event.y].queued_id:
            case None:
                self.post_message(self.ListWanted())
            case "":
                self.post_message(self.TakeEarlier())
            case queued_id:
                self.post_message(self.TakeBack(queued_id))


def _drawn(queue: QueuedMessages, width: int, palette: Palette) -> list[_Drawn]:
    items = queue.items
    newest = items[-1].id if items else ""
    rows: list[_Drawn] = []
    if queue.earlier:
        left = Queued("", "follow_up", queue.earlier)
        parts = text_parts(left, width - 4, palette, note="" if items else _BACK)
        rows += [
            _Drawn(line(title_parts(EARLIER, width, palette))),
            _Drawn(line([("   ", None), *parts]), ""),
        ]
    lanes = by_lane(items)
    for title, waiting in lanes:
        rows.append(
            _Drawn(
                line(title_parts(title, width, palette, "" if title != lanes[0][0] else _CHANGE))
            )
        )
        rows.extend(_lane(waiting, newest, width, palette))
    return rows


def _lane(items: tuple[Queued, ...], newest: str, width: int, palette: Palette) -> list[_Drawn]:
    """Draw the newest texts of a lane, those that the user is most likely to change."""
    hidden = len(items) - _MOST_ROWS if len(items) > _MOST_ROWS else 0
    rows = []
    for item in items[hidden:]:
        parts = text_parts(item, width - 4, palette, note=_BACK if item.id == newest else "")
        rows.append(_Drawn(line([("   ", None), *parts]), item.id))
    if hidden:
        rows.insert(
            0,
            _Drawn(
                line([("   ", None), (cut_end(f"and {hidden} more", width - 3), palette.muted)])
            ),
        )
    return rows
