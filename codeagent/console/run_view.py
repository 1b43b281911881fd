"""Shows a run without a screen on a terminal: answers as they stream, events in colours, and below
both the live lines, which leave nothing behind."""

import os
from collections.abc import Callable
from textwrap import wrap
from typing import Literal

from codeagent.console.colour import paint, with_mark
from codeagent.console.live_line import LiveLine
from codeagent.core.events import KnownEvent, RunFinished, TextDelta, ToolCallAdded, ToolCallDelta
from codeagent.core.json_types import MAIN
from codeagent.core.notices import ModelFellBack, ModelRetried
from codeagent.core.sanitize import visible

Channel = Literal["out", "err"]
_COLUMNS, _LINES = 110, 24
"""The size of a terminal that does not report one."""
_OTHER_LINES = 2
"""Lines of the terminal that a growing answer leaves free."""


class RunView:
    """Draws a run. `draw` writes as it is given to standard output or error, `clean` masks secrets.

    `live`: standard error is a terminal; `answers`: so is standard output, and answers are drawn as
    Markdown.
    """

    def __init__(
        self,
        draw: Callable[[str, Channel], None],
        clean: Callable[[str], str],
        *,
        live: bool,
        answers: bool,
    ) -> None:
        self._draw = draw
        self._colours = not os.environ.get("NO_COLOR")
        self._last: Channel | None = None
        """Where something was printed last."""
        self._growing = None
        if answers:
            from codeagent.console.answer import GrowingAnswer  # with rich

            self._growing = GrowingAnswer(clean, lambda: _size(1)[0], colours=self._colours)
        self._live = None
        if live:
            growing = self._growing
            self._live = LiveLine(
                lambda text: draw(clean(text), "err"),
                lambda: _size(2)[0],
                growing=None
                if growing is None
                else lambda: growing.growing(_size(2)[1] - _OTHER_LINES),
                paint=(lambda text: paint(text, "dim")) if self._colours else visible,
            )

    def take(self, event: KnownEvent) -> None:
        """Follow an event before it is printed."""
        if self._growing is not None and event.agent == MAIN:
            match event:
                case TextDelta():
                    self._growing.add(event.text)
                    if "\n" in event.text:
                        self._print("out", self._growing.complete())
                case ToolCallDelta() | ToolCallAdded():
                    self._print("out", self._growing.flush())
                case RunFinished():  # an answer that was cut off may have no message
                    self._print("out", self._growing.flush())
                    self._growing.begin_again()
                case ModelRetried() | ModelFellBack():
                    self._growing.begin_again()
                case _:
                    pass
        if self._live is not None:
            self._live.take(event)

    def say(self, line: str) -> bool:
        """Print a line about the run; False if standard error is not a terminal."""
        if self._live is None:
            return False
        rows = wrap(visible(line), _size(2)[0], subsequent_indent="  ", break_on_hyphens=False)
        text = "\n".join(rows)
        self._print("err", f"{with_mark(text) if self._colours else text}\n")
        return True

    def answer(self, text: str) -> bool:
        """Print the rest of an answer; False if answers are not drawn."""
        if self._growing is None:
            return False
        self._print("out", self._growing.end(text))
        return True

    def _print(self, channel: Channel, text: str) -> None:
        """Print text unless it is empty, with a blank line around each part of an answer."""
        if not text:
            return
        self.erase()
        gap = (
            self._last is not None and "out" in (self._last, channel) and self._growing is not None
        )
        self._last = channel
        self._draw(f"\n{text}" if gap else text, channel)

    def erase(self) -> None:
        """Remove the live lines, so that something else can be printed."""
        if self._live is not None:
            self._live.erase()

    def close(self) -> None:
        """Remove the live lines for good; idempotent."""
        if self._live is not None:
            self._live.close()


def _size(fd: int) -> tuple[int, int]:
    """Return the columns and lines of a terminal."""
    try:
        return os.get_terminal_size(fd)
    except OSError:
        return _COLUMNS, _LINES
