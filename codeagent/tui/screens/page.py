"""Something to read that covers the conversation until it is closed."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widget import Widget

from codeagent.tui.clipboard import copy
from codeagent.tui.screens.title_row import HintRow, TitleRow


class Pane(Protocol):
    """What a page shows."""

    def turn(self, key: str) -> bool:
        """Scroll by a key: up, down, pageup, pagedown, home, end; False for any other."""

    def everything(self) -> str:
        """All of it, as it is copied."""


class Page(ModalScreen[None]):
    """Keys scroll and copy; Esc closes it and gives the focus back."""

    DEFAULT_CSS = """
    Page {
        layout: vertical;
        background: $background;
        color: $foreground;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close", show=False, id="page.close"),
        Binding("up,k", "turn('up')", "a line up", show=False, id="page.up"),
        Binding("down,j", "turn('down')", "a line down", show=False, id="page.down"),
        Binding("pageup,b", "turn('pageup')", "a page up", show=False, id="page.page_up"),
        Binding("pagedown,space", "turn('pagedown')", "a page down", show=False, id="page.page_down"),
        Binding("home,g", "turn('home')", "to the beginning", show=False, id="page.home"),
        Binding("end,G", "turn('end')", "to the end", show=False, id="page.end"),
        Binding("c,ctrl+c", "copy", "copy the selection, else everything", show=False, id="page.copy"),
    ]
    AUTO_FOCUS = ""

    def __init__(self, title: str, note: str = "", hints: Sequence[str] = ()) -> None:
        super().__init__()
        self.title_row = TitleRow(title, note)
        self.hint_row = HintRow(["Esc closes", "PgUp PgDn scroll", *hints, "c copies"])

    def pane(self) -> Pane:
        """The part that scrolls."""
        raise NotImplementedError  # abstract; Textual's metaclass leaves no room for that of abc

    def body(self) -> Sequence[Widget]:
        """Widgets between the title and the hints."""
        raise NotImplementedError  # abstract; Textual's metaclass leaves no room for that of abc

    def compose(self) -> ComposeResult:
        yield self.title_row
        yield from self.body()
        yield self.hint_row

    def action_close(self) -> None:
        self.dismiss(None)

    def action_turn(self, key: str) -> None:
        self.settle()
        self.pane().turn(key)

    def settle(self) -> None:
        """What was said in place of the hints was read."""
        self.hint_row.tell("")

    def action_copy(self) -> None:
        selected = self.get_selected_text()
        try:
            said = copy(self.app, selected or self.pane().everything())
        except OSError as problem:
            said = f"not copied: the file for it cannot be written ({problem.strerror})"
        self.hint_row.tell(said)
        self.clear_selection()
