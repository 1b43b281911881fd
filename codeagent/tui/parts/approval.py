"""The card that asks before something happens."""

import time
from collections.abc import Callable
from typing import assert_never

from textual import on
from textual.message import Message
from textual.timer import Timer

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, HunkAnswer
from codeagent.core.policy import Decision
from codeagent.core.sanitize import visible
from codeagent.tui.parts.approval_body import title_parts, waiting_parts
from codeagent.tui.parts.approval_sheet import MOVES, ApprovalSheet, choices_of_writing
from codeagent.tui.parts.call_edit import CallEdit, call_edit
from codeagent.tui.parts.card import Card
from codeagent.tui.parts.card_keys import card_key, keep_label, keeps, labelled
from codeagent.tui.parts.card_line import CardLine, Check, Purpose, check_rule
from codeagent.tui.parts.external_editor import EditorFailed, edit_in_editor
from codeagent.tui.parts.guard import TOO_SOON, Gate
from codeagent.tui.parts.line_pane import LinePane
from codeagent.tui.parts.pieces import SPLIT_FROM
from codeagent.tui.parts.rows import Part
from codeagent.tui.state import ApprovalQueue

_SENT = {
    "once": "allowed once",
    "session": "allowed for this session",
    "rule": "allowed, with a rule",
    "edit": "as edited",
    "deny": "denied",
}
_PLACEHOLDERS: dict[Purpose, str] = {"reason": "deny, because …", "answer": "your answer"}
_ALLOWS = ("y", "a", "p", "A")
"""Keys that read on where not all was read; what `h` allows is read on a page of its own."""


