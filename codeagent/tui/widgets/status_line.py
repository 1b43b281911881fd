"""The bottom row: what the agent is doing, what it cost, and what the keys do now."""

import time
from collections.abc import Callable
from dataclasses import replace

from rich.cells import cell_len
from textual.geometry import Region
from textual.timer import Timer

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.stage import Stage
from codeagent.tui.widgets.fitting import SEPARATOR, cut_end, fit, flat, joined_width, styled
from codeagent.tui.widgets.row import Row
from codeagent.tui.widgets.status_text import phase_words, spins, status_parts, ticks, with_notice_cut

_BRAILLE = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII = "|/-\\"
_FRAME = 0.2
"""Seconds between two pictures of the spinner."""
_LEAD = 2
"""Cells in front of the words: the spinner and a space."""


class StatusLine(Row):
    """Draws the board whenever it changes; a timer runs only while the spinner turns or a duration counts.

    `clock` gives seconds since the epoch.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        clock: Callable[[], float] = time.time,
        ascii_only: bool = False,
        to_background: str = "ctrl+b",
    ) -> None:
        """`to_background` is the key that moves a call there."""
        super().__init__()
        self._to_background = to_background.lower()
        self._stage = stage
        self._board = stage.status
        self._boundary = stage.boundary
        self._said = ""
        """What was too long for the row, and is in the transcript."""
        self._clock = clock
        self._frames = _ASCII if ascii_only else _BRAILLE
        self._timer: Timer | None = None
        self._every = 0.0
        self._words = ""

    def on_mount(self) -> None:
        self._board.watch(self.sync)
        self._boundary.watch(self.sync)
        self.sync()

    @property
    def ticking(self) -> bool:
        """A timer runs."""
        return self._timer is not None

    def sync(self) -> None:
        """Draw the board as it is now."""
        if not self.is_attached:
            return
        self._say_whole()
        every = self._wanted_interval()
        if every != self._every:
            self._every = every
            if self._timer is not None:
                self._timer.stop()
            self._timer = self.set_interval(every, self.tick) if every else None
        self.refresh()

    def _say_whole(self) -> None:
        """What does not fit the row is said in the transcript, once: nothing is only half to be read."""
        status = self._board.now
        said = status.notice or status.retry_reason
        words = phase_words(replace(status, retry_reason=""), self._clock())
        room = self.size.width - _LEAD - 1 - cell_len(words + SEPARATOR)
        if said and said != self._said and 0 < room < cell_len(flat(said)):
            self._said = said
            self._stage.document.remark(said)

    def row(self, width: int, palette: Palette) -> Line:
        status, now = self._board.now, self._clock()
        self._words = phase_words(status, now)
        room = max(1, width - _LEAD - 1)
        parts = fit(
            with_notice_cut(status_parts(status, now, self._boundary.now, self._to_background), status, room), room
        )
        lead = f"{self._mark()} "
        if joined_width(parts) > room:
            return line([(lead, palette.running), (cut_end(parts[0].text, room), parts[0].style(palette))])
        return line([(lead, palette.running), *styled(parts, palette)])

    def _mark(self) -> str:
        if not self._spins():
            return " "
        return self._frames[int(self._clock() / _FRAME) % len(self._frames)]

    def _spins(self) -> bool:
        return spins(self._board.now) and self.app.animation_level != "none"

    def _wanted_interval(self) -> float:
        if self._spins():
            return _FRAME
        return 1.0 if ticks(self._board.now) else 0.0

    def tick(self) -> None:
        """Redraw the spinner's cell; the whole row only where its words changed."""
        if phase_words(self._board.now, self._clock()) != self._words:
            self.refresh()
        elif self._spins():
            self.refresh(Region(0, 0, 1, 1))
