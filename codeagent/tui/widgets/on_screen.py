"""Whether a person can see all of a widget: what has to hold before something counts as read."""

from textual.errors import NoWidget

from codeagent.tui.widgets.line_pane import LinePane


def wholly_on_screen(pane: LinePane) -> bool:
    """The pane is on screen with all its rows and columns, and nothing lies over it."""
    if not pane.is_attached or not pane.display or pane.screen is not pane.app.screen:
        return False
    shown = pane.scrollable_content_region
    if shown.height < 1 or shown.width < max(1, pane.widest):
        return False
    return all(_on_top(pane, x, y) for y in shown.line_range for x in (shown.x, shown.right - 1))


def _on_top(pane: LinePane, x: int, y: int) -> bool:
    """The pane is what the person sees in that cell of the screen."""
    try:
        return pane.screen.get_widget_at(x, y)[0] is pane
    except NoWidget:
        return False
