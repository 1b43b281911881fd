"""The line of the card in which a person writes, with what is thought of it below."""

from collections.abc import Callable
from typing import Literal

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.card_check import Check
from codeagent.tui.widgets.fitting import SEPARATOR, Part, cut_end, fit, styled
from codeagent.tui.widgets.reason_input import ReasonInput
from codeagent.tui.widgets.row import Row

Purpose = Literal["reason", "answer", "rule", "command"]
"""What is written: why not, an answer to the agent, a rule, or the command of an edited call."""
CHECKED: frozenset[Purpose] = frozenset({"rule", "command"})
_TOO_LONG = "too long to be seen whole: shorten it, or enlarge the window"
_PLACEHOLDERS: dict[Purpose, str] = {"reason": "deny, because …", "answer": "your answer", "rule": "", "command": ""}


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
        """The text is another one now."""

        def __init__(self, purpose: Purpose, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class Sent(Message):
        """Enter, where nothing is wrong with the text."""

        def __init__(self, purpose: Purpose, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    def __init__(self) -> None:
        super().__init__()
        self._input = ReasonInput(compact=True, select_on_focus=False)
        self._said = _CheckRow()
        self._judge: Callable[[str], Check] | None = None
        self.purpose: Purpose = "reason"
        self.check = Check()
        """Of the text as it is now."""

    def compose(self) -> ComposeResult:
        yield self._input
        yield self._said

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    @property
    def rows(self) -> int:
        """How high it is."""
        return 0 if not self.is_open else 2 if self.purpose in CHECKED else 1

    @property
    def text(self) -> str:
        return self._input.value

    def open(self, purpose: Purpose, text: str, judge: Callable[[str], Check] | None = None) -> None:
        """Write there, beginning with `text`. `judge` says what is thought of a text; without it any may be sent."""
        self.purpose, self._judge = purpose, judge
        self.add_class("-open")
        self._said.display = purpose in CHECKED
        self._input.placeholder = _PLACEHOLDERS[purpose]
        self._input.value = text
        self._input.cursor_position = len(text)
        self._input.focus()
        self.look()

    def close(self) -> bool:
        """Hide it; True where the focus was in it."""
        had_focus = self._input.has_focus
        self.remove_class("-open")
        return had_focus

    def look(self) -> None:
        """Judge the text anew."""
        self.check = self._judged(self.text)
        self._said.show(self.check)

    def _judged(self, text: str) -> Check:
        check = Check() if self._judge is None else self._judge(text)
        room = self._input.size.width
        if self.purpose == "rule" and not check.problem and 0 < room <= cell_len(text):
            return Check(_TOO_LONG)
        return check

    def on_resize(self) -> None:
        if self.is_open:
            self.look()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open and event.value == self._input.value:
            self.look()
            self.post_message(self.Typed(self.purpose, event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.is_open and not self._judged(event.value).problem:
            text = event.value if self.purpose == "command" else event.value.strip()
            self.post_message(self.Sent(self.purpose, text))


class _CheckRow(Row):
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
