"""The inputs and results of drawing a block, and a map from rows of the transcript to blocks."""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Self

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.blocks import Detail
from codeagent.tui.transcript.document import BlockSplice

MARGIN = 2
"""Cells to the left of every block: the bar of a prompt, or of the block that the keys act on."""
BLANK = Segment(" " * MARGIN)


@dataclass(frozen=True)
class Look:
    """Everything besides the block that drawing depends on."""

    width: int
    """In cells, without the margin."""
    detail: Detail
    palette: Palette
    now: float
    """Seconds since the epoch, for durations that are still counting."""


@dataclass(frozen=True)
class Spot:
    """Rows of a block that a click, or Enter, acts on."""

    first: int
    last: int
    call_id: str = ""
    """The call they are about; empty for the block itself."""
    whole: bool = False
    """Whether they open the whole output of the call, not only the rest of the kept lines."""


@dataclass(slots=True)
class Drawn:
    """The rows of a block, without the margin."""

    lines: list[Line] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    margin: Segment = BLANK
    version: int = 0
    """The revision of the block that was drawn."""
    finished: dict[int, Strip] = field(default_factory=dict)
    """By row, the strip that was painted in the style `base`."""
    base: Style | None = None

    def add(self, below: Self) -> None:
        """Append the rows of another below these."""
        moved = len(self.lines)
        self.lines += below.lines
        self.spots += [
            replace(spot, first=spot.first + moved, last=spot.last + moved) for spot in below.spots
        ]


_LINE_BITS = 20


@dataclass(frozen=True)
class BlockRow:
    """A row of a block; a place stays valid if heights above it change."""

    index: int
    """The index of the block, from 0."""
    line: int
    """The row within the block, from 0."""

    @property
    def encoded(self) -> int:
        """The place as one number, which grows downwards and names the row in a selection."""
        return (self.index << _LINE_BITS) | self.line

    @classmethod
    def decoded(cls, number: int) -> Self:
        return cls(number >> _LINE_BITS, number & ((1 << _LINE_BITS) - 1))


class Layout:
    """Heights of all blocks in rows, exact for drawn blocks and estimated for the others.

    They are summed in a Fenwick tree, so every look-up and correction is O(log n).
    """

    def __init__(self, estimates: Iterable[int] = ()) -> None:
        self._heights = list(estimates)
        self._exact = [False] * len(self._heights)
        self.total = 0
        """The height of the whole transcript, in rows."""
        self._sum_up()

    def _sum_up(self) -> None:
        self.total = sum(self._heights)
        self._tree = [0, *self._heights]
        for node in range(1, len(self._tree)):
            above = node + (node & -node)
            if above < len(self._tree):
                self._tree[above] += self._tree[node]

    def __len__(self) -> int:
        return len(self._heights)

    def append(self, estimate: int) -> None:
        """Add a block at the end."""
        self._heights.append(estimate)
        self._exact.append(False)
        node = len(self._heights)
        self._tree.append(estimate + self.offset(node - 1) - self.offset(node - (node & -node)))
        self.total += estimate

    def splice(self, splice: BlockSplice, estimates: Sequence[int]) -> None:
        """Replace some blocks by others; the heights of those after them are kept. Costs O(n)."""
        self._heights[splice.first : splice.stop] = estimates
        self._exact[splice.first : splice.stop] = [False] * len(estimates)
        self._sum_up()

    def correct(self, index: int, height: int, *, exact: bool = True) -> None:
        """Set the height of a block."""
        grown = height - self._heights[index]
        self._exact[index] = exact
        self._heights[index] = height
        self.total += grown
        node = index + 1
        while grown and node < len(self._tree):
            self._tree[node] += grown
            node += node & -node

    def outdate(self, index: int) -> None:
        """Mark a block to be drawn again; until then its height is an estimate."""
        self._exact[index] = False

    def height(self, index: int) -> int:
        return self._heights[index]

    def is_exact(self, index: int) -> bool:
        return self._exact[index]

    def offset(self, index: int) -> int:
        """Return the first row of a block, or the row after the end for the index after the
        last."""
        total = 0
        while index:
            total += self._tree[index]
            index -= index & -index
        return total

    def at(self, row: int) -> BlockRow:
        """Return the place of a row, clamped to the first and the last block; there must be a
        block."""
        row = max(0, min(row, self.total - 1))
        node, rest = 0, row
        step = 1 << (len(self._heights).bit_length() - 1)
        while step:
            beyond = node + step
            if beyond < len(self._tree) and self._tree[beyond] <= rest:
                node = beyond
                rest -= self._tree[beyond]
            step >>= 1
        if node == len(self._heights):
            return BlockRow(node - 1, 0)
        return BlockRow(node, rest)

    def row(self, place: BlockRow) -> int:
        """Return the row of a place; for a line that is gone, the block's last row."""
        height = self._heights[place.index]
        return self.offset(place.index) + max(0, min(place.line, height - 1))
