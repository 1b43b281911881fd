"""The line for searching the conversation."""

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

from codeagent.tui.bindings import bindings
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.transcript.view import TranscriptView


class FindBar(Horizontal):
    """Hidden until it is opened; Enter goes to the match above, Shift+Enter or Down to the one
    below, Esc ends it."""

    DEFAULT_CSS = """
    FindBar {
        height: 1;
        display: none;
    }
    FindBar > .find--label {
        width: auto;
        padding: 0 1;
        color: $text-muted;
    }
    FindBar > LineInput {
        width: 1fr;
        border: none;
        height: 1;
        padding: 0;
        background: transparent;
    }
    """
    BINDINGS = bindings("find")

    class Closed(Message):
        """The search is over."""

    def __init__(self, target: TranscriptView) -> None:
        """It searches in `target`."""
        super().__init__()
        self._target = target
        target.found = self.count

    def compose(self) -> ComposeResult:
        yield Static("find", classes="find--label", markup=False)
        yield LineInput(compact=True)
        yield Static("", classes="find--label", id="found", markup=False)

    def open(self, text: str = "") -> None:
        """Search; without text, the last search is offered."""
        self.display = True
        box = self.query_one(LineInput)
        box.value = text or box.value
        self.screen.set_focus(
            box
        )  # at once, unlike `focus`: the next key may already have been pressed
        self._search(box.value)

    def close(self) -> None:
        self._target.clear_search()
        self.display = False
        self.post_message(self.Closed())

    def action_close(self) -> None:
        self.close()

    def action_next(self) -> None:
        self._target.next_match()

    def action_previous(self) -> None:
        self._target.previous_match()

    @on(LineInput.Changed)
    def _changed(self, message: LineInput.Changed) -> None:
        message.stop()
        self._search(message.value)

    def _search(self, text: str) -> None:
        if text:
            self._target.find(text)
        else:
            self._target.clear_search()
            self.count(0, 0)

    def count(self, place: int, found: int) -> None:
        """Say which of how many matches is the current one."""
        searching = self.query_one(LineInput).value
        words = (
            ""
            if not searching
            else "nothing found"
            if not found
            else f"{place} of {found} · Enter up · Down down · Esc"
        )
        self.query_one("#found", Static).update(words)
