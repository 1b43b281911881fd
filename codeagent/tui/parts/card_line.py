"""The line of a card to write a reason, an answer, a rule or a command in, and what is checked while it is written."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, TerminalBlock
from codeagent.core.errors import ConfigError
from codeagent.core.policy import NETWORK, Rule
from codeagent.core.sanitize import one_line, visible
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.rows import SEPARATOR, Part, RowWidget, fit, styled
from codeagent.tui.rendering.lines import Line, cut_end, line
from codeagent.tui.rendering.marked import odd_letters, unseen
from codeagent.tui.rendering.palette import Palette

Purpose = Literal["reason", "answer", "rule", "command"]
"""What is written: why not, an answer to the agent, a rule, or the command of an edited call."""
_TOO_LONG = "too long to be seen whole: shorten it, or enlarge the window"
_BREAKS = re.compile(r"[ \t]*(?:\r\n|\r|\n)[ \t\r\n]*")
SESSION = "for this session"
ALWAYS = "always, in this folder"
_FITS = "no questions for what it matches"
_LATER = "checked again when sent"
_SAID = 60
"""Characters of anybody's text in a problem."""
_WILD = re.compile(r"[*?./\s]*")
"""A pattern that names nothing."""
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+(?: +[A-Za-z0-9_@%+=:,./-]+)*")
"""A command line of one simple command, of which rules see exactly what is written."""


@dataclass(frozen=True)
class Check:
    """What is to be said about a text while it is written."""

    problem: str = ""
    """One line: why Enter does nothing; empty where it sends the text."""
    says: tuple[str, ...] = ()
    """What sending it means. Where there is little room the first is kept, and the last goes last of the others."""
    odd: str = ""
    """Which of its letters only look like ASCII; empty where all are."""


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
        return 0 if not self.is_open else 1 if self._judge is None else 2

    @property
    def text(self) -> str:
        return self._input.value

    def open(
        self, purpose: Purpose, text: str, *, placeholder: str = "", judge: Callable[[str], Check] | None = None
    ) -> None:
        """Write there, beginning with `text`. `judge` says what is wrong with a text; without it any may be sent."""
        self.purpose, self._judge = purpose, judge
        self.add_class("-open")
        self._said.display = judge is not None
        self._input.placeholder = placeholder
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
        """Judge the text again."""
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


def check_rule(text: str, waiting: ApprovalRequested, *, keep: bool) -> Check:
    """Judge a rule for the question; the engine judges it again, for it alone knows all parts of the call.

    `keep`: it shall hold in later sessions, too.
    """
    if not text.strip():
        return Check("write what shall be allowed, as in bash(git status*)")
    if hidden := unseen(text):
        return Check(f"it holds what cannot be seen, {', '.join(hidden)}: take it out")
    try:
        rule = Rule.parse(text, "auto", "session")
    except ConfigError as error:
        return Check(one_line(str(error), 2 * _SAID))
    if rule.tool != waiting.name:
        return Check(f"it must be about {one_line(waiting.name, _SAID)}, not {one_line(rule.tool, _SAID)}")
    if rule.pattern is None:
        return Check(f"never all of a tool: say which, {rule.tool}(…)")
    if _WILD.fullmatch(rule.pattern):
        return Check("that would allow everything: name the command or the path it begins with")
    odd = odd_letters(text)
    parts, kind = _parts(waiting)
    fitting = [part for part in parts if rule.matches(part, kind)]
    if parts and not fitting:
        return Check(f"it does not fit this call: {one_line(parts[0], _SAID)}", odd=odd)
    sure = bool(parts) and len(fitting) == len(parts)
    says = (ALWAYS if keep else SESSION, _FITS, *(() if sure else (_LATER,)))
    return Check("", says, odd)


def _parts(waiting: ApprovalRequested) -> tuple[tuple[str, ...], str]:
    """What of the call rules are surely matched against, and its kind; nothing where only the engine knows."""
    paths = [block.path for block in waiting.blocks if isinstance(block, DiffBlock)]
    if paths and all(path.isascii() and path.isprintable() for path in paths):
        return tuple(paths), "path"
    commands = [block.command for block in waiting.blocks if isinstance(block, TerminalBlock)]
    if waiting.name == "bash" and len(commands) == 1 and _PLAIN.fullmatch(commands[0].strip(" ")):
        network = NETWORK if waiting.target.startswith(NETWORK) else ""
        return (network + " ".join(commands[0].split()),), "command"
    return (), "text"
