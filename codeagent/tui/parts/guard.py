"""Decides when a key counts: once the question was shown long enough to be read, and was on screen
to its end."""

from collections.abc import Callable, Sequence

from textual.errors import NoWidget

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import UnknownBlock
from codeagent.tui.parts.card_content import LazyMeaning, Send, Writing
from codeagent.tui.parts.line_pane import LinePane

TOO_SOON = "ignored (just appeared): press again"
QUIET = 0.5
"""Seconds after the question appeared, and after the user typed, in which keys do not count."""
REPEAT = 0.7
"""Seconds within which the same key counts as held down: keyboards start repeating after 0.25 to
0.66."""
TOO_SMALL = "the window is too small to show it: enlarge it to allow"
UNKNOWN = "part of it cannot be shown here, so it cannot be allowed"
NOT_DRAWN = "not drawn yet: press again"


class Guard:
    """Decides whether a key counts; `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed_until = float("-inf")
        self._typing_until = float("-inf")
        self._appeared = float("-inf")
        self._last_key = ""
        self._last_at = float("-inf")

    def appear(self) -> None:
        """Start the wait: the question was just shown."""
        self._appeared = self._clock()
        self.close()

    def close(self) -> None:
        """Start the wait again: a key was meant for something else, or the window came to the
        front."""
        self._closed_until = self._clock() + QUIET

    def typed(self) -> None:
        """Start the wait again: the user is typing text."""
        self._typing_until = self._clock() + QUIET

    def sent(self) -> None:
        """End the wait for what was typed: it was sent, so the next key is meant for the
        question."""
        self._typing_until = float("-inf")

    def moved(self, key: str) -> None:
        """Record a key that only moves within the question: the one before it is no longer held
        down."""
        self._last_key = key

    @property
    def new(self) -> bool:
        """Whether the question has not been shown long enough to be noticed."""
        return self._clock() - self._appeared < QUIET

    @property
    def quiet(self) -> bool:
        """Whether the wait is over."""
        return self._clock() >= max(self._closed_until, self._typing_until)

    def admits(self, key: str) -> bool:
        """Record a key that would move the focus or answer; True if it counts."""
        now = self._clock()
        held = key == self._last_key and now - self._last_at < REPEAT
        self._last_key = key
        self._last_at = now
        return self.quiet and not held


def allows(does: LazyMeaning) -> bool:
    """Whether it would allow the call in question, which is possible only once all of the call was
    on screen."""
    match does:
        case Send():
            return any(
                isinstance(act, Answer) and act.decision.answer not in ("deny", "edit")
                for act in does.acts
            )
        case Writing():
            return does.allows
        case _:
            return False


def wholly_on_screen(pane: LinePane) -> bool:
    """Whether the pane is on screen with all its rows and columns, and nothing covers it."""
    if not pane.is_attached or not pane.display or pane.screen is not pane.app.screen:
        return False
    shown = pane.scrollable_content_region
    if shown.height < 1 or shown.width < max(1, pane.widest):
        return False
    return all(_on_top(pane, x, y) for y in shown.line_range for x in (shown.x, shown.right - 1))


def _on_top(pane: LinePane, x: int, y: int) -> bool:
    """Whether the pane is what the user sees in that cell of the screen."""
    try:
        return pane.screen.get_widget_at(x, y)[0] is pane
    except NoWidget:
        return False


class ReadGate:
    """Open for questions that were on screen to the last line once, even if they are shown
    differently later."""

    def __init__(self, pane: LinePane) -> None:
        self._pane = pane
        self._seen: dict[str, ApprovalRequested] = {}

    def forget(self, waiting: Sequence[ApprovalRequested]) -> None:
        """Remember only the waiting questions: one that is asked again has to be read again."""
        now = {question.approval_id: question for question in waiting}
        self._seen = {key: seen for key, seen in self._seen.items() if now.get(key) == seen}

    def look(self, shown: Sequence[ApprovalRequested]) -> None:
        """Record what is on screen now; call it after drawing. `shown` are the questions in the
        pane."""
        if self._pane.at_end and wholly_on_screen(self._pane):
            self._seen |= {question.approval_id: question for question in shown}

    def is_unread(self, shown: Sequence[ApprovalRequested]) -> bool:
        """Whether there is more to read below."""
        return not self._was_seen(shown) and self._pane.below > 0

    def why_closed(self, shown: Sequence[ApprovalRequested], *, key: str = "y") -> str:
        """Return what has to happen before allowing; empty if the gate is open, or nothing
        has to be read.

        `key` is the one that pages down and, at the end, allows.
        """
        if not shown:
            return ""
        blocks = (block for question in shown for block in question.blocks)
        if any(isinstance(block, UnknownBlock) for block in blocks):
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
