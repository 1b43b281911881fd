"""Draws the screen below the shell's lines: finished turns are printed above it, into the
terminal's scrollback."""

from collections.abc import Sequence

from textual import events
from textual.geometry import Offset
from textual.message import Message
from textual.messages import TerminalSupportsSynchronizedOutput

from codeagent.tui.driver import TerminalDriver

_OTHER_SCREEN = ("\x1b[?1049h", "\x1b[?1049l")
_ERASE = "\x1b[K\x1b[C\x1b[J\r"
"""Erases all from the start of a row on; from the terminal's first cell, tmux would keep it as lines
that were printed."""


class InlineDriver(TerminalDriver):
    """Draws from where the cursor is, and moves only relative to that."""

    _drawing = False
    """The terminal is not lent to another program."""

    @property
    def is_inline(self) -> bool:
        return True

    def write(self, data: str) -> None:
        if data not in _OTHER_SCREEN:
            super().write(data)

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.CursorPosition):
            self.cursor_origin = (message.x, message.y)
            return
        if isinstance(message, TerminalSupportsSynchronizedOutput):
            self._app._sync_available = True  # which Textual keeps for the full screen
        super().process_message(message)

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._drawing = True

    def stop_application_mode(self) -> None:
        self._drawing = False
        if self._app._running:  # lent or suspended: at the end, the app has gone to the first row
            self.write(self.to_first_row())
        self.write(_ERASE)
        super().stop_application_mode()

    def to_first_row(self) -> str:
        """Return what moves the cursor to where the screen begins, from which it is drawn next."""
        row = self._app._previous_cursor_position.y
        self._app._previous_cursor_position = Offset(0, 0)
        return f"\r\x1b[{row}A" if row else "\r"

    def print_above(self, lines: Sequence[str]) -> bool:
        """Print lines, none wider than the terminal, above the screen; False if the terminal is
        lent."""
        if not self._drawing:
            return False
        text = "".join(f"{line}\x1b[0m\r\n" for line in lines)
        self._app._begin_update()  # the frame that is drawn below the lines ends it
        self.write(f"{self.to_first_row()}{_ERASE}{text}")
        self._app._previous_inline_height = None
        self._app.refresh(layout=True)
        return True
