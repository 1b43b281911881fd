"""The line of a card to write in, with what is thought of the text while it is written."""

import re

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input

from codeagent.core.sanitize import visible
from codeagent.tui.parts.card_content import Check, Writing
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.rows import SEPARATOR, Part, RowWidget, fit, styled
from codeagent.tui.rendering.lines import Line, cut_end, line
from codeagent.tui.rendering.palette import Palette

_TOO_LONG = "too long to be seen whole: shorten it, or enlarge the window"
_BREAKS = re.compile(r"[ \t]*(?:\r\n|\r|\n)[ \t\r\n]*")


class ReasonInput(LineInput):
    """A `LineInput` in which the lines of a paste become one, so that nothing of it is lost."""

    DEFAULT_CSS = """
    ReasonInput {
        background: $surface;
    }
    """

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(visible(_BREAKS.sub(" ", event.text.strip())))


class CardLine(Vertical):
    """Hidden until it is opened; says what is typed and what is sent, and sends nothing that is not checked."""

    DEFAULT_CSS = """
    CardLine {
        height: auto;
        display: none;
    }
    CardLine.-open {
        display: block;
    }
    """

    class Typed(Message):
        """The text changed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Sent(Message):
        """Enter, where nothing is wrong with the text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__()
        self._input = ReasonInput(compact=True, select_on_focus=False)
        self._said = _CheckRow()
        self.write: Writing | None = None
        """What is written; None while it is closed."""
        self.check = Check()
        """Of the text as it is now."""

    def compose(self) -> ComposeResult:
        yield self._input
        yield self._said

    @property
    def rows(self) -> int:
        """How high it is."""
        return 0 if self.write is None else 1 if self.write.judge is None else 2

    def open(self, write: Writing, text: str) -> None:
        """Write there, beginning with `text`."""
        self.write = write
        self.add_class("-open")
        self._said.display = write.judge is not None
        self._input.placeholder = write.placeholder
        self._input.value = text
        self._input.cursor_position = len(text)
        self._input.focus()
        self._look()

    def turn(self, write: Writing) -> None:
        """The same text, written for another end."""
        self.write = write
        self._look()

    def close(self) -> bool:
        """Hide it; True where the focus was in it."""
        had_focus = self._input.has_focus
        self.write = None
        self.remove_class("-open")
        return had_focus

    def _look(self) -> None:
        """Judge the text again."""
        self.check = self._judged(self._input.value)
        self._said.show(self.check)

    def _judged(self, text: str) -> Check:
        if self.write is None or self.write.judge is None:
            return Check()
        check = self.write.judge(text)
        too_long = self.write.allows and 0 < self._input.size.width <= cell_len(text)
        return Check(_TOO_LONG) if too_long and not check.problem else check

    def on_resize(self) -> None:
        self._look()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.write is not None and event.value == self._input.value:
            self._look()
            self.post_message(self.Typed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.write is not None and not self._judged(event.value).problem:
            self.post_message(self.Sent(event.value))


class _CheckRow(RowWidget):
    """The problem, or what sending means."""

    def __init__(self) -> None:
        super().__init__()
        self._check = Check()

    def show(self, check: Check) -> None:
        if check != self._check:
            self._check = check
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        problem, odd = self._check.problem, self._check.odd
        first, *more = (problem,) if problem else self._check.says or ("",)
        beside = cell_len(SEPARATOR + odd) if odd and width >= 2 * cell_len(odd) else 0
        parts = [
            Part(cut_end(first, width - beside), 100, lambda colours: colours.error if problem else colours.strong),
            *(Part(words, 60 + place) for place, words in enumerate(more)),
            Part(odd, 90, lambda colours: colours.warning),
        ]
        return line(styled(fit(parts, width), palette))
