"""The document as rows at one width: draws the blocks in view, and caches recently drawn rows."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.growing import GrowingMarkdown, GrowingText
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    AnyBlock,
    Batch,
    Detail,
    Ending,
    Remark,
    Thoughts,
)
from codeagent.tui.transcript.document import BlockSplice, Document
from codeagent.tui.transcript.layout import MARGIN, BlockRow, Drawn, Layout, Look
from codeagent.tui.transcript.render import (
    THOUGHTS_GUTTER,
    draw,
    draw_answer,
    draw_thoughts,
    estimate,
    gap,
    runs,
)
from codeagent.tui.transcript.render_call import Memo

_KEPT_ROWS = 3_000
"""Rows cached besides those of the blocks in view."""
_PORTION = 2_000
"""Characters of an answer that are drawn before the clock is checked again."""
_AT_A_TIME = 0.012
"""Seconds for which a streaming answer is drawn before keys are handled."""
_NARROWEST = 8


@dataclass(slots=True)
class _Growth:
    """An answer that is drawn while it streams."""

    text: GrowingMarkdown
    replaced: int
    """`replaced` of its pieces at the start."""
    fed: int = 0
    """How many characters of the pieces are in `text`."""


@dataclass(frozen=True)
class Anchor:
    """What stays at the top of the view, whatever happens above it."""

    place: BlockRow
    characters: int | None = None
    """How much of the block's text is above, if the width changed since the user scrolled: its rows
    differ then, its text does not."""


class Sheet:
    """Rows of a document. `width` is in cells with the margin; everything but the estimates is
    lazy."""

    def __init__(self, document: Document, clock: Callable[[], float], palette: Palette) -> None:
        self.document = document
        self.layout = Layout()
        self.width = 80
        self.detail: Detail = "normal"
        self.palette = palette
        self.damage: dict[int, tuple[int, int]] = {}
        """By block, the first and the last row that changed since the reader cleared this."""
        self._clock = clock
        self._kept: OrderedDict[int, Drawn] = OrderedDict()
        self.kept_rows = 0
        """The number of cached rows."""
        self._answers: dict[int, _Growth] = {}
        self._thoughts: dict[int, GrowingText] = {}
        self._memos: dict[int, Memo] = {}
        self.visible = range(0)
        """The blocks that `show` found in view."""

    def absorb(self, changed: Iterable[int]) -> None:
        """Note new and changed blocks; those in view are drawn by the next `show`."""
        blocks = self.document.blocks
        known = len(self.layout)
        for key in range(known, len(blocks)):
            self.layout.append(self._guess(key))
        for key in (key for key in changed if key < known):
            height = self.layout.height(key) if key in self.visible else 0
            self.layout.correct(key, height or self._guess(key), exact=False)

    def splice(self, splice: BlockSplice) -> None:
        """Move blocks to their new places, and estimate those that were inserted."""
        known = len(self.layout)
        if known <= splice.first:
            return
        added = range(splice.first, splice.first + splice.count)
        self.layout.splice(
            replace(splice, stop=min(splice.stop, known)), [self._guess(index) for index in added]
        )
        if added.stop < len(self.layout):
            self.layout.outdate(added.stop)  # the gap above it may differ now
        for index in [index for index in self._kept if splice.first <= index < splice.stop]:
            self._drop(index)
        self._kept = OrderedDict(
            (splice.place(index), drawn) for index, drawn in self._kept.items()
        )
        self._answers = {splice.place(index): growth for index, growth in self._answers.items()}
        self._thoughts = {splice.place(index): text for index, text in self._thoughts.items()}
        self._memos = {splice.place(index): memo for index, memo in self._memos.items()}
        self.damage = {}
        self.visible = range(0)

    def set_width(self, width: int) -> None:
        """Draw at another width; all heights are estimated again."""
        if width != self.width:
            self.width = width
            self._forget()

    def paint_again(self) -> None:
        """Forget the strips of rows, because the links in them have changed."""
        for drawn in self._kept.values():
            drawn.finished.clear()

    def set_detail(self, detail: Detail) -> None:
        """Show more or less of everything that does not have a detail of its own."""
        if detail != self.detail:
            self.detail = detail
            self._forget(but=(AnswerBlock, Remark, Ending))

    def set_palette(self, palette: Palette) -> None:
        """Draw in other colours, which does not change heights."""
        if palette is not self.palette and palette != self.palette:
            self.palette = palette
            for index in tuple(self._kept):
                self._drop(index)

    def tick(self) -> None:
        """Redraw durations that are counting."""
        for index in self.visible:
            if index < len(self.document.blocks) and runs(self.document.blocks[index]):
                self.layout.outdate(index)

    def show(self, anchor: Anchor | None, height: int) -> int:
        """Draw what is in view with `anchor` at the top or, if None, with the end of the document
        at the bottom.

        Returns the row at the top of the view.
        """
        if not len(self.layout):
            self.visible = range(0)
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
                self.visible = range(first, last + 1)
                self._evict()
                return top
            self.drawn(stale)

    def drawn(self, index: int) -> Drawn:
        """Return the rows of a block, drawn now if needed; its height is exact from then on."""
        before = self._kept.get(index)
        drawn = self._current(index)
        if drawn is None:
            drawn = self._draw_to_keep(self.document.blocks[index])
            drawn.version = self.document.blocks[index].version
            self._note_change(index, before or Drawn(), drawn)
            self.kept_rows += len(drawn.lines) - (len(before.lines) if before is not None else 0)
            self._kept[index] = drawn
            self.layout.correct(index, len(drawn.lines) + self.gap(index) if drawn.lines else 0)
        self._kept.move_to_end(index)
        return drawn

    def draw(self, index: int) -> Drawn:
        """Return the rows of a block without caching them, for readers of the whole document."""
        block = self.document.blocks[index]
        return self._current(index) or draw(block, self._look(block))

    def _current(self, index: int) -> Drawn | None:
        """Return the cached rows of a block, if it has not changed since."""
        kept = self._kept.get(index)
        same = kept is not None and kept.version == self.document.blocks[index].version
        return kept if same and self.layout.is_exact(index) else None

    def _draw_to_keep(self, block: AnyBlock) -> Drawn:
        look = self._look(block)
        if isinstance(block, AnswerBlock):
            return self._drawn_answer(block, look)
        if isinstance(block, Thoughts) and block.open and look.detail == "full":
            return self._drawn_thoughts(block, look)
        if isinstance(block, Batch) and not block.finished:
            return draw(block, look, self._memos.setdefault(block.key, {}))
        self._forget_growth(block.key)
        return draw(block, look)

    def gap(self, index: int) -> int:
        """Return the blank rows above a block."""
        blocks = self.document.blocks
        return gap(blocks[index - 1] if index else None, blocks[index])

    def above(self, place: BlockRow, rows: int) -> BlockRow:
        """Return the place exactly that many rows further up; what is in between is drawn."""
        index, line = place.index, place.line - rows
        while line < 0 and index > 0:
            index -= 1
            self.drawn(index)
            line += self.layout.height(index)
        return BlockRow(index, max(0, line))

    def seen(self, index: int) -> Drawn:
        """Return the rows of a block as they were last drawn, for painting; changes since then wait
        for `absorb`."""
        return self._kept.get(index) or self.drawn(index)

    def line(self, place: BlockRow) -> Line | None:
        """Return the line at a place of the layout; None for the blank rows above a block."""
        line = place.line - self.gap(place.index)
        lines = self.seen(place.index).lines
        return lines[line] if 0 <= line < len(lines) else None

    def held(self, anchor: Anchor | None) -> Anchor | None:
        """Return an anchor that survives a change of width; call it before `set_width`."""
        if anchor is None or anchor.characters is not None:
            return anchor
        lines = self.drawn(anchor.place.index).lines[
            : max(0, anchor.place.line - self.gap(anchor.place.index))
        ]
        return replace(anchor, characters=sum(_length(line) for line in lines))

    def work(self, milliseconds: float) -> bool:
        """Do some work that is not urgent, such as colouring code in view; return whether more is
        left."""
        for index, growth in self._answers.items():
            block = self.document.blocks[index]
            if isinstance(block, AnswerBlock) and growth.fed < block.pieces.length:
                self.layout.outdate(index)
                if index not in self.visible:
                    self.drawn(index)
                return True
        for index in self.visible:
            shown = self._answers.get(index)
            if shown is not None and shown.text.needs_work:
                shown.text.work(milliseconds)
                self.layout.outdate(index)
                self.drawn(index)
                return True
        return False

    def _placed(self, anchor: Anchor) -> BlockRow:
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
                return BlockRow(index, number + above)
        return BlockRow(index, max(0, len(lines) - 1) + above)

    def _drawn_answer(self, block: AnswerBlock, look: Look) -> Drawn:
        pieces, growth = block.pieces, self._answers.get(block.key)
        if growth is None or growth.replaced != pieces.replaced:
            growth = self._answers[block.key] = _Growth(
                GrowingMarkdown(look.width, look.palette), pieces.replaced
            )
        # A streaming answer is drawn for a limited time; one drawn again is drawn in full, so that
        # nothing moves.
        in_portions, until = block.open or growth.fed > 0, time.monotonic() + _AT_A_TIME
        while growth.fed < pieces.length:
            piece = pieces.since(growth.fed)[: _PORTION if in_portions else None]
            growth.text.append(piece)
            growth.fed += len(piece)
            if in_portions and len(growth.text.lines) and time.monotonic() > until:
                break
        whole = not block.open and growth.fed == pieces.length
        if whole:
            growth.text.close()
        lines = list(growth.text.lines)
        if whole and not growth.text.needs_work:
            del self._answers[block.key]
        return draw_answer(block, lines, look)

    def _drawn_thoughts(self, block: Thoughts, look: Look) -> Drawn:
        if block.key not in self._thoughts:
            self._thoughts[block.key] = GrowingText(
                look.width, look.palette.talk.thinking, THOUGHTS_GUTTER
            )
        text = self._thoughts[block.key]
        text.append(block.pieces.since(text.length))
        return draw_thoughts(block, text.lines, look)

    def _note_change(self, index: int, before: Drawn, after: Drawn) -> None:
        """Note which rows of a block changed; the painted strips of the others are kept."""
        old, new = before.lines, after.lines
        first = _alike(old, new)
        last = (
            len(new) - 1 - (_alike(old[:first:-1], new[:first:-1]) if len(old) == len(new) else 0)
        )
        if first < max(len(old), len(new)):
            known = self.damage.get(index, (first, last))
            self.damage[index] = (min(first, known[0]), max(last, known[1]))
        if before.margin == after.margin:
            after.base = before.base
            after.finished = {
                row: strip
                for row, strip in before.finished.items()
                if row < first or last < row < len(new)
            }

    def _look(self, block: AnyBlock) -> Look:
        width = max(_NARROWEST, self.width - MARGIN)
        return Look(width, block.detail or self.detail, self.palette, self._clock())

    def _guess(self, index: int) -> int:
        block = self.document.blocks[index]
        rows = estimate(block, max(_NARROWEST, self.width - MARGIN), block.detail or self.detail)
        return rows + self.gap(index) if rows else 0

    def _forget(self, but: tuple[type[AnyBlock], ...] = ()) -> None:
        """Drop the rows and heights of all blocks except those of some types."""
        blocks, old = self.document.blocks, self.layout
        stays = {
            index
            for index in range(len(old))
            if isinstance(blocks[index], but) and old.is_exact(index)
        }
        self.layout = Layout(
            old.height(index) if index in stays else self._guess(index) for index in range(len(old))
        )
        for index in stays:
            self.layout.correct(index, old.height(index))
        for index in [index for index in self._kept if not isinstance(blocks[index], but)]:
            self._drop(index)

    def _drop(self, index: int) -> None:
        self.kept_rows -= len(self._kept.pop(index).lines)
        self._forget_growth(index)

    def _forget_growth(self, index: int) -> None:
        self._answers.pop(index, None)
        self._thoughts.pop(index, None)
        self._memos.pop(index, None)

    def _evict(self) -> None:
        """Bound memory: drop rows that were not in view for long; they are drawn again when
        needed."""
        if self.kept_rows <= _KEPT_ROWS:
            return
        for index in [index for index in self._kept if index not in self.visible]:
            if self.kept_rows <= _KEPT_ROWS:
                return
            self._drop(index)


def _length(line: Line) -> int:
    return len(line.text) + (1 if line.joins is None else len(line.joins))


def _alike(some: Sequence[Line], others: Sequence[Line]) -> int:
    """Count the lines before the first two that differ."""
    for number, (one, other) in enumerate(zip(some, others, strict=False)):
        if one is not other and one != other:
            return number
    return min(len(some), len(others))
