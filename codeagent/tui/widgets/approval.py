"""The card above the composer that asks the person before something happens."""

import time
from collections.abc import Callable
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Focus, Key, Paste, Resize
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from codeagent.core.policy import Decision
from codeagent.tui.stage import Desk
from codeagent.tui.widgets.approval_choices import MOVES, choices_of_writing
from codeagent.tui.widgets.approval_gate import Gate
from codeagent.tui.widgets.approval_keys import KeyRow
from codeagent.tui.widgets.approval_sheet import ApprovalSheet
from codeagent.tui.widgets.approval_title import title_parts, waiting_parts
from codeagent.tui.widgets.card_keys import card_key, keymap_of, labelled
from codeagent.tui.widgets.diff_piece import SPLIT_FROM
from codeagent.tui.widgets.fitting import Part
from codeagent.tui.widgets.guard import Guard
from codeagent.tui.widgets.line_pane import LinePane
from codeagent.tui.widgets.reason_input import ReasonInput
from codeagent.tui.widgets.rule_row import RuleRow

TOO_SOON = "too soon: press again"
_SENT = {"once": "once", "session": "for the session", "deny": "no"}
_NOTE = 1.5
"""Seconds that a note stays in place of the keys."""
_TINY = 4
"""Rows of half a screen below which the card has no edges."""


