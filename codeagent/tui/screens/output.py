"""The whole output of a call, or any long text, with its colours."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Static

from codeagent.tui.screens.output_pane import OutputPane
from codeagent.tui.screens.output_text import Found
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.widgets.line_input import LineInput


class OutputScreen(Page):
    """`/` searches; n and N go from match to match."""

    DEFAULT_CSS = """
    OutputScreen {
        & > Horizontal { height: 1; display: none; padding: 0 1; }
        & > Horizontal > Static { width: auto; color: $primary; }
        & > Horizontal > LineInput { width: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "find", show=False, id="page.find"),
        Binding("n", "next", "next match", show=False, id="page.next"),
        Binding("N", "previous", "match before", show=False, id="page.previous"),
        Binding("left", "turn('left')", "to the left", show=False, id="page.left"),
        Binding("right", "turn('right')", "to the right", show=False, id="page.right"),
    ]

    def __init__(self, title: str, text: str | Sequence[str]) -> None:
        """Text or lines, whatever is in them: colours are shown, everything else that acts is not obeyed."""
        self._pane = OutputPane(text)
        count = len(self._pane.text)
        super().__init__(title, f"{count:,} line{'' if count == 1 else 's'}", ["/ finds"])
        self._bar = Horizontal(Static("find: ", markup=False), LineInput(compact=True, select_on_focus=True))

    def compose(self) -> ComposeResult:
        yield self.title_row
        yield from self.body()
        yield self._bar
        yield self.hint_row

    def pane(self) -> Pane:
        return self._pane

    def body(self) -> Sequence[Widget]:
        return [self._pane]

    def action_find(self) -> None:
        self._bar.display = True
        self.query_one(LineInput).focus()

    def settle(self) -> None:
        """While something is searched for, the hints are about that."""
        if not self.query_one(LineInput).value:
            super().settle()

    def action_next(self) -> None:
        self._tell(self._pane.next())

    def action_previous(self) -> None:
        self._tell(self._pane.next(backwards=True))

    def action_close(self) -> None:
        """Ends the search first, where there is one."""
        if not self._bar.display and not self.query_one(LineInput).value:
            self.dismiss(None)
            return
        self.query_one(LineInput).value = ""
        self._bar.display = False
        self.set_focus(None)
        self.hint_row.tell("")

    @on(LineInput.Changed)
    def _searched(self, message: LineInput.Changed) -> None:
        message.stop()
        self._tell(self._pane.find(message.value))

    @on(LineInput.Submitted)
    def _settled(self, message: LineInput.Submitted) -> None:
        message.stop()
        self._bar.display = False
        self.set_focus(None)

    def _tell(self, found: Found | None) -> None:
        sought = self.query_one(LineInput).value
        if found is not None:
            self.hint_row.tell(f"{found.number:,} of {found.total:,} · n next · N before · Esc ends the search")
        else:
            self.hint_row.tell(f"nothing found for '{sought}'" if sought else "")
