"""Textual's driver for Linux and macOS, with what it does not survive by itself."""

import asyncio
import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from typing import Any, TextIO, assert_never

from textual import constants, events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

from codeagent.tui.pasting import Pasted, PasteReader, Typed
from codeagent.tui.terminal import TerminalGuard

_CHUNK = 64 * 1024
"""Characters that are collected before they are written, where Textual has more to write at once."""

_ESCAPE_DELAY = 0.005
"""Seconds an escape character waits for the rest of a paste's mark, and then for that of a key, to be the key Esc."""


class TerminalOutput:
    """Where Textual draws: it never raises, and stays silent once the terminal was given back or is gone."""

    def __init__(self, stream: TextIO, guard: TerminalGuard | None) -> None:
        self._fd = stream.fileno()
        self._encoding = stream.encoding
        self._guard = guard
        self._gone = False
        self._parts: list[str] = []
        self._size = 0

    def fileno(self) -> int:
        return self._fd

    def write(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if self._size > _CHUNK:
            self.flush()

    def flush(self) -> None:
        data = memoryview("".join(self._parts).encode(self._encoding, "replace"))
        self._parts.clear()
        self._size = 0
        while data and not self._quiet:
            try:
                data = data[os.write(self._fd, data) :]
            except OSError:
                self._gone = True

    @property
    def _quiet(self) -> bool:
        return self._gone or (self._guard is not None and self._guard.silent)


class TerminalDriver(LinuxDriver):
    """Differs from Textual's where that one crashes, hangs or spins:

    bytes that are no UTF-8 are read as U+FFFD; an escape character in a paste does not turn what follows into keys;
    the end of the input ends the reading, which waits without polling;
    the last of many resizes is the one that counts;
    stopping (SIGTSTP) waits until the loop is between two callbacks, since it writes; going on (SIGCONT) after a stop
    that could not be caught takes the terminal once, not twice.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        guard = getattr(app, "guard", None)
        output = TerminalOutput(_screen_stream(), guard if isinstance(guard, TerminalGuard) else None)
        self._file = output  # type: ignore[assignment]  # it has what the writer thread uses
        if "ESCDELAY" not in os.environ:
            # Textual reads it from the environment, which the person's editor would inherit.
            constants.ESCAPE_DELAY = _ESCAPE_DELAY  # type: ignore[misc]  # declared Final
        self._stopped = False
        self._until, self._enough = os.pipe()

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual does not annotate it
        # Textual reads the size in the handler, which the next signal may interrupt: then the older size is told last.
        signal.signal(signal.SIGWINCH, lambda *_: self._in_loop(self._tell_size))

    def _tell_size(self) -> None:
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(events.Resize(size, size))

    def _sigtstp_application(self, *_: object) -> None:
        self._in_loop(self._stop)

    def _stop(self) -> None:
        self._stopped = True
        super()._sigtstp_application()

    def _sigcont_application(self, *_: object) -> None:
        if self._stopped:
            self._stopped = False
            super()._sigcont_application()
        elif self._auto_restart:
            self._in_loop(self._take_again)

    def _take_again(self) -> None:
        self._must_signal_resume = True
        self.suspend_application_mode()
        self.resume_application_mode()

    def _in_loop(self, work: Any) -> None:
        try:
            asyncio.get_running_loop().call_soon_threadsafe(work)
        except RuntimeError:
            work()

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
            self._mouse_pixels = False

    def disable_input(self) -> None:
        if self._key_thread is not None and self._key_thread.is_alive():
            os.write(self._enough, b"\0")
        super().disable_input()
        if select.select([self._until], [], [], 0)[0]:
            os.read(self._until, 16)

    def run_input_thread(self) -> None:
        """Sleeps until there is something to read; Esc is told from the begin of a sequence by what follows in time."""
        parser, pastes = XTermParser(self._debug), PasteReader()
        decode = getincrementaldecoder("utf-8")("replace").decode
        patience: float | None = None
        while True:
            ready, _, _ = select.select([self.fileno, self._until], [], [], patience)
            if self._until in ready:
                return
            if ready:
                data = _read(self.fileno)
                if not data:
                    return  # the terminal is gone, which its guard tells
                for part in pastes.feed(decode(data)):
                    self._take(part, parser)
            elif pastes.holds:
                self._take(pastes.release(), parser)
            for message in parser.tick():
                self.process_message(message)
            undecided = pastes.holds or parser._timeout_time is not None
            patience = constants.ESCAPE_DELAY if undecided else None

    def _take(self, part: Typed | Pasted, parser: XTermParser) -> None:
        match part:
            case Typed(text):
                for message in parser.feed(text):
                    self.process_message(message)
            case Pasted(text):
                self.process_message(events.Paste(text.replace("\0", "")))
            case _:
                assert_never(part)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


def _screen_stream() -> TextIO:
    """Textual draws on standard error; where that leads elsewhere, on standard output."""
    streams = [stream for stream in (sys.__stderr__, sys.__stdout__) if stream is not None and stream.isatty()]
    return streams[0]
