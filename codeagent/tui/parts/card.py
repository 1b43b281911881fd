"""The card above the composer: which keys count for what it shows, when, and what they do."""

from typing import assert_never

from textual import on
from textual.events import Blur, DescendantBlur, DescendantFocus, Focus, Key, Paste

from codeagent.core.acts import Answer
from codeagent.core.display import HunkAnswer
from codeagent.core.policy import Decision
from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.card_content import (
    CardContent,
    Fill,
    KeyMeaning,
    LazyMeaning,
    MarkChoice,
    MarkRow,
    Say,
    Scroll,
    Send,
    ShowAs,
    Tell,
    Writing,
)
from codeagent.tui.parts.card_frame import CardLine
from codeagent.tui.parts.card_keys import keeps
from codeagent.tui.parts.card_shown import ShownCard
from codeagent.tui.parts.checks import fits_line
from codeagent.tui.parts.external_editor import EditorFailed, edit_in_editor
from codeagent.tui.parts.guard import TOO_SOON, Guard, allows

_MOVES = frozenset({"left", "right", "up", "down", "enter"})
"""Keys that move the mark on a question, or choose what is marked: only with the focus, as the
composer uses them too."""


class Card(ShownCard):
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
            and not (letter in _MOVES and self._content.scope == "card")
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

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._guard.close()

    async def on_key(self, event: Key) -> None:
        if event.key in ("escape", "tab"):
            self._step_back(event.key)
        elif not self.has_focus:
            if not self._typing(event.key):
                return
        elif (write := self.line.write) is not None and event.key == "enter" and write.allows:
            self.say(TOO_SOON)
        elif write is not None and await self.line.type_ahead(event):
            pass
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

    def put_away(self) -> bool:
        """Hide a plan until Tab is pressed or another is ready; False if none is shown."""
        if self.scope != "plan":
            return False
        self._perform(ShowAs("away", True))
        self._show()
        return True

    def take_hunks(self, approval_id: str, answers: tuple[HunkAnswer, ...]) -> bool:
        """Allow these hunks of the change; False if its question is no longer waiting."""
        if not self._waiting.waits(approval_id):
            return False
        self._send(Send((Answer(approval_id, Decision("once", hunks=answers)),), "in part"))
        self._show()
        return True

    async def write_outside(self, write: Writing) -> None:
        """Let the user write in their editor; the text is never lost."""
        try:
            text = await edit_in_editor(self.app, self._waiting.begun(write), suffix=write.suffix)
        except EditorFailed as error:
            self._do(Tell(str(error)))
            return
        finally:
            self._guard.close()
        if not self._waiting.waits(write.subject):
            back = text if text != write.text else ""
            kept = "; your text is in the composer" if back else ""
            self._do(Tell(f"the {write.about} is no longer pending{kept}", back))
            return
        if text.strip():
            self._waiting.keep(write, text)
        if problem := write.judge(text).problem if write.judge is not None else "":
            self._do(
                Tell(f"not sent: {problem}; the {write.about} waits as before; e opens it again")
            )
        elif (does := write.then(text)) is not None:
            self._perform(does)
        self._show()

    def _perform(self, does: KeyMeaning) -> None:
        """Do what a key means; a call is allowed only once all of it was on screen."""
        if allows(does) and self._content is not None:
            to_read = self._content.to_read
            if why := self._gate.why_closed(to_read, key=self.reading_key):
                self.say(why)
                self.call_after_refresh(self._look)
                return
        match does:
            case Send():
                self._send(does)
            case Writing():
                self._write(does)
            case Say():
                pass  # its text is shown below
            case MarkRow() | MarkChoice():
                self._waiting.mark(does)
            case ShowAs():
                self._waiting.turn(does)
            case Fill():
                self._waiting.fill(does)
                if self.line.write is not None:
                    self.close_line()
            case Scroll():
                self.pane.turn(does.key)
            case _:
                assert_never(does)
        self.say(does.text if isinstance(does, Say) else "")

    def _send(self, send: Send) -> None:
        if self.line.write is not None:
            self.close_line()
        for act in self._waiting.send(send).acts:
            self._do(act)

    def _write(self, write: Writing) -> None:
        """Let the user write: in the line if it can show all of the text, else in their editor."""
        begun = self._waiting.begun(write)
        if write.suffix and not (write.purpose in ("command", "message") and fits_line(begun)):
            self.run_worker(self.write_outside(write), group="edit", exclusive=True)
            return
        self.open_line(write, begun)