class ApprovalCard(Vertical, can_focus=True):
    """Shows the oldest question of the desk, whole, and says what the person answers.

    Keys reach it through the focus (`take_focus`) or from the composer (`press`). It never changes the desk:
    an answered question shows as sent until whoever asked has removed it.

    `clock` gives seconds that never go back, `now` seconds since the epoch. A new question rings once if `rings`.
    """

    DEFAULT_CSS = """
    ApprovalCard {
        height: auto;
        display: none;
        color: $warning;
        background: $background;
    }
    ApprovalCard:focus, ApprovalCard:focus-within {
        color: $primary;
    }
    ApprovalCard > .approval--inside {
        height: auto;
        padding: 0 1;
        border-left: round $warning;
        border-right: round $warning;
        color: $foreground;
    }
    ApprovalCard:focus > .approval--inside, ApprovalCard:focus-within > .approval--inside {
        border-left: round $primary;
        border-right: round $primary;
    }
    ApprovalCard LinePane {
        height: auto;
    }
    ApprovalCard ReasonInput {
        display: none;
    }
    ApprovalCard.-writing ReasonInput {
        display: block;
    }
    ApprovalCard.-tiny > RuleRow {
        display: none;
    }
    ApprovalCard.-tiny > .approval--inside {
        border: none;
        padding: 0;
    }
    """

    class Answered(Message):
        """What the person decided; for the agent's own questions `reason` is the answer."""

        def __init__(self, approval_id: str, decision: Decision) -> None:
            super().__init__()
            self.approval_id = approval_id
            self.decision = decision

    class Left(Message):
        """The card gives the focus back."""

    def __init__(
        self,
        desk: Desk,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        bell: bool = True,
    ) -> None:
        super().__init__()
        self._desk = desk
        self._now = now
        self.rings = bell
        self._guard = Guard(clock)
        self._sheet = ApprovalSheet()
        self._title = RuleRow(("╭", "╮"))
        self._pane = LinePane()
        self._gate = Gate(self._pane)
        self._input = ReasonInput(compact=True)
        self._keys = KeyRow()
        self._foot = RuleRow(("╰", "╯"))
        self._note = ""
        self._note_timer: Timer | None = None
        self._age_timer: Timer | None = None
        self._taking = False

    def compose(self) -> ComposeResult:
        yield self._title
        with Vertical(classes="approval--inside"):
            yield self._pane
            yield self._input
            yield self._keys
        yield self._foot

    def on_mount(self) -> None:
        self._desk.watch(self.sync)
        self.watch(self.app, "app_focus", self._window_came_back, init=False)
        self.sync()

    def sync(self) -> None:
        """Show the desk as it is now."""
        if self._sheet.update(self._desk.waiting) and self.rings:
            self.app.bell()
        self._show_front()
        if self.display and self._age_timer is None:
            self._age_timer = self.set_interval(1.0, self._look)
        if not self.display and self._age_timer is not None:
            self._age_timer.stop()
            self._age_timer = None

    def take_focus(self) -> bool:
        """Give the keys to the card; False where nothing waits, or where it is too soon."""
        if not self._sheet.shown:
            return False
        if not self._guard.admits("tab"):
            self._say(TOO_SOON)
            return False
        self._focus_card()
        if self._sheet.front.question is not None and not self._sheet.options:
            self._write()
        return True

    def press(self, key: str) -> bool:
        """A key with Alt, from the composer; False where it is none of the card's."""
        meant = card_key(key, keymap_of(self))
        return bool(self._sheet.shown) and meant not in MOVES and self._take(meant)

    def typed(self) -> None:
        """The person typed or pasted in the composer."""
        self._guard.close()

    def focus_on_click(self) -> bool:
        return self._guard.quiet

    def on_resize(self, event: Resize) -> None:
        self._fit()
        self._draw_rows()

    def on_focus(self, event: Focus) -> None:
        """A focus that nobody asked for is a key that was on its way to somewhere else."""
        if not self._taking:
            self._guard.close()
        self._taking = False
        self._draw_rows()

    def on_blur(self) -> None:
        self._draw_rows()

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._guard.close()

    def on_key(self, event: Key) -> None:
        key = card_key(event.key, keymap_of(self))
        if event.key in ("escape", "tab"):
            self._step_back(event.key)
        elif not self.has_focus:
            return
        elif not self._take(key):
            if not event.is_printable:
                return
            self._guard.close()
        event.stop()
        event.prevent_default()

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self.call_after_refresh(self._look)

    @on(Input.Changed)
    def _input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._writing and self._sheet.shown:
            self._sheet.drafts[self._sheet.front_id] = event.value

    @on(Input.Submitted)
    def _input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if not self._sheet.shown or (self._sheet.front.question is not None and not text):
            return
        self._stop_writing()
        self._answer("deny" if self._sheet.front.question is None else "once", text)

    def _show_front(self) -> None:
        """Show what should be in front; where that is something else than before, the guard starts anew."""
        changed = self._sheet.turn()
        self.display = bool(self._sheet.shown)
        if not self.display:
            had_focus = self.has_focus_within
            self._stop_writing()
            self._note = ""
            if changed and had_focus:
                self.post_message(self.Left())
            return
        if changed:
            self._guard.close()
            self._stop_writing()
            self._fill()
        self._draw_rows()

    def _fit(self) -> None:
        """Leave the composer its half of the screen; where there is little, the card has no edges."""
        tiny = self.app.size.height // 2 < _TINY
        self.set_class(tiny, "-tiny")
        self._pane.reserve = (1 if tiny else 3) + (1 if self._writing else 0)
        self._pane.refresh(layout=True)

    def _fill(self) -> None:
        self._pane.show(tuple(self._sheet.body(wide=self._wide)))
        self._fit()

    def _draw_rows(self) -> None:
        """Draw everything but the body: title, keys, and what keeps from allowing."""
        sheet = self._sheet
        if not sheet.shown:
            return
        why, sent = self._why_closed(), sheet.sent.get(sheet.front_id, "")
        choices = sheet.choices(wide=self._wide)
        if self._writing:
            choices = choices_of_writing(question=sheet.front.question is not None)
        self._title.show(title_parts(sheet.shown), waiting_parts(sheet.shown, sheet.count, self._now()))
        self._keys.show(
            labelled(choices, keymap_of(self)),
            marked=sheet.marked,
            lead="" if self.has_focus_within else "tab, or alt+",
            note=self._note or (f"sent: {sent}" if sent else ""),
            off=bool(why),
        )
        self._foot.show(right=(Part(why, 100, lambda palette: palette.warning),))

    def _look(self) -> None:
        if self._sheet.shown:
            self._gate.look(self._sheet.ids)
            self._draw_rows()

    def _why_closed(self) -> str:
        if self._sheet.front.question is not None:
            return ""
        return self._gate.why_closed(self._sheet.ids, whole=self._sheet.whole)

    def _say(self, note: str) -> None:
        """Put a note in place of the keys for a moment."""
        self._note = note
        if self._note_timer is not None:
            self._note_timer.stop()
        self._note_timer = self.set_timer(_NOTE, lambda: self._say("")) if note else None
        self._draw_rows()

    def _window_came_back(self, focused: bool) -> None:
        if focused:
            self._guard.close()

    @property
    def _wide(self) -> bool:
        return self._pane.layout_width >= SPLIT_FROM

    @property
    def _writing(self) -> bool:
        return self.has_class("-writing")

    def _take(self, key: str) -> bool:
        """Act on a key; False where it is none of the card's."""
        if self._sheet.scrolls(key):
            if self._guard.quiet:
                self._pane.turn(key)
            else:
                self._say(TOO_SOON)
            return True
        if key not in self._sheet.keys(wide=self._wide):
            return False
        if not self._guard.admits(key):
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
            case "y":
                self._allow("once")
            case "a":
                self._allow("session")
            case "A" if self._sheet.listing:
                self._allow("once")
            case "n" if self._sheet.listing:
                self._list(False)
            case "A":
                self._list(True)
            case "n":
                self._answer("deny")
            case "r":
                self._write()
            case "t":
                self._sheet.split = not self._sheet.split
                self._fill()
            case _:
                self._answer("once", self._sheet.options[int(key) - 1])

    def _list(self, listing: bool) -> None:
        self._sheet.listing = listing
        self._show_front()

    def _allow(self, answer: Literal["once", "session"]) -> None:
        """Allow what is shown, if all of it was on screen."""
        why = self._why_closed()
        if why:
            self._say(why)
            self.call_after_refresh(self._look)
        else:
            self._answer(answer)

    def _answer(self, answer: Literal["once", "session", "deny"], reason: str = "") -> None:
        """Send the answer to all that is shown, once each."""
        for approval_id in self._sheet.ids:
            if approval_id not in self._sheet.sent:
                self._sheet.sent[approval_id] = _SENT[answer]
                self.post_message(self.Answered(approval_id, Decision(answer, reason)))
        if self._sheet.listing:
            self._list(False)
        self._draw_rows()

    def _write(self) -> None:
        """Open the line for a reason, with what was begun of it before."""
        question = self._sheet.front.question
        self.add_class("-writing")
        self._input.placeholder = "no, because …" if question is None else "your answer"
        self._input.value = self._sheet.drafts.get(self._sheet.front_id, "")
        self._input.focus()
        self._fit()
        self._draw_rows()

    def _stop_writing(self) -> None:
        if not self._writing:
            return
        if self._input.has_focus:
            self._focus_card()
        self.remove_class("-writing")
        self._fit()

    def _focus_card(self) -> None:
        self._taking = True
        self.focus()

    def _step_back(self, key: str) -> None:
        """Esc closes the top layer: the line for a reason, the list, then the card; Tab always leaves."""
        if key == "escape" and self._writing:
            self._stop_writing()
        elif key == "escape" and self._sheet.listing:
            self._list(False)
        else:
            self.post_message(self.Left())
