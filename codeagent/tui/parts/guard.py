"""When a key counts: once its question was there long enough to be read, and was on screen to its end."""

from collections.abc import Callable, Sequence

from textual.errors import NoWidget

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.parts.card_content import LazyMeaning, Send, Writing
from codeagent.tui.parts.line_pane import LinePane

TOO_SOON = "ignored (just appeared): press again"
QUIET = 0.5
"""Seconds after the question appeared, and after the user typed, in which no key counts."""
REPEAT = 0.7
"""Seconds within which the same key again is a key held down: repeating begins after 0.25 to 0.66."""
TOO_SMALL = "too small to show it: enlarge the window to allow"
UNKNOWN = "part of it cannot be shown here: it cannot be allowed"
NOT_DRAWN = "not drawn yet: press again"


class Guard:
    """Decides with `clock`, which gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed_until = float("-inf")
        self._appeared = float("-inf")
        self._last_key = ""
        self._last_at = float("-inf")

    def appear(self) -> None:
        """The question was just shown."""
        self._appeared = self._clock()
        self.close()

    def close(self) -> None:
        """Begin the wait again: the user typed, or the window came to the front."""
        self._closed_until = self._clock() + QUIET

    @property
    def new(self) -> bool:
        """The question has been shown for less time than it takes to see it."""
        return self._clock() - self._appeared < QUIET

    @property
    def quiet(self) -> bool:
        """The wait is over."""
        return self._clock() >= self._closed_until

    def admits(self, key: str) -> bool:
        """Take note of a key that would move the focus or answer; True if it counts."""
        now = self._clock()
        held = key == self._last_key and now - self._last_at < REPEAT
        self._last_key, self._last_at = key, now
        return self.quiet and not held


def allows(does: LazyMeaning) -> bool:
    """It would let the call happen that is asked about: allowed only once all of the call was on screen."""
    match does:
        case Send():
            return any(isinstance(act, Answer) and act.decision.answer not in ("deny", "edit") for act in does.acts)
        case Writing():
            return does.allows
        case _:
            return False


def wholly_on_screen(pane: LinePane) -> bool:
    """The pane is on screen with all its rows and columns, and nothing lies over it."""
    if not pane.is_attached or not pane.display or pane.screen is not pane.app.screen:
        return False
    shown = pane.scrollable_content_region
    if shown.height < 1 or shown.width < max(1, pane.widest):
        return False
    return all(_on_top(pane, x, y) for y in shown.line_range for x in (shown.x, shown.right - 1))


def _on_top(pane: LinePane, x: int, y: int) -> bool:
    """The pane is what the user sees in that cell of the screen."""
    try:
        return pane.screen.get_widget_at(x, y)[0] is pane
    except NoWidget:
        return False


class Gate:
    """Open for what was on screen to its last line once; showing it differently later changes nothing."""

    def __init__(self, pane: LinePane) -> None:
        self._pane = pane
        self._seen: dict[str, ApprovalRequested] = {}

    def forget(self, waiting: Sequence[ApprovalRequested]) -> None:
        """Keep in mind only what waits now: a question that comes again has to be read again."""
        now = {question.approval_id: question for question in waiting}
        self._seen = {key: seen for key, seen in self._seen.items() if now.get(key) == seen}

    def look(self, shown: Sequence[ApprovalRequested]) -> None:
        """Take note of what is on screen now; called after it was drawn. `shown` is what the pane shows."""
        if self._pane.at_end and wholly_on_screen(self._pane):
            self._seen |= {question.approval_id: question for question in shown}

    def is_unread(self, shown: Sequence[ApprovalRequested]) -> bool:
        """There is more to read below."""
        return not self._was_seen(shown) and self._pane.below > 0

    def why_closed(self, shown: Sequence[ApprovalRequested], *, whole: bool, key: str = "y") -> str:
        """What has to happen before allowing; empty if the gate is open.

        `whole`: the pane can show all of it. `key` is the one that reads on, and allows in the end.
        """
        if not whole:
            return UNKNOWN
        if not wholly_on_screen(self._pane):
            return TOO_SMALL
        if self._was_seen(shown):
            return ""
        if not self._pane.below and self._pane.complete:
            return NOT_DRAWN
        page, pages = self._pane.pages
        return f"{key}: read on, page {page} of {pages}{'' if self._pane.complete else '+'} · End jumps there"

    def _was_seen(self, shown: Sequence[ApprovalRequested]) -> bool:
        return all(self._seen.get(question.approval_id) == question for question in shown)
