"""The card above the composer that shows what a paused run would do next, or that a plan is ready."""

import time
from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Focus, Key, Paste, Resize
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from codeagent.tui.stage import Paused, PlanReady, Stage
from codeagent.tui.widgets.approval_keys import KeyRow
from codeagent.tui.widgets.boundary_acts import BoundaryAct
from codeagent.tui.widgets.boundary_sheet import NO_EDIT, SKIPPED, BoundarySheet, Writing
from codeagent.tui.widgets.call_edit import CallEdit
from codeagent.tui.widgets.card_keys import keymap_of, reached
from codeagent.tui.widgets.fitting import Part
from codeagent.tui.widgets.guard import TOO_SOON, Guard
from codeagent.tui.widgets.line_pane import LinePane
from codeagent.tui.widgets.reason_input import ReasonInput
from codeagent.tui.widgets.rule_row import RuleRow

_NOTE = 1.5
"""Seconds that a note stays in place of the keys."""
_BESIDE_KEYS = 4
"""Cells of the card's edges and of the air within them."""
_ROOMY = 20
"""Rows of a screen from which on the keys may take two."""
_TINY = 4
"""Rows of half a screen below which the card has no edges."""
_RINGS = ("step", "budget", "limit")
"""Pauses the person did not ask for just now."""


