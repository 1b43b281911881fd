"""What Esc means, by what is going on and what was pressed before."""

import time
from collections.abc import Callable
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.tui.state import Halt

Meaning = Literal[
    "close_find", "to_writing", "put_plan_away", "pause", "stop", "too_soon", "offer_rewind", "rewind", ""
]
SAID: dict[Meaning, str] = {
    "too_soon": "just paused · Esc again stops now",
    "offer_rewind": "Esc again goes back to an earlier moment",
}
"""What a press that does nothing yet is answered with."""
AGAIN = 2.0
"""Seconds within which a second press goes with the first."""


@dataclass(frozen=True)
class Situation:
    """What Esc would act on."""

    halt: Halt = ""
    finding: bool = False
    """The line of the search is open."""
    elsewhere: bool = False
    """The focus is not in the composer."""
    plan: bool = False
    """A plan is shown that waits for its start."""
    busy: bool = False
    """A run is in progress, or a command of the user's own."""
    command: bool = False
    """It is a command of the user's own."""
    blank: bool = True
    """Nothing is written."""
    new: bool = False
    """The pause is shown for less time than it takes to see it."""


class Escape:
    """The top layer first, then pause, then stop; when nothing is running, twice goes back in the conversation.

    While something runs and no layer is open, the second of two presses always stops it. `clock` gives seconds that
    never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused_at = -AGAIN
        self._offered_at = -AGAIN

    def forget(self) -> None:
        """Something else was done: the next press is a first one."""
        self._paused_at = self._offered_at = -AGAIN

    def press(self, now: Situation) -> Meaning:
        """What this press means; it is remembered for the next."""
        offered, self._offered_at = self._again(self._offered_at), -AGAIN
        if now.finding:
            return "close_find"
        if now.elsewhere:
            return "to_writing"
        if now.plan:
            return "put_plan_away"
        if now.busy:
            return self._working(now)
        if not now.blank:
            return ""
        if offered:
            return "rewind"
        self._offered_at = self._clock()
        return "offer_rewind"

    def _working(self, now: Situation) -> Meaning:
        if now.command or self._again(self._paused_at):
            return "stop"
        if now.halt and not now.new:
            return "stop"
        self._paused_at = self._clock()
        # A pause that comes by itself may do so just when the user asks for one: that press does not stop the run.
        return "too_soon" if now.halt else "pause"

    def _again(self, at: float) -> bool:
        return self._clock() - at < AGAIN
