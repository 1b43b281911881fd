"""The card above the composer that asks the person before something happens."""

from collections.abc import Callable
from typing import assert_never

from textual import on
from textual.events import Focus, Key, Paste
from textual.message import Message

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock
from codeagent.core.hunks import HunkAnswer
from codeagent.core.policy import Decision
from codeagent.core.sanitize import visible
from codeagent.tui.widgets.approval_choices import MOVES
from codeagent.tui.widgets.approval_view import ApprovalView
from codeagent.tui.widgets.call_edit import CallEdit, call_edit
from codeagent.tui.widgets.card_check import Check
from codeagent.tui.widgets.card_keys import card_key, keeps, keymap_of
from codeagent.tui.widgets.card_line import CardLine, Purpose
from codeagent.tui.widgets.card_rule import check_rule
from codeagent.tui.widgets.external_editor import EditorFailed, edit_in_editor
from codeagent.tui.widgets.guard import TOO_SOON

_SENT = {
    "once": "allowed once",
    "session": "allowed for this session",
    "rule": "allowed, with a rule",
    "edit": "as edited",
    "deny": "denied",
}
_ALLOWS = ("y", "a", "p", "A")
"""Keys that read on where not all was read; what `h` allows is read on a page of its own."""


class ApprovalCard(ApprovalView):
    """Shows the oldest question of the desk, whole, and says what the person answers.

    Keys reach it through the focus (`take_focus`) or from the composer (`press`). It never changes the desk:
    an answered question shows as sent until whoever asked has removed it.

    `clock` gives seconds that never go back, `now` seconds since the epoch. A new question rings once if `rings`.
    """

    class Answered(Message):
        """What the person decided; for the agent's own questions `reason` is the answer."""

        def __init__(self, approval_id: str, decision: Decision) -> None:
            super().__init__()
            self.approval_id = approval_id
            self.decision = decision

    class HunksWanted(Message):
        """The person wants to answer this change hunk by hunk: `take_hunks` gets what they chose."""

        def __init__(self, approval_id: str, diff: DiffBlock) -> None:
            super().__init__()
            self.approval_id = approval_id
            self.diff = diff

    class Told(Message):
        """One line about what was not done; `back` is text of the person's that would be lost."""

        def __init__(self, text: str, back: str = "") -> None:
            super().__init__()
            self.text = text
            self.back = back

    class Left(Message):
        """The card gives the focus back."""

    def take_focus(self) -> bool:
        """Give the keys to the card; False where nothing waits, or where it is too soon."""
        if not self._sheet.shown:
            return False
        if not self._guard.admits("tab"):
            self._say(TOO_SOON)
            return False
        self._focus_card()
        if self._sheet.front.question is not None and not self._sheet.options:
            self._write("answer")
        return True

    def press(self, key: str) -> bool:
        """A key with Alt, from the composer; False where it is none of the card's."""
        meant = card_key(key, keymap_of(self))
        return bool(self._sheet.shown) and meant not in MOVES and self._take(meant)

    def take_hunks(self, approval_id: str, answers: tuple[HunkAnswer, ...]) -> bool:
        """Allow these hunks of the change; False where its question no longer waits."""
        if not self._sheet.waits(approval_id):
            return False
        self._send((approval_id,), Decision("once", hunks=answers), "in part")
        return True

    def typed(self) -> None:
        """The person typed or pasted in the composer."""
        self._guard.close()

    def focus_on_click(self) -> bool:
        return self._guard.quiet

    def on_focus(self, event: Focus) -> None:
        """A focus that nobody asked for is a key that was on its way to somewhere else."""
        if not self._taking:
            self._guard.close()
        self._taking = False
        self._draw_rows()

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._guard.close()

    def on_key(self, event: Key) -> None:
        key = card_key(event.key, keymap_of(self))
        if event.key in ("escape", "tab"):
            self._step_back(event.key)
        elif not self.has_focus:
            if not self._turned(event.key):
                return
        elif not self._take(key):
            if not event.is_printable:
                return
            self._guard.close()
        event.stop()
        event.prevent_default()

    @on(CardLine.Typed)
    def _line_typed(self, event: CardLine.Typed) -> None:
        event.stop()
        if not self._line.is_open or not self._sheet.shown:
            return
        self._sheet.drafts[self._sheet.front_id, event.purpose] = event.text
        if event.purpose == "rule":
            self._guard.close()
        self._draw_rows()

    @on(CardLine.Sent)
    def _line_sent(self, event: CardLine.Sent) -> None:
        """What is sent is for the question in front: another one there would have closed the line."""
        event.stop()
        if not self._line.is_open or not self._sheet.shown:
            return
        match event.purpose:
            case "reason":
                self._answer(Decision("deny", event.text))
            case "answer":
                if event.text:
                    self._answer(Decision("once", event.text))
            case "rule":
                self._give_rule(event.text)
            case "command":
                waiting = self._sheet.front.waiting
                if (edit := call_edit(waiting.name, waiting.arguments)) is not None:
                    self._answer(Decision("edit", arguments=edit.arguments(event.text)))
            case _:
                assert_never(event.purpose)

    def _take(self, key: str) -> bool:
        """Act on a key; False where it is none of the card's."""
        if self._sheet.scrolls(key):
            if self._guard.quiet:
                self._pane.turn(key)
            else:
                self._say(TOO_SOON)
            return True
        if refused := self._sheet.cannot(key, wide=self._wide):
            self._guard.close()
            self._say(refused)
            return True
        if key not in self._sheet.keys(wide=self._wide):
            return False
        admitted = self._guard.admits(key)
        if self._reads_on(key):
            return True
        if not admitted:
            self._say(TOO_SOON)
            return True
        self._say("")
        if self._sheet.front_id not in self._sheet.sent:
            self._do(key)
        self._draw_rows()
        return True

    def _do(self, key: str) -> None:
        match key:
            case "left" | "right":
                self._sheet.move(-1 if key == "left" else 1, wide=self._wide)
            case "up" | "down":
                self._sheet.pick(-1 if key == "up" else 1)
                self._fill()
                self._pane.turn("end")
            case "enter":
                if self._sheet.entered:
                    self._do(self._sheet.entered)
            case "y" | "a":
                self._allow(Decision("once" if key == "y" else "session"))
            case "A" if self._sheet.listing:
                self._allow(Decision("once"))
            case "n" if self._sheet.listing:
                self._list(False)
            case "A":
                self._list(True)
            case "n":
                self._answer(Decision("deny"))
            case "r":
                self._write("reason" if self._sheet.front.question is None else "answer")
            case "p":
                self._begin_rule()
            case "h":
                self._choose_hunks()
            case "e":
                self._edit()
            case "t":
                self._sheet.split = not self._sheet.split
                self._fill()
            case _:
                self._answer(Decision("once", self._sheet.options[int(key) - 1]))

    def _list(self, listing: bool) -> None:
        self._sheet.listing = listing
        self._show_front()

    def _reads_on(self, key: str) -> bool:
        """A key that would allow turns the page while there is more to read; held down it still allows nothing."""
        allows = key in _ALLOWS and (key != "A" or self._sheet.listing)
        if not allows or not self._guard.quiet or self._sheet.front_id in self._sheet.sent:
            return False
        if not self._gate.is_unread(self._asked):
            return False
        self._say("")
        self._pane.turn("pagedown")
        if not self._pane.below:
            self._guard.close()
        return True

    def _may_allow(self) -> bool:
        """All of it was on screen; says what is missing where it was not."""
        why = self._why_closed()
        if why:
            self._say(why)
            self.call_after_refresh(self._look)
        return not why

    def _allow(self, decision: Decision) -> None:
        if self._may_allow():
            self._answer(decision)

    def _begin_rule(self) -> None:
        if self._may_allow():
            self._keep = False
            self._write("rule", visible(self._sheet.front.waiting.proposal), self._judge_rule)

    def _choose_hunks(self) -> None:
        """The page for them wants each hunk it takes to be seen."""
        front = self._sheet.front
        if front.diff is not None:
            self.post_message(self.HunksWanted(self._sheet.front_id, front.diff))

    def _judge_rule(self, text: str) -> Check:
        return check_rule(text, self._sheet.front.waiting, keep=self._keep)

    def _give_rule(self, rule: str) -> None:
        """Allow the call and what the rule matches; Enter counts as any key that allows does."""
        if not self._guard.admits("enter"):
            self._say(TOO_SOON)
        elif self._may_allow():
            self._answer(Decision("rule", rule=rule, keep=self._keep))

    def _edit(self) -> None:
        """Write the call anew: a command in the line, anything else in the person's editor."""
        waiting = self._sheet.front.waiting
        edit = call_edit(waiting.name, waiting.arguments)
        if edit is None:
            self._say("its arguments cannot be read: r says what should be done instead")
        elif edit.in_line:
            self._write("command", edit.text, edit.check)
        else:
            self.run_worker(self._edit_outside(waiting, edit), group="edit", exclusive=True)

    async def _edit_outside(self, waiting: ApprovalRequested, edit: CallEdit) -> None:
        key: tuple[str, Purpose] = (waiting.approval_id, "command")
        try:
            text = await edit_in_editor(self.app, self._sheet.drafts.get(key, edit.text), suffix=edit.suffix)
        except EditorFailed as error:
            self.post_message(self.Told(str(error)))
            return
        finally:
            self._guard.close()
        if not self._sheet.waits(waiting.approval_id):
            back = text if text != edit.text else ""
            kept = ": what you wrote is in the composer" if back else ""
            self.post_message(self.Told(f"the question is no longer pending{kept}", back))
        elif problem := edit.check(text).problem:
            self._sheet.drafts[key] = text
            self.post_message(self.Told(f"not sent: {problem}; the question waits as before, e goes on"))
        else:
            self._send((waiting.approval_id,), Decision("edit", arguments=edit.arguments(text)), _SENT["edit"])

    def _answer(self, decision: Decision) -> None:
        """Send the answer to all that is shown, once each."""
        self._stop_writing()
        self._send(self._sheet.ids, decision, _SENT[decision.answer])

    def _send(self, approval_ids: tuple[str, ...], decision: Decision, words: str) -> None:
        for approval_id in filter(self._sheet.waits, approval_ids):
            self._sheet.sent[approval_id] = words
            self.post_message(self.Answered(approval_id, decision))
        if self._sheet.listing:
            self._list(False)
        self._draw_rows()

    def _write(self, purpose: Purpose, text: str = "", judge: Callable[[str], Check] | None = None) -> None:
        """Open the line, with what was begun of it before."""
        self.add_class("-writing")
        self._line.open(purpose, self._sheet.drafts.get((self._sheet.front_id, purpose), text), judge)
        self._fit()
        self._draw_rows()

    def _turned(self, key: str) -> bool:
        """A key that, while something is written, is not for the line."""
        if not self._line.is_open:
            return False
        if key in ("pageup", "pagedown"):
            return self._pane.turn(key)
        if key != "enter":
            self._guard.close()
        if self._line.purpose != "rule" or not keeps(key, keymap_of(self)):
            return False
        self._keep = not self._keep
        self._line.look()
        self._draw_rows()
        return True

    def _step_back(self, key: str) -> None:
        """Esc closes the top layer: the line for a reason, the list, then the card; Tab always leaves."""
        if key == "escape" and self._line.is_open:
            self._stop_writing()
        elif key == "escape" and self._sheet.listing:
            self._list(False)
        else:
            self._leave()

    def _leave(self) -> None:
        self.post_message(self.Left())
