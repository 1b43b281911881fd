"""A program on a real pseudo-terminal, and what a user would see there.

A thread reads what the program writes, keeps the bytes and feeds them to a terminal emulator; tests
wait for what is on screen, never for time to pass.
"""

import contextlib
import fcntl
import io
import itertools
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte

from tests.warm import launch

PATIENCE = 30.0
"""Seconds to wait for something that happens within one."""
KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "alt+enter": "\x1b\r",
    **{f"ctrl+{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}
# What pyte would take for something else: parameters after < > =, and the colon forms.
_PRIVATE = re.compile(rb"\x1b\[[<>=][0-9;:]*[ -/]*[@-~]")
_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_KITTY = re.compile(rb"\x1b\[([<>])[0-9]*u")
_INCOMPLETE = re.compile(rb"\x1b(\[[0-?]*[ -/]*)?\Z")
# A frame of which half was read is not shown: a predicate would see a card without its lower edge.
_FRAMES_ASKED = b"\x1b[?2026$p"
_FRAMES_KNOWN = b"\x1b[?2026;2$y"
_FRAME_BEGINS, _FRAME_ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
_LAST = b"\0"
"""Written behind what a program wrote; pyte ignores it."""
_MUST_BE_OFF = (1000, 1002, 1003, 1004, 1006, 1015, 1016, 1049, 2004, 2026, 2048)
_MUST_BE_ON = (7, 25)


class _Emulated(pyte.Screen):
    """pyte's screen with the two things it lacks: an alternate screen, and rows that are kept until
    they change."""

    _main: dict[int, Any] | None = None

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines)
        self._rows: dict[int, str] = {}

    @property
    def rows(self) -> list[str]:
        for number in self.dirty:
            cells = self.buffer[number]
            self._rows[number] = "".join(cells[column].data for column in range(self.columns))
        self.dirty.clear()
        return [self._rows[number] for number in range(self.lines)]

    def set_mode(self, *modes: int, **options: Any) -> None:
        if options.get("private") and 1049 in modes and self._main is None:
            self.save_cursor()
            self._main = dict(self.buffer)
            self.buffer.clear()
            self.dirty.update(range(self.lines))
        super().set_mode(*modes, **options)

    def reset_mode(self, *modes: int, **options: Any) -> None:
        if options.get("private") and 1049 in modes and self._main is not None:
            self.buffer.clear()
            self.buffer.update(self._main)
            self.dirty.update(range(self.lines))
            self._main = None
            self.restore_cursor()
        super().reset_mode(*modes, **options)


