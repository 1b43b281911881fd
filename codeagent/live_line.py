"""The one line that a run without a screen keeps on a terminal: what is awaited, and for how
long."""

import asyncio
import time
from collections.abc import Callable
from unicodedata import east_asian_width

from codeagent.core.events import (
    KnownEvent,
    RunFinished,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.json_types import MAIN
from codeagent.core.pulse import Pulse, duration
from codeagent.core.pulse_events import follow
from codeagent.core.sanitize import one_line

_EVERY = 1.0
_ERASE = "\r\x1b[K"


class LiveLine:
    """Redraws one line every second while the main agent waits for its model, or for its calls.

    Needs a running event loop. `draw` writes as it is given; `columns` is the width of the
    terminal.
    """

    def __init__(
        self,
        draw: Callable[[str], None],
        columns: Callable[[], int],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._draw = draw
        self._columns = columns
        self._clock = clock
        self._pulse = Pulse()
        self._calls: dict[str, tuple[str, float]] = {}
        """What is running, and since when, by id."""
        self._shown = False
        self._alarm: asyncio.TimerHandle | None = None

    def take(self, event: KnownEvent) -> None:
        """Follow an event, and redraw."""
        if event.agent != MAIN:
            return
        follow(self._pulse, event)
        match event:
            case ToolStarted():
                self._calls[event.call_id] = (f"{event.name} {event.target}", event.ts)
            case ToolFinished() | ToolResultAdded():
                self._calls.pop(event.call_id, None)
            case RunFinished():
                self._calls.clear()
            case _:
                pass
        if self._alarm is None:
            self.redraw()

    def words(self) -> str:
        """Return what is awaited now; empty if nothing is."""
        now = self._clock()
        if self._calls:
            what, since = min(self._calls.values(), key=lambda call: call[1])
            more = f" and {len(self._calls) - 1} more" if len(self._calls) > 1 else ""
            return f"{duration(now - since)}{more} · {what}"
        return " · ".join(filter(None, (self._pulse.words(now), self._pulse.rate(now))))

    def redraw(self) -> None:
        """Draw the line as it is now, and again every second until nothing is awaited."""
        if self._alarm is not None:
            self._alarm.cancel()
        words = self.words()
        self._alarm = asyncio.get_running_loop().call_later(_EVERY, self.redraw) if words else None
        room = max(1, self._columns() - 1)
        if words:
            self._draw(_ERASE + _cut(one_line(words, room), room))
            self._shown = True
        else:
            self.erase()

    def erase(self) -> None:
        """Remove the line, so that another can be printed; it comes back within a second."""
        if self._shown:
            self._draw(_ERASE)
            self._shown = False

    def close(self) -> None:
        """Remove the line for good; idempotent."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.erase()


def _cut(text: str, cells: int) -> str:
    """Return as much of the text as fits; a line that wrapped could not be removed again."""
    left = cells
    for at, character in enumerate(text):
        left -= 2 if east_asian_width(character) in "WF" else 1
        if left < 0:
            return text[:at]
    return text
