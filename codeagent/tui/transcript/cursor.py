"""What the keys act on: a block, or one of the calls of a batch."""

from dataclasses import dataclass

from codeagent.tui.transcript.blocks import PromptBlock
from codeagent.tui.transcript.drawn import Spot
from codeagent.tui.transcript.sheet import Sheet


@dataclass(frozen=True)
class CursorStop:
    index: int
    """The block's."""
    call_id: str = ""
    """One of its calls; empty for the block itself."""


def step(sheet: Sheet, stop: CursorStop, direction: int) -> CursorStop | None:
    """The next stop downwards (1) or upwards (-1); None at the end."""
    here = _stops(sheet, stop.index)
    at = here.index(stop) if stop in here else -1 if direction > 0 else 0
    if 0 <= at + direction < len(here):
        return here[at + direction]
    index = stop.index + direction
    while 0 <= index < len(sheet.layout):
        found = _stops(sheet, index)
        if found:
            return found[0] if direction > 0 else found[-1]
        index += direction
    return None


def step_prompt(sheet: Sheet, stop: CursorStop, direction: int) -> CursorStop | None:
    """The next thing the user said."""
    index = stop.index + direction
    while 0 <= index < len(sheet.layout):
        if isinstance(sheet.document.blocks[index], PromptBlock):
            return CursorStop(index)
        index += direction
    return None


def rows(sheet: Sheet, stop: CursorStop) -> tuple[int, int]:
    """The first and the last of its rows in the block, the gap above not counted."""
    drawn = sheet.seen(stop.index)
    if stop.call_id:
        for spot in drawn.spots:
            if spot.call_id == stop.call_id and not spot.whole:
                return spot.first, spot.last
    return 0, max(0, len(drawn.lines) - 1)


def offered(sheet: Sheet, stop: CursorStop) -> str | None:
    """The call whose whole output Enter opens here."""
    spots = (spot for spot in sheet.drawn(stop.index).spots if spot.whole)
    return next((spot.call_id for spot in spots if stop.call_id in ("", spot.call_id)), None)


def call_of(sheet: Sheet, stop: CursorStop) -> str | None:
    """The call that a stop is, or that is the only one of its block."""
    calls = {spot.call_id for spot in sheet.seen(stop.index).spots if spot.call_id}
    return stop.call_id or (calls.pop() if len(calls) == 1 else None)


def spot_at(sheet: Sheet, index: int, row: int) -> Spot | None:
    """What a click on a row of a block is about: the smallest that holds it."""
    found = [spot for spot in sheet.seen(index).spots if spot.first <= row <= spot.last]
    return min(found, key=lambda spot: (spot.last - spot.first, not spot.whole), default=None)


def _stops(sheet: Sheet, index: int) -> list[CursorStop]:
    drawn = sheet.drawn(index)
    if not drawn.lines:
        return []
    calls = [spot.call_id for spot in drawn.spots if spot.call_id and not spot.whole]
    return [CursorStop(index), *(CursorStop(index, call_id) for call_id in calls if len(calls) > 1)]
