"""Whether what is asked was on screen to its end, without which nothing can be allowed."""

from collections.abc import Sequence

from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.widgets.line_pane import LinePane
from codeagent.tui.widgets.on_screen import wholly_on_screen

TOO_SMALL = "too small to show it: enlarge the window to allow"
UNKNOWN = "part of it cannot be shown here: it cannot be allowed"
NOT_DRAWN = "not drawn yet: press again"


class Gate:
    """Open for what was on screen to its last line once; what is shown otherwise later is no other question."""

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
        """What has to happen before allowing; empty where the gate is open.

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