class PtyScreen:
    """Runs `argv` as the leader of a session whose controlling terminal is a new pty of `size`
    (columns, rows)."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        size: tuple[int, int] = (80, 24),
        *,
        emulate: bool = True,
    ) -> None:
        """Without `emulate` only the bytes are kept, which is fast, and no text is waited for."""
        self._master, slave = os.openpty()
        self._slave = slave
        self._lock = threading.Lock()
        self._heard = threading.Condition(self._lock)
        self._raw = bytearray()
        self._rest = b""
        self._emulate = emulate
        self._emulated = _Emulated(*size)
        self._stream = pyte.ByteStream(self._emulated)
        _set_size(slave, size)
        self.attributes_before = termios.tcgetattr(slave)
        environment = {
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            **(env or {}),
        }
        self.process = launch(
            argv, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=environment, terminal=True
        )
        self._stop_reading, self._stopped = os.pipe()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "PtyScreen":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def raw(self) -> bytes:
        """Every byte the program wrote so far."""
        with self._lock:
            return bytes(self._raw)

    @property
    def pid(self) -> int:
        return self.process.pid

    def screen(self) -> list[str]:
        """The rows as they are on screen, without blanks at their ends."""
        with self._lock:
            return [row.rstrip() for row in self._emulated.rows]

    def text(self) -> str:
        return "\n".join(self.screen())

    def picture(self, title: str, still: Mapping[str, Iterator[str]] | None = None) -> str:
        """Return the screen as SVG, with its colours, down to its last row that is not blank.

        `still` has patterns of what differs each time, and what each match is shown as.
        """
        from rich.console import Console  # only for pictures
        from rich.text import Text

        console = Console(record=True, width=self._emulated.columns, file=io.StringIO())
        with self._lock:
            written = [number for number, row in enumerate(self._emulated.rows) if row.strip()]
            for number in range(written[-1] + 1 if written else 0):
                cells = [self._emulated.buffer[number][at] for at in range(self._emulated.columns)]
                row = Text()
                for style, run in itertools.groupby(cells, _style):
                    row.append("".join(cell.data for cell in run), style)
                for pattern, shown in (still or {}).items():
                    for found in reversed([*re.finditer(pattern, row.plain)]):
                        at, end = found.span()
                        new = Text(next(shown), row.get_style_at_offset(console, at))
                        row = row[:at] + new + row[end:]
                if still:
                    row.rstrip()  # how many cells are blank now depends on what was there
                    row.set_length(self._emulated.columns)
                console.print(row)
        return console.export_svg(title=title, unique_id=title.replace(" ", "-"))

    def send(self, *keys: str) -> None:
        """Type: names of `KEYS`, anything else letter by letter as one write each."""
        for key in keys:
            self.write(KEYS.get(key, key).encode())

    def paste(self, text: str) -> None:
        self.write(b"\x1b[200~" + text.encode("utf-8", "surrogatepass") + b"\x1b[201~")

    def write(self, data: bytes) -> None:
        """Raw input."""
        while data:
            data = data[os.write(self._master, data) :]

    def resize(self, width: int, height: int) -> None:
        with self._lock:
            self._emulated.resize(height, width)
        _set_size(self._master, (width, height))

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait_for(self, what: str | Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Until the text is on screen, or the predicate is true. Raises AssertionError with the
        screen."""
        deadline = time.monotonic() + timeout
        while True:
            over = self.process.poll() is not None or time.monotonic() > deadline
            if over:
                self._read_to_the_end()
            with self._heard:
                seen = len(self._raw)
                on_screen = isinstance(what, str) and what in "\n".join(self._emulated.rows)
            if on_screen or (callable(what) and what()):
                return
            if over:
                raise AssertionError(
                    f"never seen: {what!r}; the screen was\n{self.text()}\n{self.raw[-400:]!r}"
                )
            with self._heard:
                # A predicate may depend on more than the screen, and the end of the program writes
                # nothing.
                if len(self._raw) == seen:
                    self._heard.wait(0.02 if callable(what) else 0.2)

    def wait_until_silent(self, seconds: float = 0.15, timeout: float = PATIENCE) -> None:
        """Until nothing was written for that long."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with self._heard:
                if not self._heard.wait(seconds):
                    return
        raise AssertionError("the screen never came to rest")

    def exit_code(self, timeout: float = PATIENCE) -> int:
        """Wait for the end, and until everything it wrote was read; negative after a signal nobody
        caught."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running; the screen is\n{self.text()}") from None
        self._read_to_the_end()
        return code

    def hang_up(self) -> None:
        """Close the terminal, as a closed window does."""
        self._end_reading()
        os.close(self._slave)
        os.close(self._master)
        self._slave = self._master = -1

    def modes_left_on(self) -> list[str]:
        """What the program set and did not undo: terminal modes, kitty's keyboard stack,
        termios."""
        states: dict[int, bool] = {}
        raw = self.raw
        for match in _MODE.finditer(raw):
            for mode in match[1].split(b";"):
                states[int(mode)] = match[2] == b"h"
        left = [f"?{mode} is on" for mode in _MUST_BE_OFF if states.get(mode, False)]
        left += [f"?{mode} is off" for mode in _MUST_BE_ON if not states.get(mode, True)]
        pushed = sum(1 if match[1] == b">" else -1 for match in _KITTY.finditer(raw))
        if pushed > 0:
            left.append(f"kitty keyboard pushed {pushed} times more than popped")
        if termios.tcgetattr(self._slave) != self.attributes_before:
            left.append("termios differs")
        return left

    def modes_restored(self) -> bool:
        return not self.modes_left_on()

    def cpu_seconds(self) -> float:
        """User and system time of the program so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the program if need be, and let go of the pty."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self._master >= 0:
            self.hang_up()

    def _read_to_the_end(self) -> None:
        """Until everything that was written before now was read, however busy the machine is."""
        if self._slave < 0:
            return
        with self._heard:
            before = self._raw.count(_LAST)
            os.write(self._slave, _LAST)
            if not self._heard.wait_for(lambda: self._raw.count(_LAST) > before, PATIENCE):
                raise AssertionError("nobody reads what the program wrote")
            del self._raw[self._raw.rindex(_LAST)]

    def _end_reading(self) -> None:
        os.write(self._stopped, b"\0")
        self._reader.join()
        os.close(self._stopped)
        os.close(self._stop_reading)

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._stop_reading], [], [])
            if (
                self._stop_reading in ready
            ):  # also where a program that never stops writing has more
                break
            try:
                data = os.read(self._master, 65536)
            except OSError:
                break
            with self._heard:
                self._raw += data
                if self._emulate:
                    self._feed(data)
                self._heard.notify_all()
            if self._emulate and _FRAMES_ASKED in data:
                self.write(_FRAMES_KNOWN)

    def _feed(self, data: bytes) -> None:
        data = self._rest + data
        cut = _INCOMPLETE.search(data)
        end = cut.start() if cut else len(data)
        if (begun := data.rfind(_FRAME_BEGINS)) > data.rfind(_FRAME_ENDS):
            end = begun
        self._rest = data[end:]
        self._stream.feed(_PRIVATE.sub(b"", data[:end]))


def _style(cell: Any) -> Any:
    """Return pyte's style of a cell as rich's."""
    from rich.style import Style  # only for pictures

    def color(name: str) -> str | None:
        if name == "default":
            return None
        if re.fullmatch("[0-9a-f]{6}", name):
            return f"#{name}"
        return name.replace("brown", "yellow").replace("bright", "bright_")

    return Style(
        color=color(cell.fg),
        bgcolor=color(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _set_size(fd: int, size: tuple[int, int]) -> None:
    columns, rows = size
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def state_of(pid: int) -> str:
    """One letter as in ps: R, S, T (stopped), Z; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def environment(home: Path, **more: Any) -> dict[str, str]:
    """For a program that keeps its files below `home`."""
    return {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        **more,
    }
