"""A program on a pseudo-terminal, and a clock: its bytes are only searched, which costs little."""

import fcntl
import os
import select
import signal
import statistics
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import cpu_seconds, memory_mb

READY = b"\x1b[>25u"
"""Textual asks for kitty's keyboard once the terminal is in its hands: from then on keys are read,
not echoed."""
_LETTERS = [
    chr(code)
    for first, last in ((0x410, 0x44F), (0x391, 0x3A1), (0x531, 0x556))
    for code in range(first, last)
]
_SIZE = (120, 40)
_PATIENCE = 60.0
_RESTLESS = 3.0


class Terminal:
    """Searching is cheap and only for what came after the last thing that was found or typed."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process = process
        self._master = master
        self._tail = self._recent = b""
        self._letters: Iterator[str] = iter(())
        self._watched_for = b""
        self.watched = False

    def type(self, text: str) -> float:
        """Write it as if typed; returns the time."""
        self._tail = b""
        os.write(self._master, text.encode())
        return time.monotonic()

    def until(self, needle: str | bytes, patience: float = _PATIENCE) -> float:
        """The time at which these bytes were written. Raises TimeoutError."""
        wanted = needle.encode() if isinstance(needle, str) else needle
        deadline = time.monotonic() + patience
        while wanted not in self._tail:
            if time.monotonic() > deadline or not self._read(deadline - time.monotonic()):
                raise TimeoutError(f"{needle!r} never came; the last was {self._tail[-300:]!r}")
        found = time.monotonic()
        self._tail = self._tail.partition(wanted)[2]
        return found

    def watch(self, needle: str) -> None:
        """Set `watched` as soon as this comes, whatever else is waited for."""
        self._watched_for = needle.encode()
        self.watched = self._watched_for in self._tail

    def drain(self, seconds: float) -> None:
        """Read for that long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read(left)

    def settle(self, quiet: float = 0.4) -> None:
        """Read until nothing was written for that long, at most `_RESTLESS`: a cursor may blink for
        ever."""
        deadline = time.monotonic() + _RESTLESS
        while self._read(quiet) and time.monotonic() < deadline:
            pass

    def echo(self) -> float:
        """Seconds from a key to its letter on screen; every letter is one that was not there
        before."""
        letter = next(self._letters, None)
        if letter is None:
            self._letters = iter(_LETTERS)
            letter = next(self._letters)
        started = self.type(letter)
        return self.until(letter) - started

    def echoes(self, times: int, pause: float = 0.03) -> list[float]:
        """As `echo`, one after the other, the prompt emptied whenever the letters are used up."""
        measured = []
        for _ in range(times):
            measured.append(self.echo())
            self.drain(pause)
        return measured

    def clear_prompt(self) -> None:
        self.type("\x7f" * len(_LETTERS))
        self.settle(0.2)
        self._letters = iter(_LETTERS)

    def cpu(self) -> float:
        """Seconds of processor time so far, children included."""
        return cpu_seconds(self.process.pid)

    def memory_mb(self) -> float:
        """PSS, children included."""
        return memory_mb(self.process.pid)

    def _read(self, seconds: float) -> bool:
        """Whether something was read in time."""
        if not select.select([self._master], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        recent = self._recent + data
        self.watched = self.watched or (self._watched_for != b"" and self._watched_for in recent)
        self._recent = recent[-256:]
        self._tail = self._tail[-4096:] + data
        return bool(data)


@contextmanager
def terminal(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Iterator[Terminal]:
    """Run the command on a pty of 120 x 40 until the block ends."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _SIZE[1], _SIZE[0], 0, 0))
    environment = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **env}
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    running = Terminal(process, master)
    try:
        yield running
    finally:
        _end(running)
        os.close(master)


def _end(running: Terminal) -> None:
    """In an orderly way, so that a container does not stay behind."""
    process = running.process
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        running.drain(0.02)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
