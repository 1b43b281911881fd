"""The rows of what waits to be read: the titles of the two lanes, and a text on one row."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style

from codeagent.core.queued import Queued
from codeagent.core.sanitize import visible
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import PLAIN, Palette
from codeagent.tui.widgets.fitting import cut_end, flat

SOON = "will be read after this batch"
LATER = "when the agent is done"
_LEAST = 24
"""Cells that a text keeps beside words about it."""


def lane_of(item: Queued) -> str:
    """The title of the lane a text waits in."""
    return LATER if item.kind == "follow_up" else SOON


def in_lanes(items: Sequence[Queued]) -> tuple[tuple[str, tuple[Queued, ...]], ...]:
    """(title, texts in order) of each lane in which something waits, the one that is read first in front."""
    lanes = ((title, tuple(item for item in items if lane_of(item) == title)) for title in (SOON, LATER))
    return tuple((title, waiting) for title, waiting in lanes if waiting)


def title_row(title: str, width: int, palette: Palette, note: str = "") -> Line:
    """`── title ────────── note ──`; the note goes where there is no room for it."""
    words = cut_end(f"── {title} ", width)
    beside = f" {note} ──" if note and cell_len(words + note) + 8 <= width else ""
    rule = "─" * (width - cell_len(words) - cell_len(beside))
    return line([(words + rule, palette.rule), (beside, palette.rule)])


def text_row(
    item: Queued, width: int, palette: Palette, *, note: str = "", lead: str = "   ", body: Style = PLAIN
) -> Line:
    """The text's first line in quotes, what it is, how long it is, and a note at the end where there is room."""
    lines = [flat(row) for row in visible(item.text).strip().split("\n")]
    more = f" +{len(lines) - 1} {'line' if len(lines) == 2 else 'lines'}" if len(lines) > 1 else ""
    mark = "interrupt: " if item.kind == "interrupt" else ""
    back = note if note and width >= len(note) + len(mark) + len(more) + _LEAST else ""
    room = max(1, width - 4 - len(mark) - len(more) - (len(back) + 2 if back else 0))
    text = cut_end(f"“{lines[0]}”" if lines[0] else "“”", room)
    pad = " " * (room - cell_len(text) + 2) if back else ""
    return line(
        [
            (lead, palette.accent + body),
            (mark, palette.warning + body),
            (text, palette.text + body),
            (more, palette.muted + body),
            (pad, body),
            (back, palette.muted + body),
        ]
    )
