"""The card above the composer: which keys count for what it shows, and when."""

from textual import on
from textual.events import Blur, DescendantBlur, DescendantFocus, Focus, Key, Paste, Resize

from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.card_answers import CardAnswers
from codeagent.tui.parts.card_content import CardContent, LazyMeaning, MarkRow, Say, Scroll, ShowAs
from codeagent.tui.parts.card_frame import CardLine
from codeagent.tui.parts.card_keys import keeps
from codeagent.tui.parts.guard import TOO_SOON, Guard, allows
from codeagent.tui.parts.line_pane import LinePane


class Card(CardAnswers):
    """Acts on keys, which reach it through the focus (`take_focus`) or from the composer with Alt
    (`press`).

    Keys pressed before the card could be read are ignored: new content closes the guard and the
    line.
    """

    def take_focus(self) -> bool:
        """Focus the card, even if it was put away; False if nothing waits for the user."""
        if self._content is None and self._waiting.boundary is not None:
            self._perform(ShowAs("away", False))
            self._show()
            self._guard = Guard(self._clock)
        if self._content is None or self._content.scope == "follow":
            return False
        if not self._guard.admits("tab"):
            self.say(TOO_SOON)
            return True
        self.take()
        if self._content.begins is not None:
            self._perform(self._content.begins)
            self._show()
        return True

    def press(self, key: str) -> bool:
        """Act on a key with Alt, from the composer; False if it is not one of the card's."""
        letter = self._letters.get(key, "")
        return (
            self._content is not None
            and letter not in self._content.only_focused
            and self._take(letter)
        )

    def read_to_end(self) -> None:
        """Scroll to the end of what is asked about, from the composer."""
        self._take("end")

    def typed(self) -> None:
        """Start the wait again, because the user typed or pasted in the composer."""
        self._guard.typed()

    def sent(self) -> None:
        """Accept keys for what has been shown long enough: the text in the composer was sent."""
        self._guard.sent()

    def focus_on_click(self) -> bool:
        return self._guard.quiet

    def on_focus(self, event: Focus) -> None:
        """Start the wait again unless the user asked for the focus: a key may have been meant for
        something else."""
        if not self.taking:
            self._guard.close()
        self.taking = False
        self._focus_moved()

    @on(Blur)
    @on(DescendantFocus)
    @on(DescendantBlur)
    def _focus_moved(self) -> None:
        self._state.status.set(on_card=self.has_focus_within)
        self._show()

    def on_resize(self, event: Resize) -> None:
        self.fit()
        self._show()
        if self._content is not None and self._content.row is not None:
            self.call_after_refresh(self.keep_on_screen, self._content.row)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._guard.close()

    def on_key(self, event: Key) -> None:
        if event.key in ("escape", "tab"):
            self._step_back(event.key)
        elif not self.has_focus:
            if not self._typing(event.key):
                return
        elif not self._take(self._letters.get(event.key, "")):
            if not event.is_printable:
                return
            self._guard.close()
        event.stop()
        event.prevent_default()

    @on(CardLine.Typed)
    def _line_typed(self, event: CardLine.Typed) -> None:
        event.stop()
        if (write := self.line.write) is None or self._content is None:
            return
        self._waiting.keep(write, event.text)
        if write.allows:
            self._guard.close()
        self._show()

    @on(CardLine.Sent)
    def _line_sent(self, event: CardLine.Sent) -> None:
        """Send the typed text; it is for the shown content, as any change of that would have closed
        the line."""
        event.stop()
        if (write := self.line.write) is None or self._content is None:
            return
        if write.allows and not self._guard.admits("enter"):
            self.say(TOO_SOON)
        elif (does := write.then(event.text)) is not None:
            self._guard.sent()
            self._perform(does)
            self._show()

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self.call_after_refresh(self._look)

    def _take(self, key: str) -> bool:
        """Act on a key; False if it is not one of the card's."""
        content, does = self._content, self._means.get(key)
        if content is None or does is None:
            return False
        match does:
            case Scroll() | MarkRow() if not self._guard.quiet:
                self.say(TOO_SOON)
            case Scroll():
                self._guard.moved(key)
                self.pane.turn(does.key)
            case MarkRow():
                self._guard.moved(key)
                self._perform(does)
                self._show()
            case Say() if key in content.beside:
                self._guard.close()
                self.say(does.text)
            case _:
                self._press(key, does, content)
        return True

    def _press(self, key: str, does: LazyMeaning, content: CardContent) -> None:
        """Act on a key that answers, if it counts by now; while there is more to read, it pages
        down instead."""
        admitted = self._guard.admits(key)
        if key not in content.beside and allows(does) and self._reads_on(content):
            return
        if not admitted:
            self.say(TOO_SOON)
            return
        if not content.sent:
            self._perform(does() if callable(does) else does)
        self._show()

    def _reads_on(self, content: CardContent) -> bool:
        """Page down while there is more to read; a key that is held down never allows anything."""
        if not self._guard.quiet or content.sent or not self._gate.is_unread(content.to_read):
            return False
        self.say("")
        self.pane.turn("pagedown")
        if not self.pane.below:
            self._guard.close()
        return True

    def _typing(self, key: str) -> bool:
        """Act on a key while the line is open; False if the key is for the line."""
        if (write := self.line.write) is None:
            return False
        if key in ("pageup", "pagedown"):
            return self.pane.turn(key)
        if key != "enter":
            self._guard.typed()
        if write.other is None or not keeps(key, keymap_of(self)):
            return False
        self.line.turn(write.other())
        self._show()
        return True

    def _step_back(self, key: str) -> None:
        """Close the top layer with Esc: the line, the list of all calls, a plan, then the card; Tab
        always leaves."""
        if key == "escape" and self.line.write is not None:
            self.close_line()
            self._show()
        elif key == "escape" and self._waiting.listing:
            self._perform(ShowAs("all", False))
            self._show()
        elif key != "escape" or not self.put_away():
            self.post_message(self.Left())
