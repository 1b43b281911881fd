"""Whether what is asked was on screen to its end, without which nothing can be allowed."""

from codeagent.tui.widgets.line_pane import LinePane
from codeagent.tui.widgets.on_screen import wholly_on_screen

TOO_SMALL = "too small to show it: enlarge the window to allow"
UNKNOWN = "part of it cannot be shown here: it cannot be allowed"
NOT_DRAWN = "not drawn yet: press again"


class Gate:
    """Open for what the pane shows once its last line was on screen at the present width."""

    def __init__(self, pane: LinePane) -> None:
        self._pane = pane
        self._seen: tuple[tuple[str, ...], int] | None = None

    def close(self) -> None:
        """Something else is shown now, though it may have the same ids."""
        self._seen = None

    def look(self, asked: tuple[str, ...]) -> None:
        """Take note of what is on screen now; called after it was drawn. `asked` are the ids of what is shown."""
        if self._pane.at_end and wholly_on_screen(self._pane):
            self._seen = (asked, self._pane.layout_width)

    def why_closed(self, asked: tuple[str, ...], *, whole: bool) -> str:
        """What has to happen before allowing; empty where the gate is open. `whole`: the pane can show all of it."""
        if not whole:
            return UNKNOWN
        if not wholly_on_screen(self._pane):
            return TOO_SMALL
        if self._seen == (asked, self._pane.layout_width):
            return ""
        below, more = self._pane.below, "" if self._pane.complete else "+"
        if not below and not more:
            return NOT_DRAWN
        return f"{below}{more} more {'line' if below == 1 and not more else 'lines'}: scroll to the end to allow"
