"""Searches the transcript: the text of a block, the blocks that contain a text, and its position in
their rows."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Self, assert_never

from codeagent.core.dataclass import dataclass
from codeagent.core.display import TerminalBlock
from codeagent.tui.rendering.lines import Line
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    AnyBlock,
    Batch,
    CallCard,
    CommandBlock,
    Ending,
    Greeting,
    PromptBlock,
    Remark,
    Thoughts,
)
from codeagent.tui.transcript.document import BlockSplice
from codeagent.tui.transcript.render_call import text_of_block


def wording(block: AnyBlock) -> str:
    """Return all text of a block, including folded parts; Markdown as it was written."""
    match block:
        case PromptBlock() | AnswerBlock() | Thoughts() | Remark():
            return block.text
        case Greeting():
            return ""
        case Batch():
            return "\n".join(_card_wording(card) for card in block.cards)
        case CommandBlock():
            return _card_wording(block.card)
        case Ending():
            return "\n".join([block.text or block.reason, *block.lines])
        case _:
            assert_never(block)


def _card_wording(card: CallCard) -> str:
    """Return the call, its outcome, and the kept part of what it printed and changed."""
    printed = [] if card.output is None else card.output.lines()
    shown = (
        said.text
        for block in card.shown
        if not isinstance(block, TerminalBlock)
        for said in text_of_block(block)
    )
    parts = [f"{card.name} {card.target}".rstrip(), card.error, card.said, *shown, *printed]
    return "\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Match:
    index: int
    """The index of the block."""
    nth: int
    """The number of the match within the block, from 0."""


@dataclass(frozen=True)
class MatchSpan:
    """A match, or the part of it on one row."""

    row: int
    start: int
    """The first character, in the row's text."""
    end: int
    nth: int


class FoundMatches:
    """The matches of one text, in order, and the current one. Case matters if the text has
    capitals."""

    def __init__(
        self,
        text: str,
        blocks: Sequence[AnyBlock],
        shown: Mapping[int, Sequence[Line]] = MappingProxyType({}),
    ) -> None:
        """`shown` are the rows of the blocks on screen, which may show more than their text."""
        flags = re.NOFLAG if text != text.lower() else re.IGNORECASE
        self._pattern = re.compile(re.escape(text), flags)
        self._spans: dict[int, tuple[Sequence[Line], dict[int, list[MatchSpan]]]] = {}
        self.matches = tuple(self._found_in(blocks, range(len(blocks)), shown))
        self._at: int | None = None

    def after(self, splice: BlockSplice, blocks: Sequence[AnyBlock]) -> Self:
        """Return the matches after blocks were inserted, including those in the new blocks."""
        found = copy(self)
        above = [match for match in self.matches if match.index < splice.first]
        below = [
            replace(match, index=splice.place(match.index))
            for match in self.matches
            if match.index >= splice.stop
        ]
        added = self._found_in(blocks, range(splice.first, splice.first + splice.count), {})
        found.matches = (*above, *added, *below)
        found._spans = {}
        here = (
            None
            if self.current is None
            else replace(self.current, index=splice.place(self.current.index))
        )
        found._at = found.matches.index(here) if here in found.matches else None
        return found

    @property
    def place(self) -> int:
        """The number of the current match, from 1; 0 if there is none."""
        return 0 if self._at is None else self._at + 1

    @property
    def current(self) -> Match | None:
        return None if self._at is None else self.matches[self._at]

    def move(self, direction: int) -> Match | None:
        """Go to the next match (1) or the one before (-1), wrapping around; at first, to the first
        or the last."""
        if not self.matches:
            return None
        before = self._at if self._at is not None else -1 if direction > 0 else 0
        self._at = (before + direction) % len(self.matches)
        return self.matches[self._at]

    def _found_in(
        self, blocks: Sequence[AnyBlock], places: range, shown: Mapping[int, Sequence[Line]]
    ) -> Iterator[Match]:
        for index in places if self._pattern.pattern else ():
            texts = (wording(blocks[index]), _logical(shown.get(index, ()))[0])
            for nth in range(max(len(self._pattern.findall(text)) for text in texts)):
                yield Match(index, nth)

    def spans(self, index: int, lines: Sequence[Line]) -> dict[int, list[MatchSpan]]:
        """Return the matches in the drawn rows of a block, by row; a match across a wrap is on both
        rows."""
        known = self._spans.get(index)
        if known is not None and known[0] is lines:
            return known[1]
        text, starts = _logical(lines)
        by_row: dict[int, list[MatchSpan]] = {}
        for nth, found in enumerate(self._pattern.finditer(text)):
            for span in _parts(found.start(), found.end(), nth, lines, starts):
                by_row.setdefault(span.row, []).append(span)
        self._spans[index] = (lines, by_row)
        return by_row


def _logical(lines: Sequence[Line]) -> tuple[str, list[int]]:
    """Return the text of rows as if they were not wrapped, and where each row begins in it."""
    parts: list[str] = []
    starts: list[int] = []
    position = 0
    for line in lines:
        between = "\n" if line.joins is None else line.joins
        position += len(between)
        starts.append(position)
        parts += (between, line.text)
        position += len(line.text)
    return "".join(parts), starts


def _parts(
    start: int, end: int, nth: int, lines: Sequence[Line], starts: Sequence[int]
) -> list[MatchSpan]:
    found: list[MatchSpan] = []
    for row in range(max(0, bisect_right(starts, start) - 1), len(lines)):
        first, length = starts[row], len(lines[row].text)
        if first >= end:
            break
        if first + length > start:
            found.append(MatchSpan(row, max(0, start - first), min(length, end - first), nth))
    return found
