"""The document as rows at one width: draws the blocks that are looked at, keeps what it drew of the latest of them."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from codeagent.tui.rendering.growing import GrowingMarkdown
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.blocks import AnswerBlock, AnyBlock, Batch, Detail, Ending, Remark, Thoughts
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.drawn import MARGIN, Drawn, Look, Memo
from codeagent.tui.transcript.estimate import estimate
from codeagent.tui.transcript.growing_text import GrowingText
from codeagent.tui.transcript.layout import BlockPlace, Layout
from codeagent.tui.transcript.pieces import Pieces
from codeagent.tui.transcript.render import THOUGHTS_GUTTER, draw, draw_answer, draw_thoughts, gap, runs

GrowingT = TypeVar("GrowingT", GrowingMarkdown, GrowingText)
_KEPT_ROWS = 3_000
"""Rows kept drawn besides those of the blocks in view."""
_PORTION = 2_000
"""Characters of an answer that are drawn between two looks at the clock."""
_AT_A_TIME = 0.012
"""Seconds for which an answer that streams is drawn before a key gets its turn."""
_NARROWEST = 8


@dataclass(slots=True)
class _Growth(Generic[GrowingT]):
    """A text that is drawn while it streams."""

    text: GrowingT
    pieces: Pieces
    fed: int
    """Characters of `pieces` that are in `text`."""
    replaced: int

    @property
    def behind(self) -> bool:
        """There is more to take."""
        return self.fed < self.pieces.length

    def feed(self, most: int | None) -> None:
        """Take further characters, at most so many."""
        if self.behind:
            piece = self.pieces.since(self.fed)[:most]
            self.text.append(piece)
            self.fed += len(piece)


@dataclass(slots=True)
class _Kept:
    drawn: Drawn
    version: int


@dataclass(frozen=True)
class Anchor:
    """What stays at the top of the view, whatever happens above it."""

    place: BlockPlace
    characters: int | None = None
    """How much of the block's text is above, where widths changed since the user scrolled: rows then are
    others, the text is not."""


class Sheet:
    """Rows of a document. `width` in cells with the margin; everything is lazy but the estimates."""

    def __init__(self, document: Document, clock: Callable[[], float], palette: Palette) -> None:
        self.document = document
        self.layout = Layout()
        self.width = 80
        self.detail: Detail = "normal"
        self.palette = palette
        self.damage: dict[int, tuple[int, int]] = {}
        """By block, the first and the last of its rows that look different since the reader cleared it."""
        self._clock = clock
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self.kept_rows = 0
        """Rows that are kept drawn."""
        self._answers: dict[int, _Growth[GrowingMarkdown]] = {}
        self._thoughts: dict[int, _Growth[GrowingText]] = {}
        self._memos: dict[int, Memo] = {}
        self._seen = range(0)

    @property
    def visible(self) -> range:
        """Blocks that `show` found in view."""
        return self._seen

    def absorb(self, changed: Iterable[int]) -> None:
        """Take notice of new and changed blocks; those in view are drawn by the next `show`."""
        blocks = self.document.blocks
        for key in range(len(self.layout), len(blocks)):
            self.layout.append(self._guess(key))
        for key in changed:
            height = self.layout.height(key) if key in self._seen else 0
            self.layout.correct(key, height or self._guess(key), exact=False)

    def set_width(self, width: int) -> None:
        """Draw at another width. Everything is estimated again."""
        if width != self.width:
            self.width = width
            self._forget()

    def set_detail(self, detail: Detail) -> None:
        """Show more or less of everything that does not have a detail of its own."""
        if detail != self.detail:
            self.detail = detail
            self._forget(but=(AnswerBlock, Remark, Ending))

    def set_palette(self, palette: Palette) -> None:
        """Draw in other colours, which changes no height."""
        if palette is not self.palette and palette != self.palette:
            self.palette = palette
            self._drop_all()

    def tick(self) -> None:
        """Draw again what shows a duration that counts on."""
        for index in self._seen:
            if index < len(self.document.blocks) and runs(self.document.blocks[index]):
                self.layout.correct(index, self.layout.height(index), exact=False)

    def show(self, anchor: Anchor | None, height: int) -> int:
        """Draw what is in view with `anchor` at the top, or the end of the document at the bottom (None).

        Returns the row at the top of the view.
        """
        if not len(self.layout):
            self._seen = range(0)
            return 0
        while True:
            top = max(0, self.layout.total - height)
            if anchor is not None:
                top = min(top, self.layout.row(self._placed(anchor)))
            first = self.layout.at(top).index
            last = self.layout.at(top + height - 1).index
            order = range(last, first - 1, -1) if anchor is None else range(first, last + 1)
            stale = next((index for index in order if not self.layout.is_exact(index)), None)
            if stale is None:
                self._seen = range(first, last + 1)
                self._evict()
                return top
            self.drawn(stale)

    def drawn(self, index: int) -> Drawn:
        """The rows of a block, drawn now if need be; its height is exact from then on."""
        block = self.document.blocks[index]
        kept = self._kept.get(index)
        if kept is not None and kept.version == block.version and self.layout.is_exact(index):
            self._kept.move_to_end(index)
            return kept.drawn
        fresh = self.draw(index, keep=True)
        self._note_change(index, kept.drawn if kept is not None else Drawn(), fresh)
        self.kept_rows += len(fresh.lines) - (len(kept.drawn.lines) if kept is not None else 0)
        self._kept[index] = _Kept(fresh, block.version)
        self._kept.move_to_end(index)
        self.layout.correct(index, len(fresh.lines) + self.gap(index) if fresh.lines else 0)
        return fresh

    def draw(self, index: int, *, keep: bool = False) -> Drawn:
        """The rows of a block; without `keep` nothing is remembered of it, for readers of the whole document."""
        block = self.document.blocks[index]
        kept = self._kept.get(index)
        if not keep and kept is not None and kept.version == block.version and self.layout.is_exact(index):
            return kept.drawn
        look = self._look(block)
        if isinstance(block, AnswerBlock) and keep:
            return self._drawn_answer(block, look)
        if isinstance(block, Thoughts) and keep and block.open and look.detail == "full":
            return self._drawn_thoughts(block, look)
        if isinstance(block, Batch) and keep and not block.finished:
            return draw(block, look, self._memos.setdefault(index, {}))
        if keep:
            self._forget_growth(index)
        return draw(block, look)

    def gap(self, index: int) -> int:
        """Blank rows above a block."""
        blocks = self.document.blocks
        return gap(blocks[index - 1] if index else None, blocks[index])

    def above(self, place: BlockPlace, rows: int) -> BlockPlace:
        """The place so many rows further up, exactly: what is in between is drawn."""
        index, line = place.index, place.line - rows
        while line < 0 and index > 0:
            index -= 1
            self.drawn(index)
            line += self.layout.height(index)
        return BlockPlace(index, max(0, line))

    def seen(self, index: int) -> Drawn:
        """The rows of a block as they were drawn last, for painting: what changed since waits for `absorb`."""
        kept = self._kept.get(index)
        return kept.drawn if kept is not None else self.drawn(index)

    def line(self, place: BlockPlace) -> Line | None:
        """The line at a place of the layout; None for the blank rows above a block."""
        line = place.line - self.gap(place.index)
        lines = self.seen(place.index).lines
        return lines[line] if 0 <= line < len(lines) else None

    def held(self, anchor: Anchor | None) -> Anchor | None:
        """The anchor such that it survives another width; to be called before `set_width`."""
        if anchor is None or anchor.characters is not None:
            return anchor
        lines = self.drawn(anchor.place.index).lines[: max(0, anchor.place.line - self.gap(anchor.place.index))]
        return replace(anchor, characters=sum(_length(line) for line in lines))

    def work(self, milliseconds: float) -> bool:
        """Do a part of what is not urgent, such as colours of code in view; whether there is more to do."""
        behind = next((index for index, growth in self._answers.items() if growth.behind), None)
        if behind is not None:
            self.layout.correct(behind, self.layout.height(behind), exact=False)
            if behind not in self._seen:
                self.drawn(behind)
            return True
        for index in self._seen:
            growth = self._answers.get(index)
            if growth is not None and growth.text.needs_work:
                growth.text.work(milliseconds)
                self.layout.correct(index, self.layout.height(index), exact=False)
                self.drawn(index)
                return True
        return False

    def _placed(self, anchor: Anchor) -> BlockPlace:
        if anchor.characters is None:
            return anchor.place
        index, above = anchor.place.index, self.gap(anchor.place.index)
        if anchor.place.line < above:
            return anchor.place
        rest = anchor.characters
        lines = self.drawn(index).lines
        for number, line in enumerate(lines):
            rest -= _length(line)
            if rest < 0:
                return BlockPlace(index, number + above)
        return BlockPlace(index, max(0, len(lines) - 1) + above)

    def _drawn_answer(self, block: AnswerBlock, look: Look) -> Drawn:
        growth = _growth(self._answers, block, lambda: GrowingMarkdown(look.width, look.palette))
        # What is being written is drawn for so long at a time; what is drawn again comes whole, so that nothing moves.
        until = time.monotonic() + _AT_A_TIME if block.open or growth.fed else math.inf
        while growth.behind:
            growth.feed(_PORTION)
            if len(growth.text.lines) and time.monotonic() > until:
                break
        whole = not block.open and not growth.behind
        if whole:
            growth.text.close()
        lines = list(growth.text.lines)
        if whole and not growth.text.needs_work:
            del self._answers[block.key]
        return draw_answer(block, lines, look)

    def _drawn_thoughts(self, block: Thoughts, look: Look) -> Drawn:
        style = look.palette.thinking
        growth = _growth(self._thoughts, block, lambda: GrowingText(look.width, style, THOUGHTS_GUTTER))
        growth.feed(None)
        return draw_thoughts(block, growth.text.lines, look)

    def _note_change(self, index: int, before: Drawn, after: Drawn) -> None:
        """Say which rows of a block look different; what is finished of the others stays."""
        old, new = before.lines, after.lines
        first = _alike(old, new)
        last = len(new) - 1 - (_alike(old[:first:-1], new[:first:-1]) if len(old) == len(new) else 0)
        if first < max(len(old), len(new)):
            known = self.damage.get(index, (first, last))
            self.damage[index] = (min(first, known[0]), max(last, known[1]))
        if before.margin == after.margin:
            after.base = before.base
            after.finished = {
                row: strip for row, strip in before.finished.items() if row < first or last < row < len(new)
            }

    def _look(self, block: AnyBlock) -> Look:
        width = max(_NARROWEST, self.width - MARGIN)
        return Look(width, block.detail or self.detail, self.palette, self._clock())

    def _guess(self, index: int) -> int:
        block = self.document.blocks[index]
        rows = estimate(block, max(_NARROWEST, self.width - MARGIN), block.detail or self.detail)
        return rows + self.gap(index) if rows else 0

    def _forget(self, but: tuple[type[AnyBlock], ...] = ()) -> None:
        """Drop what was drawn, and heights with it, of all blocks but those of some types."""
        blocks = self.document.blocks[: len(self.layout)]
        old = self.layout
        stays = [isinstance(block, but) and old.is_exact(block.key) for block in blocks]
        self.layout = Layout(
            old.height(block.key) if stay else self._guess(block.key) for block, stay in zip(blocks, stays, strict=True)
        )
        for index, stay in enumerate(stays):
            if stay:
                self.layout.correct(index, old.height(index))
        if not but:
            self._drop_all()
            return
        for index in [index for index in self._kept if not isinstance(blocks[index], but)]:
            self._drop(index)

    def _drop_all(self) -> None:
        self._kept.clear()
        for growths in (self._answers, self._thoughts, self._memos):
            growths.clear()
        self.kept_rows = 0

    def _drop(self, index: int) -> None:
        self.kept_rows -= len(self._kept.pop(index).drawn.lines)
        self._forget_growth(index)

    def _forget_growth(self, index: int) -> None:
        self._answers.pop(index, None)
        self._thoughts.pop(index, None)
        self._memos.pop(index, None)

    def _evict(self) -> None:
        """Keep memory flat: what was not looked at for long is drawn again when it is."""
        if self.kept_rows <= _KEPT_ROWS:
            return
        for index in [index for index in self._kept if index not in self._seen]:
            if self.kept_rows <= _KEPT_ROWS:
                return
            self._drop(index)


def _length(line: Line) -> int:
    return len(line.text) + (1 if line.joins is None else len(line.joins))


def _alike(some: Sequence[Line], others: Sequence[Line]) -> int:
    """How many look the same until two do not."""
    for number, (one, other) in enumerate(zip(some, others, strict=False)):
        if one is not other and one != other:
            return number
    return min(len(some), len(others))


def _growth(
    growths: dict[int, _Growth[GrowingT]], block: AnswerBlock | Thoughts, make: Callable[[], GrowingT]
) -> _Growth[GrowingT]:
    """The one of this block; begun again where its text was replaced."""
    growth = growths.get(block.key)
    if growth is None or growth.replaced != block.pieces.replaced:
        growth = growths[block.key] = _Growth(make(), block.pieces, 0, block.pieces.replaced)
    return growth
