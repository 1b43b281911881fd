"""A page of Markdown: what `/status`, `/cost`, `/context`, `/config`, `/tools` and `/help` answer."""

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.widgets.line_pane import LinePane


class MarkdownPane(LinePane):
    """Lays the text out again for every width and theme."""

    DEFAULT_CSS = """
    MarkdownPane { padding: 1 2 0 2; }
    """

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self._markdown = markdown

    def on_mount(self) -> None:
        self.show([self._piece])

    def everything(self) -> str:
        return self._markdown

    def _piece(self, width: int, palette: Palette) -> Iterator[Line]:
        from codeagent.tui.rendering.markdown import render_markdown  # loads a parser nothing else needs at start-up

        yield from render_markdown(self._markdown, width, palette)


class TextScreen(Page):
    """The text of anybody: it is drawn, never obeyed."""

    def __init__(self, title: str, markdown: str) -> None:
        super().__init__(title)
        self._pane = MarkdownPane(markdown)

    def pane(self) -> Pane:
        return self._pane

    def body(self) -> Sequence[Widget]:
        return [self._pane]
