"""The frame of a card: its edges, its body, and its text line."""

import re
from collections.abc import Callable

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import Input

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import visible
from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.card_content import CardContent, Check, Writing
from codeagent.tui.parts.card_keys import ChoiceRow, labelled
from codeagent.tui.parts.line_input import LineInput, types_text
from codeagent.tui.parts.line_pane import LinePane
from codeagent.tui.parts.rows import SEPARATOR, Part, RowWidget, RuleRow, fit, styled
from codeagent.tui.rendering.lines import Line, cut_end, line
from codeagent.tui.rendering.palette import Palette

_BESIDE_KEYS = 4
"""Cells of the card's edges and padding."""
_ROOMY = 20
"""Rows of a screen from which on the choices may take two rows."""
_TINY = 4
"""Rows of half a screen; below that the card has no edges."""
_TOO_LONG = "too long to be shown in full: shorten it, or enlarge the window"
_BREAKS = re.compile(r"[ \t]*(?:\r\n|\r|\n)[ \t\r\n]*")


class ReasonInput(LineInput):
    """A `LineInput` that joins the lines of a paste, where a plain one would keep only the
    first."""

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
    """The card's text line, hidden until it is opened; sends only text that passed the check."""

    DEFAULT_CSS = """
    CardLine {
        height: auto;
        display: none;
    }
    CardLine.-open {
        display: block;
    }
    """

    @dataclass
    class Typed(Message):
        """The text changed."""

        text: str

    @dataclass
    class Sent(Message):
        """Enter was pressed, and nothing is wrong with the text."""

        text: str

    def __init__(self) -> None:
        super().__init__()
        self._input = ReasonInput(compact=True, select_on_focus=False)
        self._said = _CheckRow()
        self.write: Writing | None = None
        """What the line was opened for; None while it is closed."""
        self.check = Check()
        """The check of the current text."""

    def compose(self) -> ComposeResult:
        yield self._input
        yield self._said

    @property
    def rows(self) -> int:
        """Its height, in rows."""
        return 0 if self.write is None else 1 if self.write.judge is None else 2

    def open(self, write: Writing, text: str) -> None:
        """Open the line, starting from `text`."""
        self.write = write
        self.add_class("-open")
        self._said.display = write.judge is not None
        self._input.placeholder = write.placeholder
        self._input.value = text
        self._input.cursor_position = len(text)
        self._input.focus()
        self._look()

    async def type_ahead(self, event: Key) -> bool:
        """Take a key that was typed before the line had the focus; False if it is not for text."""
        if types_text(event):
            self._input.insert_text_at_cursor(event.character or "")
        elif event.key == "enter":
            await self._input.action_submit()
        else:
            return False
        return True

    def turn(self, write: Writing) -> None:
        """Use the same text for another purpose."""
        self.write = write
        self._look()

    def close(self) -> bool:
        """Hide it; True if the focus was in it."""
        had_focus = self._input.has_focus
        self.write = None
        self.remove_class("-open")
        return had_focus

    def _look(self) -> None:
        """Check the text again."""
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
    """The row with the problem, or with what sending means."""

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
            Part(cut_end(first, width - beside), 100, "error" if problem else "strong"),
            *(Part(words, 60 + place) for place, words in enumerate(more)),
            Part(odd, 90, "warning"),
        ]
        return line(styled(fit(parts, width), palette))


