"""What the user picked in the transcript: the block or call that the keys act on, and the text
selected by mouse."""

from itertools import chain

from textual.selection import Selection
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.lines import Line
from codeagent.tui.transcript.blocks import PromptBlock
from codeagent.tui.transcript.layout import BlockRow, Spot
from codeagent.tui.transcript.sheet import Sheet


@dataclass(frozen=True)
class CursorStop:
    """A block, or one of the calls of a batch."""

    index: int
    """The index of the block."""
    call_id: str = ""
    """The id of one of its calls; empty for the block itself."""


def step(sheet: Sheet, stop: CursorStop, direction: int) -> CursorStop | None:
    """Return the next stop downwards (1) or upwards (-1); None at the end."""
    here = _stops(sheet, stop.index)
    at = here.index(stop) if stop in here else 0
    rest = here[at + 1 :] if direction > 0 else here[:at][::-1]
    further = (
        found
        for index in _beyond(sheet, stop, direction)
        for found in _stops(sheet, index)[::direction]
    )
    return next(chain(rest, further), None)


def step_prompt(sheet: Sheet, stop: CursorStop, direction: int) -> CursorStop | None:
    """Return the next prompt in that direction."""
    blocks = sheet.document.blocks
    prompts = (
        index for index in _beyond(sheet, stop, direction) if isinstance(blocks[index], PromptBlock)
    )
    return next(map(CursorStop, prompts), None)


def rows_of(sheet: Sheet, stop: CursorStop) -> tuple[int, int]:
    """Return the first and the last of its rows in the block, not counting the gap above."""
    drawn = sheet.seen(stop.index)
    spots = (
        spot
        for spot in drawn.spots
        if stop.call_id and spot.call_id == stop.call_id and not spot.whole
    )
    spot = next(spots, Spot(0, max(0, len(drawn.lines) - 1)))
    return spot.first, spot.last


def offered_output(sheet: Sheet, stop: CursorStop) -> str | None:
    """Return the call whose whole output Enter opens here."""
    spots = (spot for spot in sheet.drawn(stop.index).spots if spot.whole)
    return next((spot.call_id for spot in spots if stop.call_id in ("", spot.call_id)), None)


def call_of(sheet: Sheet, stop: CursorStop) -> str | None:
    """Return the call of a stop, or the only call of its block."""
    calls = {spot.call_id for spot in sheet.seen(stop.index).spots if spot.call_id}
    return stop.call_id or (calls.pop() if len(calls) == 1 else None)


def spot_at(sheet: Sheet, index: int, row: int) -> Spot | None:
    """Return what a click on a row of a block acts on: the smallest spot that contains the row."""
    found = [spot for spot in sheet.seen(index).spots if spot.first <= row <= spot.last]
    return min(found, key=lambda spot: (spot.last - spot.first, not spot.whole), default=None)


def selected_text(sheet: Sheet, selection: Selection) -> str:
    """Return the selected text, drawn or not: without gutters, and with wrapped rows as one
    line."""
    count = len(sheet.document.blocks)
    first = 0 if selection.start is None else BlockRow.decoded(selection.start.y).index
    last = (
        count - 1
        if selection.end is None
        else min(count - 1, BlockRow.decoded(selection.end.y).index)
    )
    parts: list[str] = []
    for index in range(first, last + 1):
        lines = sheet.draw(index).lines
        above = sheet.gap(index) if lines else 0
        rows = [Line(Strip.blank(0))] * above + lines
        for number, line in enumerate(rows):
            span = selection.get_span(BlockRow(index, number).encoded)
            if span is None:
                continue
            start, end = max(0, span[0]), None if span[1] == -1 else max(0, span[1])
            parts += ("\n" if line.joins is None else line.joins, line.text[start:end])
    return "".join(parts[1:])


def _beyond(sheet: Sheet, stop: CursorStop, direction: int) -> range:
    """Return the blocks in that direction, the nearest first."""
    return range(stop.index + direction, len(sheet.layout) if direction > 0 else -1, direction)


def _stops(sheet: Sheet, index: int) -> list[CursorStop]:
    drawn = sheet.drawn(index)
    if not drawn.lines:
        return []
    calls = [spot.call_id for spot in drawn.spots if spot.call_id and not spot.whole]
    return [CursorStop(index), *(CursorStop(index, call_id) for call_id in calls if len(calls) > 1)]