class ApprovalCard(Card):
    """Shows the oldest question, whole, or all calls that wait, and says what the user answers.

    It never changes the queue of questions: an answered one shows as sent until whoever asked has removed it. Other
    questions in front close the guard and the line, so that no key reaches what it was not pressed for.

    `now` gives seconds since the epoch.
    """

    DEFAULT_CSS = """
    ApprovalCard {
        color: $warning;
        & > .card--inside {
            border-left: round $warning;
            border-right: round $warning;
        }
    }
    """
    only_focused = MOVES

    class Answered(Message):
        """What the user decided; for the agent's own questions `reason` is the answer."""

        def __init__(self, approval_id: str, decision: Decision) -> None:
            super().__init__()
            self.approval_id = approval_id
            self.decision = decision

    class HunksWanted(Message):
        """The user wants to answer this change hunk by hunk: `take_hunks` gets what they chose."""

        def __init__(self, approval_id: str, diff: DiffBlock) -> None:
            super().__init__()
            self.approval_id = approval_id
            self.diff = diff

    class Told(Message):
        """One line about what was not done; `back` is text of the user's that would be lost."""

        def __init__(self, text: str, back: str = "") -> None:
            super().__init__()
            self.text = text
            self.back = back

    def __init__(
        self,
        approvals: ApprovalQueue,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        bell: bool = True,
    ) -> None:
        super().__init__(clock=clock, bell=bell)
        self._approvals = approvals
        self._now = now
        self._sheet = ApprovalSheet()
        self._gate = Gate(self._pane)
        self._keep = False
        """The rule that is written shall hold in later sessions, too."""
        self._age_timer: Timer | None = None

    def on_mount(self) -> None:
        self._approvals.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Show the questions as they are now."""
        self._gate.forget(self._approvals.waiting)
        if self._sheet.update(self._approvals.waiting) and self.rings:
            self.app.bell()
        self._show_front()
        if self.display and self._age_timer is None:
            self._age_timer = self.set_interval(1.0, self._look)
        if not self.display and self._age_timer is not None:
            self._age_timer.stop()
            self._age_timer = None

    def take_focus(self) -> bool:
        """As every card; a question without answers to choose from is answered in the line."""
        taken = super().take_focus()
        if taken and self._sheet.front.question is not None and not self._sheet.options:
            self._write("answer")
        return taken

    def take_hunks(self, approval_id: str, answers: tuple[HunkAnswer, ...]) -> bool:
        """Allow these hunks of the change; False where its question no longer waits."""
        if not self._sheet.waits(approval_id):
            return False
        self._send((approval_id,), Decision("once", hunks=answers), "in part")
        return True

    def meant(self, key: str) -> str:
        return card_key(key, self.keymap)

    def keys(self) -> frozenset[str]:
        return self._sheet.keys(wide=self._wide)

    @property
    def sent(self) -> str:
        return self._sheet.sent.get(self._sheet.front_id, "")

    def moves(self, key: str) -> bool:
        """Scroll, or say why a key does nothing for what is shown."""
        if self._sheet.scrolls(key):
            if self._guard.quiet:
                self._pane.turn(key)
            else:
                self.say(TOO_SOON)
            return True
        if refused := self._sheet.cannot(key, wide=self._wide):
            self._guard.close()
            self.say(refused)
            return True
        return False

    def reads_on(self, key: str) -> bool:
        """Turn the page while there is more to read; a key that is held down still allows nothing."""
        allows = key in _ALLOWS and (key != "A" or self._sheet.listing)
        if not allows or not self._guard.quiet or self.sent:
            return False
        if not self._gate.is_unread(self._asked):
            return False
        self.say("")
        self._pane.turn("pagedown")
        if not self._pane.below:
            self._guard.close()
        return True

    def typing(self, key: str) -> bool:
        if key in ("pageup", "pagedown"):
            return self._pane.turn(key)
        if key != "enter":
            self._guard.close()
        if self._line.purpose != "rule" or not keeps(key, self.keymap):
            return False
        self._keep = not self._keep
        self._line.look()
        self.draw_rows()
        return True

    def close_layer(self) -> bool:
        """Back from the list of all calls to the one in front."""
        if not self._sheet.listing:
            return False
        self._list(False)
        return True

    def line_typed(self, event: CardLine.Typed) -> None:
        self._sheet.drafts[self._sheet.front_id, event.purpose] = event.text
        if event.purpose == "rule":
            self._guard.close()
        self.draw_rows()

    def line_sent(self, event: CardLine.Sent) -> None:
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

    def do(self, key: str) -> None:
        match key:
            case "left" | "right":
                self._sheet.move(-1 if key == "left" else 1, wide=self._wide)
            case "up" | "down":
                self._sheet.pick(-1 if key == "up" else 1)
                self._fill()
                self._pane.turn("end")
            case "enter":
                if self._sheet.entered:
                    self.do(self._sheet.entered)
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

    def _may_allow(self) -> bool:
        """All of it was on screen; says what is missing where it was not."""
        why = self._why_closed()
        if why:
            self.say(why)
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
            self.say(TOO_SOON)
        elif self._may_allow():
            self._answer(Decision("rule", rule=rule, keep=self._keep))

    def _edit(self) -> None:
        """Rewrite the call: a command in the line, anything else in the user's editor."""
        waiting = self._sheet.front.waiting
        edit = call_edit(waiting.name, waiting.arguments)
        if edit is None:
            self.say("its arguments cannot be read: r says what should be done instead")
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
        self.stop_writing()
        self._send(self._sheet.ids, decision, _SENT[decision.answer])

    def _send(self, approval_ids: tuple[str, ...], decision: Decision, words: str) -> None:
        for approval_id in filter(self._sheet.waits, approval_ids):
            self._sheet.sent[approval_id] = words
            self.post_message(self.Answered(approval_id, decision))
        if self._sheet.listing:
            self._list(False)
        self.draw_rows()

    def _write(self, purpose: Purpose, text: str = "", judge: Callable[[str], Check] | None = None) -> None:
        """Open the line, with what was begun of it before."""
        begun = self._sheet.drafts.get((self._sheet.front_id, purpose), text)
        self._line.open(purpose, begun, placeholder=_PLACEHOLDERS.get(purpose, ""), judge=judge)
        self.opened()

    def draw_rows(self) -> None:
        sheet, line = self._sheet, self._line
        if not sheet.shown:
            return
        why = self._why_closed()
        choices, off = sheet.choices(wide=self._wide), bool(why)
        if line.is_open:
            choices = choices_of_writing(line.purpose, keep=self._keep, other=keep_label(self.keymap))
            off = bool(line.check.problem or (line.purpose == "rule" and why))
        self.draw_frame(
            title_parts(sheet.shown),
            waiting_parts(sheet.shown, sheet.count, self._now()),
            labelled(choices, self.keymap),
            tab="to answer",
            foot=Part(why, 100, lambda palette: palette.warning),
            marked=sheet.marked,
            off=off,
        )

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        if self._sheet.shown:
            self._gate.look(self._asked)
            self.draw_rows()

    def _show_front(self) -> None:
        """Show what should be in front; where that is something else than before, the wait begins again."""
        changed = self._sheet.turn()
        self.display = bool(self._sheet.shown)
        if not self.display:
            self.hide()
            return
        if changed:
            self._guard.close()
            self.stop_writing()
            self._fill()
        self.draw_rows()

    def _fill(self) -> None:
        self._pane.show(tuple(self._sheet.body()))
        self.fit()

    def _why_closed(self) -> str:
        if self._sheet.front.question is not None:
            return ""
        key = self.keymap.shown("card.once")
        shown = key if self.has_focus_within else f"Alt+{key.upper() if len(key) == 1 else key}"
        return self._gate.why_closed(self._asked, whole=self._sheet.whole, key=shown)

    @property
    def _asked(self) -> tuple[ApprovalRequested, ...]:
        """What the pane shows."""
        return tuple(each.waiting for each in self._sheet.shown)

    @property
    def _wide(self) -> bool:
        return self._pane.layout_width >= SPLIT_FROM
