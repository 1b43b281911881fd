"""A widget of one row that is drawn from styled text."""

from abc import abstractmethod

from textual.strip import Strip
from textual.widget import Widget

from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette, palette_of


class Row(Widget):
    """Draws `row(width, palette)`, cut or filled to the width; subclasses refresh it when it changes."""

    DEFAULT_CSS = """
    Row {
        height: 1;
        width: 1fr;
    }
    """
    ALLOW_SELECT = False

    @abstractmethod
    def row(self, width: int, palette: Palette) -> Line:
        """What is shown in `width` cells."""

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        if y or not width:
            return Strip.blank(width, style)
        return self.row(width, palette_of(self)).strip.adjust_cell_length(width, style).apply_style(style)
