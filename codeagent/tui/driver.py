"""Textual's driver for Linux and macOS, hardened against input and signals that the original does
not survive."""

import asyncio
import os
import re
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, TextIO, assert_never

from rich.cells import cell_len
from textual import constants, events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS  # which bytes are a key: nowhere else
from textual._xterm_parser import XTermParser  # a driver cannot be given another parser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.keys import _character_to_key  # how keymaps spell a key; nothing public does
from textual.message import Message

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import emoji_spans, plain_line
from codeagent.tui.terminal import TerminalGuard

_SAVE = "\x1b7"
_BACK = "\x1b8"
START = "\x1b[200~"
END = "\x1b[201~"
_TITLE = "\x1b]2;{}\x07"
_KEEP_TITLE, _TITLE_BEFORE = "\x1b[22;2t", "\x1b[23;2t"
"""Push and pop the title; where the terminal has no stack of titles, an empty one leaves it to the
terminal."""
_LONGEST_TITLE = 100
_CHUNK = 64 * 1024
"""Characters collected for one write, if Textual has several pieces to write at once."""

_ESCAPE_DELAY = 0.005
"""Seconds that an escape character waits for the rest of a paste's mark, and then of a key, before
it is Esc."""

_SS3 = re.escape(
    "".join(keys[2] for keys in ANSI_SEQUENCES_KEYS if keys.startswith("\x1bO") and len(keys) == 3)
)
_CSI = r"\x1b\[(?:M[^\0-\x1f]{3}|\[[ -~]|\d+\$|(?![M[])[ -?]*[@-~])"
"""Includes X10's mouse, the Linux console's function keys and rxvt's keys with Shift, which end
differently."""
_BROKEN_CSI = r"\x1b\[(?:(?!M)[ -~]*(?=[^ -~])|M[^\0-\x1f]{0,2}(?=[\0-\x1f]))"
_UNIT = lazy_regex(
    rf"(?P<text>[^\x1b]+)|(?P<sequence>{_CSI}|\x1bO[{_SS3}])"
    rf"|(?P<alt>\x1bO(?=[^{_SS3}])|\x1b\[(?=[^ -~])|\x1b[^\x1b[O])|(?P<esc>\x1b(?=\x1b))|(?P<broken>{_BROKEN_CSI})"
)
_AMBIGUOUS = ("\x1b", "\x1bO", "\x1b[")
"""Whole keys (Esc and two with Alt) if nothing follows; otherwise the beginning of a sequence."""


@dataclass(frozen=True)
class TypedText:
    """Keys, mouse events and answers of the terminal, as they arrived."""

    text: str


@dataclass(frozen=True)
class Pasted:
    """One whole paste, whatever it holds."""

    text: str


class PasteReader:
    """Splits the input of a terminal in bracketed paste mode into keys and pastes, in linear
    time."""

    def __init__(self) -> None:
        self._held = ""
        self._paste: list[str] | None = None

    @property
    def holds(self) -> bool:
        """Whether the last input may be a key or the beginning of a paste: `release` it if nothing
        follows soon."""
        return self._paste is None and START[:2].startswith(self._held) and bool(self._held)

    def feed(self, text: str) -> Iterator[TypedText | Pasted]:
        """What is certain by now; the rest is kept for the next piece."""
        text = self._held + text
        self._held = ""
        while text:
            mark = START if self._paste is None else END
            before, found, rest = text.partition(mark)
            if not found:
                kept = _begun(before, mark)
                self._held = before[len(before) - kept :]
                before = before[: len(before) - kept]
            if self._paste is not None:
                self._paste.append(before)
            elif before:
                yield TypedText(before)
            if found:
                yield from self._turn()
            text = rest

    def release(self) -> TypedText:
        """Return what was held: it was not the beginning of a paste."""
        held = self._held
        self._held = ""
        return TypedText(held)

    def _turn(self) -> Iterator[Pasted]:
        """Begin or end a paste, at a mark."""
        if self._paste is None:
            self._paste = []
            return
        yield Pasted("".join(self._paste))
        self._paste = None


def _begun(text: str, mark: str) -> int:
    """Count the characters at the end of the text that may be the beginning of the mark."""
    return next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)


class KeyReader:
    """Cuts what is typed into keys before Textual's parser reads them, so that it sees one at a
    time.

    That parser ends a sequence that it does not know, such as Alt with a letter, only if nothing
    follows for a while: if another sequence follows at once, it turns Alt+Y into the characters `^`
    and `y`. Unknown sequences are dropped.
    """

    def __init__(self, *, debug: bool = False) -> None:
        self._debug = debug
        self._parser = XTermParser(debug)
        self._held = ""

    @property
    def holds(self) -> bool:
        """Whether the last input is a key unless more follows: `release` it if nothing follows
        soon."""
        return self._held in _AMBIGUOUS

    def feed(self, text: str) -> Iterator[Message]:
        """What is certain by now; the rest is kept for the next piece."""
        text = self._held + text
        self._held = ""
        end = 0
        while (unit := _UNIT.match(text, end)) is not None:
            end = unit.end()
            yield from self._messages(unit[0], unit.lastgroup)
        self._held = text[end:]

    def release(self) -> Iterator[Message]:
        """Return the key that was held: nothing followed it."""
        held = self._held
        self._held = ""
        yield from self._messages(held, "esc" if held == "\x1b" else "alt")

    def _messages(self, unit: str, kind: str | None) -> Iterator[Message]:
        match kind:
            case "esc":
                yield events.Key("escape", "\x1b")
            case "alt" if unit[1].isprintable():
                yield events.Key(f"alt+{_name(unit[1])}", None)
            case "alt":
                yield from self._parsed(unit)
                yield from self._parsed_at_last()
            case "broken":
                return
            case _:
                yield from self._parsed(unit)
                list(self._parsed_at_last())

    def _parsed(self, text: str) -> Iterator[Message]:
        try:
            yield from self._parser.feed(text)
        except (ValueError, OverflowError):  # a sequence holds a number that is not a character
            self._parser = XTermParser(self._debug)

    def _parsed_at_last(self) -> Iterator[Message]:
        """Return what the parser makes of a sequence if nothing follows it."""
        if self._parser._timeout_time is not None:
            self._parser._timeout_time = 0.0
            yield from self._parser.tick()


