"""One line to write in, where what is pasted becomes one harmless line."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Key
from textual.widgets import Input

from codeagent.core.sanitize import visible
from codeagent.tui.widgets.terminal_keys import run_own_binding, types_text


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

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+b", "cursor_left_word", "a word back", show=False),
        Binding("alt+f", "cursor_right_word", "a word forward", show=False),
    ]

    def on_mount(self) -> None:
        self.cursor_blink = False

    async def _on_key(self, event: Key) -> None:
        if not types_text(event):
            await run_own_binding(self, event)

    def replace(self, text: str, start: int, end: int) -> None:
        """Every way text comes in, typed or pasted."""
        super().replace(visible(text).replace("\n", " ").replace("\t", " "), start, end)
