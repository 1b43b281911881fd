"""Restores the terminal however the screen ends; knows nothing about what is drawn on it."""

import asyncio
import contextlib
import json
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from codeagent.disk.opens import open_emptied
from codeagent.disk.private import make_private_folder

RESET = (
    b"\x1b\\"  # ends a sequence that was cut in the middle
    b"\x1b[?2026l"  # synchronized output
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    b"\x1b[?2004l\x1b[?1004l\x1b[?2048l"  # bracketed paste, focus events, resizes reported in band
    b"\x1b[<u"  # kitty's keyboard protocol, kept per screen: before the alternate one is left
    b"\x1b[23;2t"  # the window's title
    b"\x1b[0m\x1b7\x1b[?1049l"  # 1049l restores the saved cursor: saved first, it stays where no alternate screen is on
    b"\x1b[?7h\x1b[?25h\x1b[0m"  # line wrap, cursor, colours
)
"""The sequences that undo every mode the screen sets; harmless if none is set."""
FAREWELL = 5.0
"""Seconds that the app has for an orderly end after a signal."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MARKERS = "terminals"
_DONE = b"\0"
_Attributes = list[Any]
"""The type that `termios.tcgetattr` returns."""


def usable(stdin: TextIO | None, stdout: TextIO | None, environ: Mapping[str, str]) -> str | None:
    """Return one line why a screen cannot be opened here, with the next step; None if it can."""
    for stream, name in ((stdin, "input"), (stdout, "output")):
        if stream is None or stream.closed or not stream.isatty():
            return (
                f"standard {name} is not a terminal; `codeagent run PROMPT` works without a screen"
            )
    if environ.get("TERM", "") in {"", "dumb"}:
        said = "TERM is not set" if not environ.get("TERM") else "TERM=dumb"
        return (
            f"the terminal cannot show a screen ({said}); `codeagent run PROMPT` works without one"
        )
    return None


class TerminalGuard:
    """Owns the terminal of this process inside `guard_terminal`."""

    def __init__(self, markers: Path, on_exit: Callable[[int], None]) -> None:
        self.received: signal.Signals | None = None
        """The signal that ends the screen; also SIGHUP if the terminal is gone."""
        self.silent = False
        """Set once the terminal was given back: nothing is drawn on it afterwards."""
        self.below = b""
        """What is written after `RESET`: moves below a screen that is not one of its own."""
        self._on_exit = on_exit
        self._fd = own_descriptor(0, os.O_NONBLOCK)  # writing to it never blocks
        self._marker = markers / f"{_device(self._fd)}.{os.getpid()}"
        self._before: _Attributes = termios.tcgetattr(self._fd)
        self._lent = False
        self._lost = False
        self._own = False
        """The watcher has sent a SIGTERM that was not handled yet."""
        self._wake, self._woken = os.pipe()
        self._handlers: dict[signal.Signals, Any] = {}
        self._watch = threading.Thread(target=self._watching, name="terminal", daemon=True)

    @property
    def exit_code(self) -> int | None:
        """The process's exit code: 128 + n after signal n, else None."""
        return None if self.received is None else 128 + self.received

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the terminal to another program, such as an editor: a stop key pressed there is not
        meant for us."""
        self._lent = True
        try:
            yield
        finally:
            self._lent = False

    def restore(self) -> None:
        """Undo every mode now, whatever the state of the output; nothing is drawn afterwards. Never
        blocks for long."""
        self.silent = True
        _put(self._fd, RESET + self.below, 0.5)
        self._restore_attributes()

    def take(self) -> None:
        """Mark the terminal as owned by this process and handle signals."""
        _heal(self._marker.parent, self._fd)
        self._before = termios.tcgetattr(self._fd)
        _mark(self._marker, self._before)
        for number in _SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._signalled)
        self._watch.start()

    def give_back(self, *, orderly: bool) -> None:
        """Undo `take`; `orderly` if the screen has undone its modes itself."""
        if not orderly and not self.silent:
            self.restore()
        self._restore_attributes()
        os.write(self._woken, _DONE)
        self._watch.join()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        _remove(self._marker)
        for fd in (self._wake, self._woken, self._fd):
            os.close(fd)

    def _restore_attributes(self) -> None:
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
        except termios.error:
            pass  # the terminal is gone

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._lent and number in {signal.SIGINT, signal.SIGQUIT}:
            return
        own = self._own and number == signal.SIGTERM
        self._own = self._own and number != signal.SIGTERM
        if self.received is not None and (own or number == signal.SIGHUP):
            return  # a closed window sends more than one SIGHUP: from the kernel, the shell and the watcher
        again = self.received is not None
        self.received = self.received or (signal.SIGHUP if self._lost else signal.Signals(number))
        self.restore()
        if again:
            self._end_now()
        os.write(self._woken, bytes([self.received]))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise SystemExit(128 + self.received) from None
        loop.call_soon_threadsafe(self._on_exit, 128 + self.received)

    def _end_now(self) -> None:
        _remove(self._marker)
        os._exit(128 + (self.received or signal.SIGHUP))

    def _watching(self) -> None:
        """End the process if an orderly end takes too long, and the screen if its terminal is gone.

        A terminal that hung up reads as endless empty input, and SIGHUP may have been ignored or
        never sent.
        """
        poller = select.poll()
        poller.register(self._fd, 0)
        poller.register(self._wake, select.POLLIN)
        if any(fd == self._fd for fd, _ in poller.poll()):
            self._lost = self._own = True
            signal.pthread_kill(_main_thread(), signal.SIGTERM)
        elif os.read(self._wake, 1) == _DONE:
            return
        deadline = time.monotonic() + FAREWELL
        while select.select([self._wake], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if os.read(self._wake, 1) == _DONE:
                return
        self._end_now()


@contextlib.contextmanager
def guard_terminal(state: Path, on_exit: Callable[[int], None]) -> Iterator[TerminalGuard]:
    """Guard this process's terminal for the life of a screen, in the main thread.

    On SIGINT, SIGTERM, SIGHUP and SIGQUIT the terminal is restored at once and `on_exit` is called
    in the running event loop with the exit code, 128 + n; it has `FAREWELL` seconds to end the
    screen. A second signal ends the process at once, unless it only repeats that the terminal is
    gone. A SIGHUP that was ignored before, as under nohup, stays ignored. If a screen that owned
    this terminal was killed, the terminal is reset first; markers for that are kept below `state`.
    """
    guard = TerminalGuard(state / _MARKERS, on_exit)
    guard.take()
    orderly = False
    try:
        yield guard
        orderly = True
    finally:
        guard.give_back(orderly=orderly)


def own_descriptor(fd: int, flags: int = 0) -> int:
    """Return the terminal of a descriptor, opened again with these flags if allowed: for writing
    too."""
    try:
        return os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | flags)
    except OSError:
        return os.dup(fd)


def _device(fd: int) -> str:
    number = os.fstat(fd).st_rdev
    return f"{os.major(number)}-{os.minor(number)}"


def _main_thread() -> int:
    identity = threading.main_thread().ident
    assert identity is not None  # it exists, so this is after the start
    return identity


def _put(fd: int, data: bytes, seconds: float) -> None:
    """Write as much as the terminal takes within that time."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    deadline = time.monotonic() + seconds
    while data and poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            time.sleep(0.01)  # it was ready, but not for this much
        except OSError:
            return


