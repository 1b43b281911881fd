"""What drawing a block gives."""

from dataclasses import dataclass, field, replace
from typing import Self

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.blocks import Detail

MARGIN = 2
"""Cells to the left of every block: the bar of a prompt, or of the block the keys act on."""
BLANK = Segment(" " * MARGIN)


@dataclass(frozen=True)
class Look:
    """What drawing depends on besides the block."""

    width: int
    """Cells, without the margin."""
    detail: Detail
    palette: Palette
    now: float
    """Seconds since the epoch, for what still runs."""


@dataclass(frozen=True)
class Spot:
    """Rows of a block that a click, or Enter, acts on."""

    first: int
    last: int
    call_id: str = ""
    """The call they are about; empty for the block itself."""
    whole: bool = False
    """They offer the whole output of the call; without, the rest of what is kept."""


@dataclass(slots=True)
class Drawn:
    """The rows of a block, without the margin."""

    lines: list[Line] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    margin: Segment = BLANK
    finished: dict[int, Strip] = field(default_factory=dict)
    """By row, what was put on the screen of it, in the style `base`."""
    base: Style | None = None

    def add(self, below: Self) -> None:
        """Put the rows of another below these."""
        moved = len(self.lines)
        self.lines += below.lines
        self.spots += [replace(spot, first=spot.first + moved, last=spot.last + moved) for spot in below.spots]


Memo = dict[str, tuple[object, Drawn]]
"""What was drawn below the headlines of calls that ended, by call id, and what it was drawn from."""
