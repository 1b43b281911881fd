"""Decides what Esc means from what is happening and what was pressed before."""

import time
from collections.abc import Callable
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.tui.status import Halt

Meaning = Literal[
    "close_find",
    "to_writing",
    "put_plan_away",
    "pause",
    "stop",
    "stop_command",
    "stopped",
    "too_soon",
    "offer_rewind",
    "rewind",
    "",
]
SAID: dict[Meaning, str] = {
    "stopped": "already stopped",
    "too_soon": "just paused · Esc again stops now",
    "offer_rewind": "Esc again goes back to an earlier moment",
}
"""The message for a press that does nothing yet."""
AGAIN = 2.0
"""Seconds within which a second press belongs to the first, and within which one after a stop does
nothing."""


@dataclass(frozen=True)
class Situation:
    """Everything that decides what Esc does."""

    halt: Halt = ""
    finding: bool = False
    """The line for searching is open."""
    elsewhere: bool = False
    """The focus is not in the composer."""
    plan: bool = False
    """A plan is shown that waits to be started."""
    busy: bool = False
    """A run, or a command of the user's own, is in progress."""
    command: bool = False
    """A command of the user's own is running, beside a run or without one."""
    blank: bool = True
    """The composer is empty."""
    new: bool = False
    """The pause has not been shown long enough to be noticed."""


class Escape:
    """Closes the top layer first, then pauses, then stops; if nothing is running, twice goes back
    to an earlier moment.

    While a run is in progress and no layer is open, the second of two presses always stops it. A
    command of the user's own is stopped first, and alone. After a stop, further presses do nothing
    for a moment, so that none of them pauses a run, or goes back. `clock` gives seconds that never
    go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused_at = self._offered_at = self._stopped_at = -AGAIN

    def forget(self) -> None:
        """Forget the last press, since something else was done: the next one is a first press."""
        self._paused_at = self._offered_at = self._stopped_at = -AGAIN

    def press(self, now: Situation) -> Meaning:
        """Return what this press means, and remember it for the next."""
        offered = self._again(self._offered_at)
        self._offered_at = -AGAIN
        if now.finding:
            return "close_find"
        if now.elsewhere:
            return "to_writing"
        if now.plan:
            return "put_plan_away"
        if self._again(self._stopped_at):
            return "stopped"
        if now.busy:
            return self._working(now)
        if not now.blank:
            return ""
        if offered:
            return "rewind"
        self._offered_at = self._clock()
        return "offer_rewind"

    def _working(self, now: Situation) -> Meaning:
        if now.command or self._again(self._paused_at) or (now.halt and not now.new):
            self._stopped_at = self._clock()
            return "stop_command" if now.command else "stop"
        self._paused_at = self._clock()
        # The run may pause by itself just as the user asks for a pause: that press must not stop
        # the run.
        return "too_soon" if now.halt else "pause"

    def _again(self, at: float) -> bool:
        return self._clock() - at < AGAIN
