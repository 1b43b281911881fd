"""The frame of a card: its edges, what is between them, and the room that they take."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical

from codeagent.tui.parts.card_content import CardContent, Writing
from codeagent.tui.parts.card_keys import ChoiceRow, keymap_of, labelled
from codeagent.tui.parts.card_line import CardLine
from codeagent.tui.parts.line_pane import LinePane
from codeagent.tui.parts.rows import Part, RuleRow

_BESIDE_KEYS = 4
"""Cells of the card's edges and of the air within them."""
_ROOMY = 20
"""Rows of a screen from which on the keys may take two."""
_TINY = 4
"""Rows of half a screen below which the card has no edges."""


class CardFrame(Vertical, can_focus=True):
    """Draws a content: title, body, a line to write in, a row of keys, and the foot."""

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
        """The key that reads on, as it is shown."""
        self.taking = False
        """The card itself moves the focus to where it is now."""
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
        """Say that in place of the keys for a moment."""
        self._keys.say(note)

    def draw(self, content: CardContent, why_closed: Callable[[], str]) -> None:
        """Draw everything but the body.

        `why_closed` says what has to happen before what is asked can be allowed, by `reading_key`.
        """
        keymap, focused, write = keymap_of(self), self.has_focus_within, self.line.write
        choices = labelled(content.choices, keymap, scope=content.scope, focused=focused, tab=content.tab)
        self.reading_key = next((choice.label or choice.key for choice in choices if choice.allows), "")
        why = why_closed()
        off = bool(why)
        if write is not None:
            choices = labelled(write.choices, keymap, scope=content.scope, focused=focused, tab=content.tab)
            off = bool(self.line.check.problem or (write.allows and why))
        self._title.show(content.left, content.right)
        sent = f"sent: {content.sent}" if content.sent else ""
        self._keys.show(choices, marked=content.marked, note=sent, off=off)
        more = Part(f"{self.pane.below} more below" if self.pane.below else "", 50)
        self._foot.show(right=(Part(why, 100, lambda palette: palette.warning) if content.to_read else more,))
        if self._keys.needed(self.size.width - _BESIDE_KEYS) != self._key_rows and not self.has_class("-tiny"):
            self.fit()

    def fit(self) -> None:
        """Leave the composer its half of the screen; where there is little, the card has no edges."""
        tiny = self.app.size.height // 2 < _TINY
        self.set_class(tiny, "-tiny")
        self._keys.most = 2 if self.app.size.height >= _ROOMY else 1
        self._key_rows = self._keys.needed(self.size.width - (0 if tiny else _BESIDE_KEYS))
        self.pane.reserve = (0 if tiny else 2) + self._key_rows + self.line.rows
        self.pane.refresh(layout=True)

    def keep_on_screen(self, row: int) -> None:
        """Scroll to a row of the body where it is not on screen."""
        if not 0 <= row - self.pane.scroll_offset.y < self.pane.scrollable_content_region.height:
            self.pane.go_to(row - 1)

    def open_line(self, write: Writing, text: str) -> None:
        """Write there, beginning with `text`."""
        self.line.open(write, text)
        self.add_class("-writing")
        self.fit()

    def close_line(self) -> None:
        """Close the line; what is drawn next is the card's keys."""
        self.remove_class("-writing")
        if self.line.close():
            self.take()
        self.fit()

    def take(self) -> None:
        """Take the focus, which the user asked for."""
        self.taking = True
        self.focus()
