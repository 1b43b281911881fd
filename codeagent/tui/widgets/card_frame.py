"""What stands around the body of the approval card: its edges with title and age, and the row of keys."""

from collections.abc import Callable, Sequence

from textual.timer import Timer
from textual.widget import Widget

from codeagent.tui.widgets.approval_body import Asked
from codeagent.tui.widgets.approval_keys import Choice, KeyRow
from codeagent.tui.widgets.approval_title import title_parts, waiting_parts
from codeagent.tui.widgets.card_keys import keymap_of, labelled, reached
from codeagent.tui.widgets.fitting import Part
from codeagent.tui.widgets.rule_row import RuleRow

_NOTE = 1.5
"""Seconds that a note stays in place of the keys."""


class CardFrame:
    """The three rows, and the note that stands in place of the keys for a moment."""

    def __init__(self, card: Widget, redraw: Callable[[], None]) -> None:
        """`redraw` is called when a note was there long enough."""
        self._card = card
        self._redraw = redraw
        self.title = RuleRow(("╭", "╮"))
        self.keys = KeyRow()
        self.foot = RuleRow(("╰", "╯"))
        self._note = ""
        self._timer: Timer | None = None

    def note(self, text: str) -> None:
        """Say it in place of the keys; empty brings them back at once. Shown with the next `draw`."""
        self._note = text
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._card.set_timer(_NOTE, self._end_note) if text else None

    def draw(
        self,
        shown: Sequence[Asked],
        choices: Sequence[Choice],
        *,
        waiting: int,
        marked: str,
        sent: str,
        why_closed: str,
        off: bool,
        now: float,
    ) -> None:
        """`waiting` counts all questions, `marked` is the key of the choice in focus, `now` seconds since the epoch.

        `why_closed` says what keeps from allowing, `off` that the choices which allow do nothing now.
        """
        self.title.show(title_parts(shown), waiting_parts(shown, waiting, now))
        labels = labelled(choices, keymap_of(self._card))
        self.keys.show(
            reached(labels, focused=self._card.has_focus_within, tab="to answer"),
            marked=marked,
            note=self._note or (f"sent: {sent}" if sent else ""),
            off=off,
        )
        self.foot.show(right=(Part(why_closed, 100, lambda palette: palette.warning),))

    def _end_note(self) -> None:
        self.note("")
        self._redraw()
