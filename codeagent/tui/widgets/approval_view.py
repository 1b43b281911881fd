"""The approval card as it is drawn: the questions in front, what is written, and what keeps from allowing."""

import time
from abc import abstractmethod
from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.timer import Timer

from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.stage import Desk
from codeagent.tui.widgets.approval_choices import choices_of_writing
from codeagent.tui.widgets.approval_gate import Gate
from codeagent.tui.widgets.approval_sheet import ApprovalSheet
from codeagent.tui.widgets.card_frame import CardFrame
from codeagent.tui.widgets.card_keys import keep_label, keymap_of
from codeagent.tui.widgets.card_line import CardLine
from codeagent.tui.widgets.diff_piece import SPLIT_FROM
from codeagent.tui.widgets.guard import Guard
from codeagent.tui.widgets.line_pane import LinePane

_BESIDE_KEYS = 4
"""Cells of the card's edges and of the air within them."""
_ROOMY = 20
"""Rows of a screen from which on the keys may take two."""
_TINY = 4
"""Rows of half a screen below which the card has no edges."""


class ApprovalView(Vertical, can_focus=True):
    """Shows the oldest question of the desk, or all that wait; nothing here answers.

    Other questions in front close the guard and the line, so that no key reaches what it was not pressed for.
    """

    DEFAULT_CSS = """
    ApprovalView {
        height: auto;
        display: none;
        color: $warning;
        background: $background;
    }
    ApprovalView:focus, ApprovalView:focus-within {
        color: $primary;
    }
    ApprovalView > .approval--inside {
        height: auto;
        padding: 0 1;
        border-left: round $warning;
        border-right: round $warning;
        color: $foreground;
    }
    ApprovalView:focus > .approval--inside, ApprovalView:focus-within > .approval--inside {
        border-left: round $primary;
        border-right: round $primary;
    }
    ApprovalView LinePane {
        height: auto;
    }
    ApprovalView.-tiny > RuleRow {
        display: none;
    }
    ApprovalView.-tiny > .approval--inside {
        border: none;
        padding: 0;
    }
    """

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
        self._frame = CardFrame(self, self._draw_rows)
        self._pane = LinePane()
        self._gate = Gate(self._pane)
        self._line = CardLine()
        self._keep = False
        """The rule that is written shall hold in later sessions, too."""
        self._key_rows = 1
        self._age_timer: Timer | None = None
        self._taking = False

    @abstractmethod
    def _leave(self) -> None:
        """Give the focus back."""

    def compose(self) -> ComposeResult:
        yield self._frame.title
        with Vertical(classes="approval--inside"):
            yield self._pane
            yield self._line
            yield self._frame.keys
        yield self._frame.foot

    def on_mount(self) -> None:
        self._desk.watch(self.sync)
        self.watch(self.app, "app_focus", self._window_came_back, init=False)
        self.sync()

    def sync(self) -> None:
        """Show the desk as it is now."""
        self._gate.forget(self._desk.waiting)
        if self._sheet.update(self._desk.waiting) and self.rings:
            self.app.bell()
        self._show_front()
        if self.display and self._age_timer is None:
            self._age_timer = self.set_interval(1.0, self._look)
        if not self.display and self._age_timer is not None:
            self._age_timer.stop()
            self._age_timer = None

    def on_resize(self, event: Resize) -> None:
        self._fit()
        self._draw_rows()

    def on_blur(self) -> None:
        self._draw_rows()

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self.call_after_refresh(self._look)

    def _show_front(self) -> None:
        """Show what should be in front; where that is something else than before, the guard starts anew."""
        changed = self._sheet.turn()
        self.display = bool(self._sheet.shown)
        if not self.display:
            had_focus = self.has_focus_within
            self._stop_writing()
            self._frame.note("")
            if changed and had_focus:
                self._leave()
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
        self._frame.keys.most = 2 if self.app.size.height >= _ROOMY else 1
        self._key_rows = self._frame.keys.needed(self.size.width - (0 if tiny else _BESIDE_KEYS))
        self._pane.reserve = (0 if tiny else 2) + self._key_rows + self._line.rows
        self._pane.refresh(layout=True)

    def _fill(self) -> None:
        self._pane.show(tuple(self._sheet.body()))
        self._fit()

    def _draw_rows(self) -> None:
        """Draw everything but the body: title, keys, and what keeps from allowing."""
        sheet, line = self._sheet, self._line
        if not sheet.shown:
            return
        why = self._why_closed()
        choices, off = sheet.choices(wide=self._wide), bool(why)
        if line.is_open:
            choices = choices_of_writing(line.purpose, keep=self._keep, other=keep_label(keymap_of(self)))
            off = bool(line.check.problem or (line.purpose == "rule" and why))
        self._frame.draw(
            sheet.shown,
            choices,
            waiting=sheet.count,
            marked=sheet.marked,
            sent=sheet.sent.get(sheet.front_id, ""),
            why_closed=why,
            off=off,
            now=self._now(),
        )
        if self._frame.keys.needed(self.size.width - _BESIDE_KEYS) != self._key_rows and not self.has_class("-tiny"):
            self._fit()

    def _look(self) -> None:
        if self._sheet.shown:
            self._gate.look(self._asked)
            self._draw_rows()

    def _why_closed(self) -> str:
        if self._sheet.front.question is not None:
            return ""
        key = keymap_of(self).shown("card.once")
        shown = key if self.has_focus_within else f"Alt+{key.upper() if len(key) == 1 else key}"
        return self._gate.why_closed(self._asked, whole=self._sheet.whole, key=shown)

    @property
    def _asked(self) -> tuple[ApprovalRequested, ...]:
        """What the pane shows."""
        return tuple(each.waiting for each in self._sheet.shown)

    def _say(self, note: str) -> None:
        """Put a note in place of the keys for a moment."""
        self._frame.note(note)
        self._draw_rows()

    def _stop_writing(self) -> None:
        if not self._line.is_open:
            return
        self.remove_class("-writing")
        if self._line.close():
            self._focus_card()
        self._fit()

    def _focus_card(self) -> None:
        self._taking = True
        self.focus()

    def _window_came_back(self, focused: bool) -> None:
        if focused:
            self._guard.close()

    @property
    def _wide(self) -> bool:
        return self._pane.layout_width >= SPLIT_FROM
