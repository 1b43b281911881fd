"""The card that shows what a paused run would do next, or that a plan is ready."""

import time
from collections.abc import Callable

from textual import on
from textual.events import Resize
from textual.message import Message

from codeagent.tui.parts.boundary_sheet import NO_EDIT, SKIPPED, BoundaryAct, BoundarySheet, Writing
from codeagent.tui.parts.call_edit import CallEdit
from codeagent.tui.parts.card import Card
from codeagent.tui.parts.card_line import CardLine
from codeagent.tui.parts.guard import TOO_SOON, Guard
from codeagent.tui.parts.line_pane import LinePane
from codeagent.tui.parts.rows import Part
from codeagent.tui.state import Paused, PlanReady, UiState

_PLACEHOLDERS: dict[Writing, str] = {"reason": "skipped, because …", "command": "the command to run instead"}
_RINGS = ("step", "budget", "limit")
"""Pauses the user did not ask for just now."""


class BoundaryCard(Card):
    """Shows the boundary a run waits at, unless a question waits, and says what the user wants.

    It never changes the state: what was wanted shows as sent until the boundary has changed.
    """

    DEFAULT_CSS = """
    BoundaryCard {
        color: $accent;
        & > .card--inside {
            border-left: round $accent;
            border-right: round $accent;
        }
    }
    """

    class Wanted(Message):
        """What the user wants."""

        def __init__(self, act: BoundaryAct) -> None:
            super().__init__()
            self.act = act

    def __init__(self, state: UiState, *, clock: Callable[[], float] = time.monotonic, bell: bool = True) -> None:
        super().__init__(clock=clock, bell=bell)
        self._state = state
        self._clock = clock
        self._sheet = BoundarySheet()

    def on_mount(self) -> None:
        for model in (self._state.boundary, self._state.approvals, self._state.status):
            model.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Show the state as it is now; the wait begins again where it is another boundary than before."""
        before, now = self._sheet.now, self._state.boundary.now
        self._sheet.stepping = self._state.status.now.stepping
        another = self._sheet.update(now)
        was_shown, self.display = self.display, self._wanted
        if another or (self.display and not was_shown):
            self._appear()
        elif before != now:
            self._fill()
        if another and isinstance(now, Paused) and now.why in _RINGS and self.rings:
            self.app.bell()
        if was_shown and not self.display:
            self.hide()
        self.draw_rows()

    @property
    def is_new(self) -> bool:
        """It has been shown for less time than it takes to see it."""
        return self.display and self._guard.new

    @property
    def plan(self) -> str:
        """The plan that would be started, as it is or as the user changed it; empty where none is ready."""
        return self._sheet.plan

    def take_focus(self) -> bool:
        """As every card, also where it was put away."""
        if self._sheet.away:
            self._sheet.away = False
            self.sync()
            self._guard = Guard(self._clock)
        return super().take_focus()

    def put_away(self) -> bool:
        """Hide a plan until Tab asks for it, or another is ready; False where none is shown."""
        if not self.display or not isinstance(self._sheet.now, PlanReady):
            return False
        self._sheet.away = True
        self.sync()
        return True

    def call_edited(self, call_id: str, edit: CallEdit, text: str) -> None:
        """What the user made of a call in their editor."""
        self._want(self._sheet.written_call(call_id, edit, text))

    def refuse(self, call_id: str, written: str, problem: str) -> bool:
        """What was written for a call does not fit: say why, and keep it for the next try; False where it is gone."""
        if not self._sheet.has(call_id):
            return False
        self._sheet.refuse(call_id, written, problem)
        self._fill()
        return True

    def change_plan(self, text: str) -> bool:
        """What the user made of the plan is what is started; False if no plan is ready now."""
        if not self.plan:
            return False
        if text.strip():
            self._sheet.change_plan(text)
            self._fill()
        else:
            self.say("a plan cannot be empty; it was not changed")
        return True

    def not_sent(self) -> None:
        """What was wanted could not be done: the keys count again."""
        self._sheet.sent = ""
        self.draw_rows()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._show_mark)

    def meant(self, key: str) -> str:
        return self._sheet.meant(key, self.keymap)

    def keys(self) -> frozenset[str]:
        return self._sheet.keys(self.keymap)

    @property
    def sent(self) -> str:
        return self._sheet.sent

    def moves(self, key: str) -> bool:
        """Mark another call; holding a key down does that as well."""
        at = self._sheet.place(key)
        if at is None:
            return False
        if not self._guard.quiet:
            self.say(TOO_SOON)
        elif at != self._sheet.marked:
            self._sheet.marked, self._sheet.problem = at, ""
            self._fill()
        return True

    def do(self, key: str) -> None:
        if key in ("x", "X", "e") and self._sheet.is_skipped:
            self.say(SKIPPED)
        elif key == "k":
            self.put_away()
        elif key == "X":
            self._write("reason", "")
        elif key == "e" and self._sheet.call is not None and self._sheet.edit is None:
            self.say(NO_EDIT)
        elif key == "e" and self._sheet.in_line:
            self._write("command", self._sheet.draft)
        elif (act := self._sheet.act(key)) is not None:
            self.post_message(self.Wanted(act))

    def close_layer(self) -> bool:
        return self.put_away()

    def line_sent(self, event: CardLine.Sent) -> None:
        self._want(self._sheet.written(event.text))
        self.stop_writing()
        self.draw_rows()

    def stop_writing(self) -> None:
        self._sheet.writing = ""
        super().stop_writing()

    def draw_rows(self) -> None:
        left, right = self._sheet.title()
        below = self._pane.below
        self.draw_frame(
            (Part(left, 90, lambda palette: palette.strong),),
            (Part(right, 50),),
            self._sheet.choices(self.keymap, focused=self.has_focus_within),
            tab="to choose",
            foot=Part(f"{below} more below" if below else "", 50),
        )

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self.draw_rows()

    def _want(self, act: BoundaryAct | None) -> None:
        if act is None:
            self._fill()
        else:
            self.post_message(self.Wanted(act))

    @property
    def _wanted(self) -> bool:
        """There is something to show, and no question goes before it."""
        return self._sheet.now is not None and not self._sheet.away and not self._state.approvals.waiting

    def _appear(self) -> None:
        self.stop_writing()
        self._guard.appear()
        self._fill()

    def _fill(self) -> None:
        self._pane.show(self._sheet.body())
        self._pane.go_to(self._sheet.marked - 1)
        self.fit()
        self.draw_rows()

    def _show_mark(self) -> None:
        """Scroll to the marked call where it is no longer on screen."""
        below_top = self._sheet.marked - self._pane.scroll_offset.y
        if isinstance(self._sheet.now, Paused) and not 0 <= below_top < self._pane.scrollable_content_region.height:
            self._pane.go_to(self._sheet.marked - 1)

    def _write(self, writing: Writing, text: str) -> None:
        """Open the card's own line, with what is to be changed in it."""
        if writing:
            self._sheet.writing = writing
            self._line.open(writing, text, placeholder=_PLACEHOLDERS[writing])
            self.opened()
