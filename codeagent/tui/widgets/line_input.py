"""One line to write in, where what is pasted becomes one harmless line."""

from textual.widgets import Input

from codeagent.core.sanitize import visible


class LineInput(Input):
    """An `Input` without a frame; its cursor does not blink, because an idle screen draws nothing."""

    DEFAULT_CSS = """
    LineInput {
        height: 1;
        border: none;
        padding: 0;
        background: transparent;
        &:focus { border: none; }
        & .input--placeholder { color: $text-muted; }
    }
    """

    def on_mount(self) -> None:
        self.cursor_blink = False

    def replace(self, text: str, start: int, end: int) -> None:
        """Every way text comes in, typed or pasted."""
        super().replace(visible(text).replace("\n", " ").replace("\t", " "), start, end)
