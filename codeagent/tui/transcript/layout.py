"""Which block is at which row: heights that are exact where a block was drawn, and estimated where it was not."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class BlockPlace:
    """A row of a block; a place stays what it is when heights above it change."""

    index: int
    """The block's, from 0."""
    line: int
    """The row within it, from 0."""


class Layout:
    """Heights in rows, summed in a Fenwick tree: every look-up and correction is O(log n)."""

    def __init__(self, estimates: Iterable[int] = ()) -> None:
        self._heights = list(estimates)
        self._exact = [False] * len(self._heights)
        self._tree = [0, *self._heights]
        self.total = sum(self._heights)
        """Rows of everything."""
        for node in range(1, len(self._tree)):
            above = node + (node & -node)
            if above < len(self._tree):
                self._tree[above] += self._tree[node]

    def __len__(self) -> int:
        return len(self._heights)

    def append(self, estimate: int) -> None:
        """A further block at the end."""
        self._heights.append(estimate)
        self._exact.append(False)
        node = len(self._heights)
        covered = node & -node
        self._tree.append(estimate + self._below(node - 1) - self._below(node - covered))
        self.total += estimate

    def correct(self, index: int, height: int, *, exact: bool = True) -> int:
        """Give a block its height; returns by how much it grew."""
        grown = height - self._heights[index]
        self._exact[index] = exact
        if not grown:
            return 0
        self._heights[index] = height
        self.total += grown
        node = index + 1
        while node < len(self._tree):
            self._tree[node] += grown
            node += node & -node
        return grown

    def height(self, index: int) -> int:
        return self._heights[index]

    def is_exact(self, index: int) -> bool:
        return self._exact[index]

    def offset(self, index: int) -> int:
        """The first row of a block; the row after the last for the index after the last."""
        return self._below(index)

    def at(self, row: int) -> BlockPlace:
        """The place of a row. Rows outside are those of the first and the last block; there must be a block."""
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
            return BlockPlace(node - 1, 0)
        return BlockPlace(node, rest)

    def row(self, place: BlockPlace) -> int:
        """Where a place is now; a line that is gone is the block's last."""
        height = self._heights[place.index]
        return self._below(place.index) + max(0, min(place.line, height - 1))

    def _below(self, count: int) -> int:
        """Rows of the first `count` blocks."""
        total = 0
        while count:
            total += self._tree[count]
            count -= count & -count
        return total