class CardFrame(Vertical, can_focus=True):
    """Draws a card's content: title, body, text line, choices and footer."""

    DEFAULT_CSS = """
    CardFrame {
        height: auto;
        display: none;
        background: $background;
        color: $warning;
        & > .card--inside {
            height: auto;
            padding: 0 1;
            color: $foreground;
            border-left: round $warning;
            border-right: round $warning;
        }
        &.-boundary {
            color: $accent;
            & > .card--inside {
                border-left: round $accent;
                border-right: round $accent;
            }
        }
        &:focus, &:focus-within { color: $primary; }
        &:focus > .card--inside, &:focus-within > .card--inside {
            border-left: round $primary;
            border-right: round $primary;
        }
        & LinePane { height: auto; }
        &.-tiny > RuleRow { display: none; }
        &.-tiny > .card--inside { border: none; padding: 0; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.reading_key = ""
        """The key that pages down, as it is shown."""
        self.taking = False
        """The card itself moved the focus to where it is now."""
        self.pane = LinePane()
        self.line = CardLine()
        self._title = RuleRow(("╭", "╮"))
        self._keys = ChoiceRow()
        self._foot = RuleRow(("╰", "╯"))
        self._key_rows = 1

    def compose(self) -> ComposeResult:
        yield self._title
        with Vertical(classes="card--inside"):
            yield self.pane
            yield self.line
            yield self._keys
        yield self._foot

    def fill(self, content: CardContent) -> None:
        """Show the body: from its beginning, from its end, or with the marked row."""
        self.set_class(content.scope != "card", "-boundary")
        self.pane.show(content.body)
        if content.at_end:
            self.pane.turn("end")
        elif content.row is not None:
            self.pane.go_to(content.row - 1)
        self.fit()

    def say(self, note: str) -> None:
        """Show a note instead of the choices for a moment."""
        self._keys.say(note)

    def draw(self, content: CardContent, why_closed: Callable[[], str]) -> None:
        """Draw everything but the body.

        `why_closed` says what has to happen before the call can be allowed with `reading_key`.
        """
        keymap, focused, write = keymap_of(self), self.has_focus_within, self.line.write
        self._keys.display = bool(content.choices)
        choices = labelled(content.choices, keymap, scope=content.scope, focused=focused)
        self.reading_key = next(
            (choice.label or choice.key for choice in choices if choice.allows), ""
        )
        why = why_closed()
        off = bool(why)
        if write is not None:
            choices = labelled(write.choices, keymap, scope=content.scope, focused=focused)
            off = bool(self.line.check.problem or (write.allows and why))
        self._title.show(content.left, content.right)
        sent = f"sent: {content.sent}" if content.sent else ""
        self._keys.show(
            choices, marked=content.marked, note=sent, off=off, more=keymap.shown("chat.keys")
        )
        more = Part(f"{self.pane.below} more below" if self.pane.below else "", 50)
        self._foot.show(right=(Part(why, 100, "warning") if content.to_read else more,))
        if self._needed(_BESIDE_KEYS) != self._key_rows and not self.has_class("-tiny"):
            self.fit()

    def fit(self) -> None:
        """Leave half of the screen to the composer; if that is not much, draw the card without
        edges."""
        tiny = self.app.size.height // 2 < _TINY
        self.set_class(tiny, "-tiny")
        self._keys.most = 2 if self.app.size.height >= _ROOMY else 1
        self._key_rows = self._needed(0 if tiny else _BESIDE_KEYS)
        self.pane.reserve = (0 if tiny else 2) + self._key_rows + self.line.rows
        self.pane.refresh(layout=True)

    def _needed(self, beside: int) -> int:
        return self._keys.needed(self.size.width - beside) if self._keys.display else 0

    def keep_on_screen(self, row: int) -> None:
        """Scroll to a row of the body if it is not on screen."""
        if not 0 <= row - self.pane.scroll_offset.y < self.pane.scrollable_content_region.height:
            self.pane.go_to(row - 1)

    def open_line(self, write: Writing, text: str) -> None:
        """Open the line, starting from `text`."""
        self.line.open(write, text)
        self.add_class("-writing")
        self.fit()

    def close_line(self) -> None:
        """Close the line; the card's choices are drawn next."""
        self.remove_class("-writing")
        if self.line.close():
            self.take()
        self.fit()

    def take(self) -> None:
        """Take the focus, at the user's request."""
        self.taking = True
        self.focus()