def _mark(marker: Path, attributes: _Attributes) -> None:
    """Record who has the terminal, and its attributes; if that fails, only the reset after a kill
    is missing."""
    *flags, characters = attributes
    plain = [code if isinstance(code, int) else code.decode("latin-1") for code in characters]
    try:
        make_private_folder(marker.parent)
        with os.fdopen(open_emptied(marker), "w", encoding="utf-8") as file:
            json.dump({"born": _born(os.getpid()), "flags": flags, "characters": plain}, file)
    except OSError:
        pass


def _heal(markers: Path, fd: int) -> None:
    """Reset the terminal if its last owner was killed."""
    for marker in markers.glob(f"{_device(fd)}.*"):
        try:
            note = json.loads(marker.read_text(encoding="utf-8"))
            characters = [
                code if isinstance(code, int) else code.encode("latin-1")
                for code in note["characters"]
            ]
            attributes: _Attributes = [*note["flags"], characters]
            born = note["born"]
        except (OSError, ValueError, KeyError, TypeError):
            _remove(marker)
            continue
        if born and born == _born(int(marker.suffix[1:])):
            continue
        _put(fd, RESET, 0.5)
        if not termios.tcgetattr(fd)[3] & termios.ICANON:
            termios.tcsetattr(fd, termios.TCSANOW, attributes)
        _remove(marker)


def _born(pid: int) -> str:
    """Return when the process began, to tell it from a later one with the same id; empty if it is
    gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _born_without_proc(pid)
    return stat.rpartition(")")[2].split()[19]


def _born_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "running"


def _remove(marker: Path) -> None:
    try:
        marker.unlink(missing_ok=True)
    except OSError:
        pass  # a state folder that became read-only