def _name(character: str) -> str:
    name = _character_to_key(character)
    return f"shift+{name.lower()}" if len(name) == 1 and name.isupper() else name


def with_emoji_in_two_cells(output: str) -> str:
    """Return what is drawn, moving the cursor two cells for each wide emoji: terminals differ in
    how many it takes."""
    parts: list[str] = []
    at = 0
    for start, end in emoji_spans(output):
        if cell_len(output[start:end]) == 2:
            parts += (
                output[at:start],
                _SAVE,
                "  ",
                _BACK,
                _SAVE,
                output[start:end],
                _BACK,
                "\x1b[2C",
            )
            at = end
    return "".join((*parts, output[at:]))


class TerminalOutput:
    """The file that Textual draws to: it never raises, and drops output once the terminal was given
    back or is gone."""

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
        data = memoryview(
            with_emoji_in_two_cells("".join(self._parts)).encode(self._encoding, "replace")
        )
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
    """Differs from Textual's driver in the cases where that one crashes, hangs or spins:

    bytes that are not UTF-8 are read as U+FFFD; an escape character in a paste does not turn what
    follows into keys; reading waits without polling, and stops at the end of the input; the last of
    many resizes is the one that counts; stopping (SIGTSTP) writes, so it waits until the loop is
    between two callbacks; continuing (SIGCONT) after a stop that could not be caught takes the
    terminal once, not twice.
    """

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        guard = getattr(app, "guard", None)
        output = TerminalOutput(
            _screen_stream(), guard if isinstance(guard, TerminalGuard) else None
        )
        self._file = output  # type: ignore[assignment]  # it has what the writer thread uses
        if "ESCDELAY" not in os.environ:
            # Textual reads it from the environment, which the user's editor inherits.
            constants.ESCAPE_DELAY = _ESCAPE_DELAY  # type: ignore[misc]  # declared Final
        self._stopped = False
        self._title = ""
        self._until, self._enough = os.pipe()

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual does not annotate it
        # Textual reads the size in the handler; if the next signal interrupts it, the older size is
        # reported last.
        signal.signal(signal.SIGWINCH, lambda *_: self._in_loop(self._tell_size))

        if title := self._title:
            self._title = ""
            self.set_title(title)

    def stop_application_mode(self) -> None:
        if self._title:
            self.write(f"{_TITLE.format('')}{_TITLE_BEFORE}")
        super().stop_application_mode()

    def set_title(self, text: str) -> None:
        """Set the window's title to any text; the title before it returns when the screen is
        left."""
        if os.environ.get("TERM") == "linux":
            return  # the console would print it
        kept = "" if self._title else _KEEP_TITLE
        self._title = plain_line(text, _LONGEST_TITLE)
        self.write(kept + _TITLE.format(self._title))
        self.flush()

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
        """Sleep until there is something to read; the delay before more input tells Esc from a
        sequence."""
        keys, pastes = KeyReader(debug=self._debug), PasteReader()
        decode = getincrementaldecoder("utf-8")("replace").decode
        patience: float | None = None
        while True:
            ready, _, _ = select.select([self.fileno, self._until], [], [], patience)
            if self._until in ready:
                return
            if ready:
                data = _read(self.fileno)
                if not data:
                    return  # the terminal is gone; its guard ends the screen
                for part in pastes.feed(decode(data)):
                    self._take(part, keys)
            elif pastes.holds:
                self._take(pastes.release(), keys)
            elif keys.holds:
                self._tell(keys.release())
            patience = constants.ESCAPE_DELAY if pastes.holds or keys.holds else None

    def _tell(self, messages: Iterator[Message]) -> None:
        for message in messages:
            self.process_message(message)

    def _take(self, part: TypedText | Pasted, keys: KeyReader) -> None:
        match part:
            case TypedText(text):
                for typed, emoji in by_emoji(text):
                    self._tell(keys.feed(typed))
                    if emoji:
                        self.process_message(events.Paste(emoji))
            case Pasted(text):
                self.process_message(events.Paste(text.replace("\0", "")))
            case _:
                assert_never(part)


def by_emoji(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is typed, and the emoji of several characters after it: as keys, some of these
    would be dropped."""
    at = 0
    for start, end in emoji_spans(text):
        if end - start > 1:
            yield text[at:start], text[start:end]
            at = end
    yield text[at:], ""


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


def _screen_stream() -> TextIO:
    """Return standard error, which Textual draws on, or standard output if standard error is not a
    terminal."""
    streams = [
        stream
        for stream in (sys.__stderr__, sys.__stdout__)
        if stream is not None and stream.isatty()
    ]
    return streams[0]
