"""The upper or lower edge of a card, with words in it."""

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.style import Style

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.fitting import Part, cut_end, cut_middle, fit, joined_width, styled
from codeagent.tui.widgets.row import Row

_GAP = "  "
_EDGES = 6
"""Cells of both corners, a piece of rule each, and spaces between them and the words."""


class RuleRow(Row):
    """Draws `╭─ left ───── right ─╮` in the widget's own colour; `corners` are its two ends."""

    def __init__(self, corners: tuple[str, str]) -> None:
        super().__init__()
        self._corners = corners
        self._left: tuple[Part, ...] = ()
        self._right: tuple[Part, ...] = ()

    def show(self, left: Sequence[Part] = (), right: Sequence[Part] = ()) -> None:
        """The words of both sides; the widest of the left ones gives way first, then those with the lowest `keep`."""
        words = tuple(part for part in left if part.text), tuple(part for part in right if part.text)
        if words != (self._left, self._right):
            self._left, self._right = words
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        first, last = self._corners
        room = width - _EDGES
        if room < 4:
            return line([(first + "─" * max(0, width - 2) + last, None)])
        right = tuple(replace(part, text=cut_end(part.text, room)) for part in fit(self._right, room, _GAP))
        left_room = room - (joined_width(right, _GAP) + 3 if right else 0)
        left = _within(self._left, left_room)
        body: list[tuple[str, Style | None]] = [(f"{first}─", None)]
        if left:
            body += [(" ", None), *styled(left, palette, _GAP), (" ", None)]
        tail: list[tuple[str, Style | None]] = []
        if right:
            tail += [(" ", None), *styled(right, palette, _GAP), (" ", None)]
        tail.append((f"─{last}", None))
        used = sum(cell_len(text) for text, _ in (*body, *tail))
        return line([*body, ("─" * max(0, width - used), None), *tail])


def _within(parts: tuple[Part, ...], room: int) -> tuple[Part, ...]:
    """The parts in at most `room` cells: the widest is cut to what still says something, then parts go."""
    kept = list(parts)
    if not kept or room < 1:
        return ()
    widest = max(kept, key=lambda part: cell_len(part.text))
    over = joined_width(kept, _GAP) - room
    if over > 0:
        left = max(min(12, cell_len(widest.text)), cell_len(widest.text) - over)
        kept[kept.index(widest)] = replace(widest, text=cut_middle(widest.text, left))
    fitting = fit(kept, room, _GAP)
    return tuple(replace(part, text=cut_middle(part.text, room)) for part in fitting)