class BoundaryCard(Vertical, can_focus=True):
    """Shows the boundary of the stage, unless a question waits, and says what the person wants.

    Keys reach it through the focus (`take_focus`) or from the composer (`press`), not in the first half second.
    It never changes the stage: what was wanted shows as sent until the boundary has changed.

    `clock` gives seconds that never go back.
    """

    DEFAULT_CSS = """
    BoundaryCard {
        height: auto;
        display: none;
        color: $accent;
        background: $background;
        & > .boundary--inside {
            height: auto;
            padding: 0 1;
            border-left: round $accent;
            border-right: round $accent;
            color: $foreground;
        }
        &:focus, &:focus-within { color: $primary; }
        &:focus > .boundary--inside, &:focus-within > .boundary--inside {
            border-left: round $primary;
            border-right: round $primary;
        }
        & LinePane { height: auto; }
        & ReasonInput { display: none; }
        &.-writing ReasonInput { display: block; }
        &.-tiny > RuleRow { display: none; }
        &.-tiny > .boundary--inside { border: none; padding: 0; }
    }
    """

    class Wanted(Message):
        """What the person wants."""

        def __init__(self, act: BoundaryAct) -> None:
            super().__init__()
            self.act = act

    class Left(Message):
        """The card gives the focus back."""

    def __init__(self, stage: Stage, *, clock: Callable[[], float] = time.monotonic, bell: bool = True) -> None:
        super().__init__()
        self._stage = stage
        self._clock = clock
        self.rings = bell
        self._guard = Guard(clock)
        self._title = RuleRow(("╭", "╮"))
        self._pane = LinePane()
        self._input = ReasonInput(compact=True, select_on_focus=False)
        self._keys = KeyRow()
        self._foot = RuleRow(("╰", "╯"))
        self._sheet = BoundarySheet()
        self._note = ""
        self._key_rows = 1
        self._note_timer: Timer | None = None
        self._taking = False

    def compose(self) -> ComposeResult:
        yield self._title
        with Vertical(classes="boundary--inside"):
            yield self._pane
            yield self._input
            yield self._keys
        yield self._foot

    def on_mount(self) -> None:
        for model in (self._stage.boundary, self._stage.desk, self._stage.status):
            model.watch(self.sync)
        self.watch(self.app, "app_focus", self._window_came_back, init=False)
        self.sync()

    def sync(self) -> None:
        """Show the stage as it is now; what is another boundary than before begins the wait anew."""
        before, now = self._sheet.now, self._stage.boundary.now
        self._sheet.stepping = self._stage.status.now.stepping
        another = self._sheet.update(now)
        was_shown, self.display = self.display, self._wanted
        if another or (self.display and not was_shown):
            self._appear()
        elif before != now:
            self._fill()
        if another and isinstance(now, Paused) and now.why in _RINGS and self.rings:
            self.app.bell()
        if was_shown and not self.display:
            self._hide()
        self._draw_rows()

    @property
    def is_new(self) -> bool:
        """It is shown for less time than it takes to see it."""
        return self.display and self._guard.new

    @property
    def plan(self) -> str:
        """The plan that would be started, as it is or as the person changed it; empty where none is ready."""
        return self._sheet.plan

    def take_focus(self) -> bool:
        """Give the keys to the card, also one that was put away; False where there is none, or it is too soon."""
        if self._sheet.away:
            self._sheet.away = False
            self.sync()
            self._guard = Guard(self._clock)
        if not self.display:
            return False
        if not self._guard.admits("tab"):
            self._say(TOO_SOON)
            return False
        self._focus_card()
        return True

    def press(self, key: str) -> bool:
        """A key with Alt, from the composer; False where it is none of the card's."""
        return self.display and self._take(self._sheet.meant(key, keymap_of(self)))

    def put_away(self) -> bool:
        """Hide a plan until Tab asks for it, or another is ready; False where none is shown."""
        if not self.display or not isinstance(self._sheet.now, PlanReady):
            return False
        self._sheet.away = True
        self.sync()
        return True

    def typed(self) -> None:
        """The person typed or pasted in the composer."""
        self._guard.close()

    def call_edited(self, call_id: str, edit: CallEdit, text: str) -> None:
        """What the person made of a call in their editor."""
        self._want(self._sheet.amended(call_id, edit, text))

    def refuse(self, call_id: str, written: str, problem: str) -> bool:
        """What was written for a call does not fit: say why, and keep it for the next try; False where it is gone."""
        if not self._sheet.has(call_id):
            return False
        self._sheet.refuse(call_id, written, problem)
        self._fill()
        return True

    def change_plan(self, text: str) -> bool:
        """What the person made of the plan is what is started; False where no plan is ready any more."""
        if not self.plan:
            return False
        if text.strip():
            self._sheet.change_plan(text)
            self._fill()
        else:
            self._say("an empty plan is none: it is as it was")
        return True

    def not_sent(self) -> None:
        """What was wanted could not be done: the keys count again."""
        self._sheet.sent = ""
        self._draw_rows()

    def focus_on_click(self) -> bool:
        return self._guard.quiet

    def on_resize(self, event: Resize) -> None:
        self._fit()
        self._draw_rows()
        self.call_after_refresh(self._show_mark)

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
        if event.key in ("escape", "tab"):
            self._step_back(event.key)
        elif not self.has_focus:
            return
        elif not self._take(self._sheet.meant(event.key, keymap_of(self))):
            if not event.is_printable:
                return
            self._guard.close()
        event.stop()
        event.prevent_default()

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self._draw_rows()

    @on(Input.Changed)
    def _input_changed(self, event: Input.Changed) -> None:
        event.stop()

    @on(Input.Submitted)
    def _input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._want(self._sheet.written(event.value))
        self._stop_writing()

    def _want(self, act: BoundaryAct | None) -> None:
        if act is None:
            self._fill()
        else:
            self.post_message(self.Wanted(act))

    @property
    def _wanted(self) -> bool:
        """There is something to show, and no question goes before it."""
        return self._sheet.now is not None and not self._sheet.away and not self._stage.desk.waiting

    def _appear(self) -> None:
        self._stop_writing()
        self._guard.appear()
        self._fill()

    def _hide(self) -> None:
        had_focus = self.has_focus_within
        self._stop_writing()
        self._note = ""
        if had_focus:
            self.post_message(self.Left())

    def _fill(self) -> None:
        self._pane.show(self._sheet.body())
        self._pane.go_to(self._sheet.marked - 1)
        self._fit()
        self._draw_rows()

    def _show_mark(self) -> None:
        """Scroll to the marked call where it is no longer on screen."""
        below_top = self._sheet.marked - self._pane.scroll_offset.y
        if isinstance(self._sheet.now, Paused) and not 0 <= below_top < self._pane.scrollable_content_region.height:
            self._pane.go_to(self._sheet.marked - 1)

    def _fit(self) -> None:
        """Leave the composer its half of the screen; where there is little, the card has no edges."""
        tiny = self.app.size.height // 2 < _TINY
        self.set_class(tiny, "-tiny")
        self._keys.most = 2 if self.app.size.height >= _ROOMY else 1
        self._key_rows = self._keys.needed(self.size.width - (0 if tiny else _BESIDE_KEYS))
        self._pane.reserve = (0 if tiny else 2) + self._key_rows + (1 if self._sheet.writing else 0)
        self._pane.refresh(layout=True)

    def _draw_rows(self) -> None:
        """Draw everything but the body."""
        left, right = self._sheet.title()
        self._title.show((Part(left, 90, lambda palette: palette.strong),), (Part(right, 50),))
        focused = self.has_focus_within
        choices = self._sheet.choices(keymap_of(self), focused=focused)
        self._keys.show(
            reached(choices, focused=focused, tab="to choose"),
            marked="none",
            note=self._note or (f"sent: {self._sheet.sent}" if self._sheet.sent else ""),
            off=False,
        )
        if self._keys.needed(self.size.width - _BESIDE_KEYS) != self._key_rows and not self.has_class("-tiny"):
            self._fit()
        below = self._pane.below
        self._foot.show(right=(Part(f"{below} more below" if below else "", 50),))

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

    def _take(self, key: str) -> bool:
        """Act on a key; False where it is none of the card's."""
        at = self._sheet.place(key)
        if at is not None:
            self._mark(at)
            return True
        if key not in self._sheet.keys(keymap_of(self)):
            return False
        if not self._guard.admits(key):
            self._say(TOO_SOON)
            return True
        self._say("")
        if not self._sheet.sent:
            self._do(key)
        self._draw_rows()
        return True

    def _mark(self, at: int) -> None:
        """Mark another call; holding a key down does that as well."""
        if not self._guard.quiet:
            self._say(TOO_SOON)
        elif at != self._sheet.marked:
            self._sheet.marked, self._sheet.problem = at, ""
            self._fill()

    def _do(self, key: str) -> None:
        if key in ("x", "X", "e") and self._sheet.is_skipped:
            self._say(SKIPPED)
        elif key == "k":
            self.put_away()
        elif key == "X":
            self._write("reason", "")
        elif key == "e" and self._sheet.call is not None and self._sheet.edit is None:
            self._say(NO_EDIT)
        elif key == "e" and self._sheet.in_line:
            self._write("command", self._sheet.draft)
        elif (act := self._sheet.act(key)) is not None:
            self.post_message(self.Wanted(act))

    def _write(self, writing: Writing, text: str) -> None:
        """Open the card's own line, with what is to be changed in it."""
        self._sheet.writing = writing
        self.add_class("-writing")
        self._input.placeholder = "skipped, because …" if writing == "reason" else "the command to run instead"
        self._input.value = text
        self._input.cursor_position = len(text)
        self._input.focus()
        self._fit()
        self._draw_rows()

    def _stop_writing(self) -> None:
        if not self.has_class("-writing"):
            return
        if self._input.has_focus:
            self._focus_card()
        self._sheet.writing = ""
        self.remove_class("-writing")
        self._fit()
        self._draw_rows()

    def _focus_card(self) -> None:
        self._taking = True
        self.focus()

    def _step_back(self, key: str) -> None:
        """Esc closes the top layer: the line, then a plan; else the focus goes back. Tab always leaves."""
        if key == "escape" and self._sheet.writing:
            self._stop_writing()
        elif key == "escape" and self.put_away():
            return
        else:
            self.post_message(self.Left())
