"""A card above the composer: what every card does, whatever it asks."""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Focus, Key, Paste, Resize
from textual.message import Message
from textual.timer import Timer

from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.card_keys import CardChoice, ChoiceRow, keymap_of, reached
from codeagent.tui.parts.card_line import CardLine
from codeagent.tui.parts.guard import TOO_SOON, Guard
from codeagent.tui.parts.line_pane import LinePane
from codeagent.tui.parts.rows import Part, RuleRow

_NOTE = 1.5
"""Seconds that a note stays in place of the keys."""
_BESIDE_KEYS = 4
"""Cells of the card's edges and of the air within them."""
_ROOMY = 20
"""Rows of a screen from which on the keys may take two."""
_TINY = 4
"""Rows of half a screen below which the card has no edges."""


class Card(Vertical, can_focus=True):
    """Frame, body, a line to write in and a row of keys; subclasses say what is in them and what the keys do.

    Keys reach it through the focus (`take_focus`) or from the composer with Alt (`press`). None counts that was on its
    way before the card could be read.

    `clock` gives seconds that never go back. Something new rings once if `rings`.
    """

    DEFAULT_CSS = """
    Card {
        height: auto;
        display: none;
        background: $background;
        & > .card--inside {
            height: auto;
            padding: 0 1;
            color: $foreground;
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
    only_focused: frozenset[str] = frozenset()
    """Keys the composer has its own use of: with Alt they do nothing here."""

    class Left(Message):
        """The card gives the focus back."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, bell: bool = True) -> None:
        super().__init__()
        self.rings = bell
        self._guard = Guard(clock)
        self._title = RuleRow(("╭", "╮"))
        self._pane = LinePane()
        self._line = CardLine()
        self._keys = ChoiceRow()
        self._foot = RuleRow(("╰", "╯"))
        self._key_rows = 1
        self._note = ""
        self._note_timer: Timer | None = None
        self._taking = False

    @abstractmethod
    def meant(self, key: str) -> str:
        """The letter a key is known by here; empty where it means nothing."""

    @abstractmethod
    def keys(self) -> frozenset[str]:
        """Everything that `do` takes now, besides what `moves` took."""

    @abstractmethod
    def do(self, key: str) -> None:
        """Act on one of `keys` that was pressed by a user who could read the card."""

    @abstractmethod
    def draw_rows(self) -> None:
        """Draw everything but the body, through `draw_frame`."""

    @abstractmethod
    def line_sent(self, event: CardLine.Sent) -> None:
        """Act on what was written in the line and sent."""

    @property
    @abstractmethod
    def sent(self) -> str:
        """What was answered and is not yet confirmed, in words; nothing else is done meanwhile."""

    def moves(self, key: str) -> bool:
        """Move what is shown, which answers nothing; False where the key does not."""
        return False

    def reads_on(self, key: str) -> bool:
        """Show more of what has to be read before that key counts; False where it counts."""
        return False

    def typing(self, key: str) -> bool:
        """Act on a key that is not for the line while something is written; False where it is for the line."""
        return False

    def line_typed(self, event: CardLine.Typed) -> None:
        """Take note of what is being written."""

    def close_layer(self) -> bool:
        """Close what lies over the card's first view; False where nothing does."""
        return False

    def compose(self) -> ComposeResult:
        yield self._title
        with Vertical(classes="card--inside"):
            yield self._pane
            yield self._line
            yield self._keys
        yield self._foot

    def on_mount(self) -> None:
        self.watch(self.app, "app_focus", self._window_came_back, init=False)

    def take_focus(self) -> bool:
        """Give the keys to the card; False where nothing is asked, or where it is too soon."""
        if not self.display:
            return False
        if not self._guard.admits("tab"):
            self.say(TOO_SOON)
            return False
        self._focus_card()
        return True

    def press(self, key: str) -> bool:
        """Act on a key with Alt, from the composer; False where it is none of the card's."""
        meant = self.meant(key)
        return bool(self.display) and meant not in self.only_focused and self._take(meant)

    def typed(self) -> None:
        """Begin the wait again: the user typed or pasted in the composer."""
        self._guard.close()

    def focus_on_click(self) -> bool:
        return self._guard.quiet

    def on_focus(self, event: Focus) -> None:
        """Begin the wait again where nobody asked for the focus: a key was on its way to somewhere else."""
        if not self._taking:
            self._guard.close()
        self._taking = False
        self.draw_rows()

    def on_blur(self) -> None:
        self.draw_rows()

    def on_resize(self, event: Resize) -> None:
        self.fit()
        self.draw_rows()

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._guard.close()

    def on_key(self, event: Key) -> None:
        if event.key in ("escape", "tab"):
            self._step_back(event.key)
        elif not self.has_focus:
            if not self._line.is_open or not self.typing(event.key):
                return
        elif not self._take(self.meant(event.key)):
            if not event.is_printable:
                return
            self._guard.close()
        event.stop()
        event.prevent_default()

    @on(CardLine.Typed)
    def _line_typed(self, event: CardLine.Typed) -> None:
        event.stop()
        if self._line.is_open and self.display:
            self.line_typed(event)

    @on(CardLine.Sent)
    def _line_sent(self, event: CardLine.Sent) -> None:
        """What is sent is for what is in front: anything else there would have closed the line."""
        event.stop()
        if self._line.is_open and self.display:
            self.line_sent(event)

    def say(self, note: str) -> None:
        """Put a note in place of the keys for a moment."""
        self._note = note
        if self._note_timer is not None:
            self._note_timer.stop()
        self._note_timer = self.set_timer(_NOTE, lambda: self.say("")) if note else None
        self.draw_rows()

    def draw_frame(
        self,
        left: Sequence[Part],
        right: Sequence[Part],
        choices: Sequence[CardChoice],
        *,
        tab: str,
        foot: Part,
        marked: str = "",
        off: bool = False,
    ) -> None:
        """Draw title, keys and foot.

        `tab` says what one does on the card, `marked` is the key of the choice in focus, and `off` greys those that
        allow. The choices have the keys that take them now.
        """
        self._title.show(left, right)
        self._keys.show(
            reached(choices, focused=self.has_focus_within, tab=tab),
            marked=marked,
            note=self._note or (f"sent: {self.sent}" if self.sent else ""),
            off=off,
        )
        self._foot.show(right=(foot,))
        if self._keys.needed(self.size.width - _BESIDE_KEYS) != self._key_rows and not self.has_class("-tiny"):
            self.fit()

    def fit(self) -> None:
        """Leave the composer its half of the screen; where there is little, the card has no edges."""
        tiny = self.app.size.height // 2 < _TINY
        self.set_class(tiny, "-tiny")
        self._keys.most = 2 if self.app.size.height >= _ROOMY else 1
        self._key_rows = self._keys.needed(self.size.width - (0 if tiny else _BESIDE_KEYS))
        self._pane.reserve = (0 if tiny else 2) + self._key_rows + self._line.rows
        self._pane.refresh(layout=True)

    def opened(self) -> None:
        """Make room for the line, which was just opened."""
        self.add_class("-writing")
        self.fit()
        self.draw_rows()

    def stop_writing(self) -> None:
        """Close the line; what is drawn next is the card's keys."""
        if not self._line.is_open:
            return
        self.remove_class("-writing")
        if self._line.close():
            self._focus_card()
        self.fit()

    def hide(self) -> None:
        """End what was going on; called when the card was taken from the screen."""
        had_focus = self.has_focus_within
        self.stop_writing()
        self.say("")
        if had_focus:
            self.post_message(self.Left())

    @property
    def keymap(self) -> Keymap:
        return keymap_of(self)

    def _take(self, key: str) -> bool:
        """Act on a key; False where it is none of the card's."""
        if self.moves(key):
            return True
        if key not in self.keys():
            return False
        admitted = self._guard.admits(key)
        if self.reads_on(key):
            return True
        if not admitted:
            self.say(TOO_SOON)
            return True
        self.say("")
        if not self.sent:
            self.do(key)
        self.draw_rows()
        return True

    def _step_back(self, key: str) -> None:
        """Esc closes the top layer: the line, what lies over the first view, then the card; Tab always leaves."""
        if key == "escape" and self._line.is_open:
            self.stop_writing()
            self.draw_rows()
        elif key != "escape" or not self.close_layer():
            self.post_message(self.Left())

    def _focus_card(self) -> None:
        self._taking = True
        self.focus()

    def _window_came_back(self, focused: bool) -> None:
        if focused:
            self._guard.close()
