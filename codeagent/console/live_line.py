"""Keeps lines at the end of a terminal during a run without a screen: the answer as it streams, and
one that says what the run waits for, for how long, and what it has cost so far."""

import asyncio
import time
from collections.abc import Callable, Sequence
from math import ceil

from rich.cells import cell_len, chop_cells

from codeagent.core.events import (
    KnownEvent,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
)
from codeagent.core.json_types import MAIN
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import Usage
from codeagent.core.pulse import Pulse, dollars, duration, tokens
from codeagent.core.pulse_events import follow
from codeagent.core.sanitize import one_line

_EVERY = 1.0
_SOON = 0.1
"""Seconds after which a piece of an answer is shown."""
_LINE = "\r\x1b[K"
_STYLES = lazy_regex(r"\x1b\[[0-9;]*m")
_WITH_MODEL, _WITH_USAGE = 60, 40
"""The width from which the model and the cost of the run are shown beside what it waits for."""


class LiveLine:
    """Redraws its lines every second while the main agent waits for its model, or for its calls.

    Needs a running event loop. `draw` writes as it is given; `columns` is the width of the
    terminal; `growing` returns the lines above, which may have styles and are not wider.
    """

    def __init__(
        self,
        draw: Callable[[str], None],
        columns: Callable[[], int],
        clock: Callable[[], float] = time.time,
        *,
        growing: Callable[[], Sequence[str]] | None = None,
        paint: Callable[[str], str] = str,
    ) -> None:
        self._draw = draw
        self._columns = columns
        self._clock = clock
        self._growing = growing
        self._paint = paint
        self._pulse = Pulse()
        self._used = Usage()
        """By the finished turns of this run."""
        self._calls: dict[str, tuple[str, float]] = {}
        """What is running, and since when, by id."""
        self._shown: list[int] = []
        """The width of each line that is on the terminal now."""
        self._alarm: asyncio.TimerHandle | None = None

    def take(self, event: KnownEvent) -> None:
        """Follow an event, and redraw."""
        if event.agent != MAIN:
            return
        follow(self._pulse, event)
        match event:
            case RunStarted():
                self._used = Usage()
            case TurnFinished():
                self._used += event.usage
            case ToolStarted():
                self._calls[event.call_id] = (f"{event.name} {event.target}", event.ts)
            case ToolFinished() | ToolResultAdded():
                self._calls.pop(event.call_id, None)
            case RunFinished():
                self._calls.clear()
            case TextDelta() if self._growing is not None:
                self._redraw_within(_SOON)
            case _:
                pass
        if self._alarm is None:
            self.redraw()

    def words(self, room: int) -> str:
        """Return what the run waits for, in at most that many cells; empty if it waits for
        nothing."""
        now = self._clock()
        model = self._pulse.model.rpartition("/")[2]
        if self._calls:
            what, since = min(self._calls.values(), key=lambda call: call[1])
            more = f" and {len(self._calls) - 1} more" if len(self._calls) > 1 else ""
            rest = [f"{duration(now - since)}{more}"]
        elif what := self._pulse.words(now):
            rest = list(filter(None, [self._pulse.rate(now)]))
            model = "" if self._pulse.state == "asking" else model
        else:
            return ""
        front = f"{model} · " if model and room >= _WITH_MODEL else ""
        back = " · ".join(["", *rest, *(self._taken() if room >= _WITH_USAGE else [])])
        left = max(1, room - _cells(front) - _cells(back))
        return _cut(front + _cut(one_line(what, left), left) + back, room)

    def _taken(self) -> list[str]:
        used = self._used.input_tokens + self._used.output_tokens
        cost = self._used.cost_usd
        return [f"{tokens(used)} tokens"] * bool(used) + ([dollars(cost)] if cost else [])

    def redraw(self) -> None:
        """Draw the lines as they are now, and again every second until the run waits for
        nothing."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        room = max(1, self._columns() - 1)
        words = self.words(room)
        if not words:
            self.erase()
            return
        self._redraw_within(_EVERY)
        above = self._growing() if self._growing is not None else ()
        lines = [*above, self._paint(words)]
        self._draw(self._erasing() + "\n".join(lines))
        self._shown = [_cells(line) for line in lines]

    def _redraw_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._alarm is not None and self._alarm.when() <= loop.time() + seconds:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_later(seconds, self.redraw)

    def erase(self) -> None:
        """Remove the lines, so that others can be printed; they come back within a second."""
        if self._shown:
            self._draw(self._erasing())
            self._shown = []

    def _erasing(self) -> str:
        """Return what removes the lines, which a terminal that became narrower has wrapped."""
        columns = max(1, self._columns())
        rows = sum(max(1, ceil(width / columns)) for width in self._shown)
        return _LINE if rows <= 1 else f"\r\x1b[{rows - 1}A\x1b[J"

    def close(self) -> None:
        """Remove the lines for good; idempotent."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.erase()


def _cells(text: str) -> int:
    return cell_len(_STYLES.sub("", text))


def _cut(text: str, cells: int) -> str:
    """Return as much of the text as fits; a line that wrapped could not be removed again."""
    return text if cell_len(text) <= cells else chop_cells(text, cells)[0]
