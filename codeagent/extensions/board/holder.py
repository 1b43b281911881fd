"""Holds the screen of a detached session on a pseudo-terminal, to which a terminal can attach.

The whole screen runs on that pseudo-terminal, so everything works as on the user's own, and nothing
is lost while no terminal is attached. A terminal that attaches passes its descriptor through a
socket that only the user can open; this process reads keys from it and writes to it until it
leaves.
"""

import fcntl
import os
import pty
import select
import selectors
import signal
import socket
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from codeagent.commands.arguments import say
from codeagent.config.local_environment import state_dir
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.private import make_private_folder
from codeagent.disk.sockets import listen_at

ATTACH, RESIZED, LEAVE = b"a", b"w", b"l"
"""What a client sends: ATTACH with its terminal; RESIZED when that has another size; LEAVE to
detach the attached terminal."""
BUSY, LEFT, ENDED = b"b", b"l", b"e"
"""The answers to a terminal: another one is attached; it was detached; the screen has ended. A
connection that ends without an answer: a process was killed."""
HELD = "CODEAGENT_HELD"
"""The variable that names the process that holds a screen, for that screen."""
_READY = "ready"
_STYLES = lazy_regex(r"\x1b\[[0-9;]*m")
DRAWS = b"\x1b[?1049h"
"""What a screen writes when it takes its terminal."""
_STUCK = 2.0
"""Seconds after which a terminal that takes no more bytes is detached."""
_PIECE = 1 << 16
_AT_ONCE = 512
"""Bytes written to a terminal at once, so that writing does not block for long."""
_SIZE = b"\0" * 8


def held_socket(pid: int) -> Path:
    """Return the socket of the screen that runs as process `pid`."""
    return state_dir() / "held" / str(pid)


@contextmanager
def detached(folder: Path, prompt: str) -> Iterator[None]:
    """Work on a prompt in a detached session, with the other arguments of this command line. Raises
    ConfigError."""
    if "--inline" in sys.argv:
        raise ConfigError("--detach keeps a full screen, so it cannot be combined with --inline")
    words = _without("--detach", sys.argv[1:])
    if prompt.strip():
        _start_again(words, prompt)
    hold(words)
    say("working without a terminal: codeagent attach shows it, codeagent sessions board lists it")
    yield


def _start_again(words: Sequence[str], prompt: str) -> NoReturn:
    """Become a codeagent that detaches a session with this prompt, which it reads from an open
    file: the command line of the process that holds the screen stays in every user's list of
    processes. Raises ConfigError."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(os.fsencode(prompt))
            file.seek(0)
            os.set_inheritable(file.fileno(), True)
            sent = (*_without("--prompt", words), "--detach", "", "--prompt-fd", str(file.fileno()))
            os.execv(sys.executable, [sys.executable, "-P", "-m", "codeagent", *sent])
    except OSError as error:
        raise ConfigError(f"the session did not start: {_reason(error)}") from error


def _without(option: str, words: Sequence[str]) -> list[str]:
    """Return the arguments without an option and its value."""
    kept, skip = list[str](), False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            kept.append(word)
        skip = word == option
    return kept


def hold(arguments: Sequence[str]) -> None:
    """Start a screen with these arguments in a process that holds it; return once it can be
    attached to. Raises ConfigError."""
    ready, told = os.pipe()
    if (child := os.fork()) == 0:
        os.close(ready)
        _hold(arguments, told)
    os.close(told)
    os.waitpid(child, 0)  # it has left the rest to its own child
    with os.fdopen(ready, "rb") as answer:
        said = _STYLES.sub("", answer.read().decode(errors="replace"))
    if said != _READY:
        why = " ".join(said.split()).rpartition("codeagent: ")[2].partition(" – see ")[0]
        raise ConfigError(why or "the session did not start")


def _hold(arguments: Sequence[str], told: int) -> NoReturn:
    """Hold the screen in this process, and end with it."""
    answer = os.fdopen(told, "wb", buffering=0)
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        pid, master = pty.fork()
        if pid == 0:
            _be_screen(arguments)
        termios.tcsetwinsize(master, (24, 80))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        written = b""
        while DRAWS not in written and (data := _read(master)):
            written += data
        if not data:
            answer.write(written)
            os._exit(0)
        with _listening(pid) as listener:
            held = _Held(pid, master, listener)
            answer.write(_READY.encode())
            answer.close()
            held.serve()
        held.end()
    except OSError as error:
        if not answer.closed:
            answer.write(f"the session did not start: {_reason(error)}".encode())
    finally:
        os._exit(0)


def _be_screen(arguments: Sequence[str]) -> NoReturn:
    """Become the screen, on the terminal that is held."""
    os.environ |= {HELD: str(os.getppid())}
    if os.environ.get("TERM", "dumb") == "dumb":
        os.environ["TERM"] = "xterm-256color"
    try:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "codeagent", *arguments])
    except OSError as error:
        say(f"the session did not start: {_reason(error)}")
    finally:
        os._exit(1)


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@contextmanager
def _listening(pid: int) -> Iterator[socket.socket]:
    path = held_socket(pid)
    make_private_folder(path.parent)
    path.unlink(missing_ok=True)
    try:
        with listen_at(path) as listener:
            yield listener
    finally:
        path.unlink(missing_ok=True)


class _Held:
    """A screen on its own pseudo-terminal, and the one terminal that shows it."""

    def __init__(self, pid: int, master: int, listener: socket.socket) -> None:
        self._pid = pid
        self._master = master
        self._listener = listener
        self._client: socket.socket | None = None
        self._terminal = -1
        self._status: int | None = None
        self._ready = selectors.DefaultSelector()
        self._told, told = os.pipe()
        os.set_blocking(told, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(told)

    def serve(self) -> None:
        """Pass bytes on until the screen has ended."""
        self._ready.register(self._master, selectors.EVENT_READ, self._show)
        self._ready.register(self._listener, selectors.EVENT_READ, self._accept)
        self._ready.register(self._told, selectors.EVENT_READ, self._look)
        running = True
        while running:
            for key, _ in self._ready.select():
                if self._ready.get_map().get(key.fd) is key:  # an earlier one may have let it go
                    running = key.data() is not False and running

    def _show(self) -> bool:
        """Pass what the screen drew to the attached terminal, if there is one; False at the end of
        the screen."""
        data = _read(self._master)
        if data and self._terminal >= 0:
            self._pass_on(data, self._terminal)
        return bool(data)

    def _type(self) -> None:
        data = _read(self._terminal)
        if data:
            self._pass_on(data, self._master)
        else:
            self.leave()

    def _pass_on(self, data: bytes, to: int) -> None:
        try:
            while data:
                if not select.select([], [to], [], _STUCK)[1]:
                    raise TimeoutError
                data = data[os.write(to, data[:_AT_ONCE]) :]
        except OSError:
            self.leave()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        client.settimeout(1.0)
        try:
            said, fds, _, _ = socket.recv_fds(client, 1, 1)
        except OSError:
            said, fds = b"", []
        if said == LEAVE:
            self.leave()
        if said != ATTACH or not fds or self._client is not None:
            with client, suppress(OSError):
                client.send(BUSY)
            for fd in fds:
                os.close(fd)
            return
        self._client = client
        self._terminal = fds[0]
        self._ready.register(client, selectors.EVENT_READ, self._hear)
        self._ready.register(self._terminal, selectors.EVENT_READ, self._type)
        self._resize()
        os.kill(self._pid, signal.SIGCONT)  # the screen takes its terminal again, and draws it all

    def _hear(self) -> None:
        assert self._client is not None
        try:
            said = self._client.recv(_PIECE)
        except OSError:
            said = b""
        if said:
            self._resize()
        else:
            self.leave()

    def _look(self) -> None:
        """If the screen stopped itself, as on Ctrl+Z, detach the terminal and continue the
        screen."""
        os.read(self._told, _PIECE)
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return
        if os.WIFSTOPPED(status):
            self.leave()
            os.kill(self._pid, signal.SIGCONT)
        else:
            self._status = status

    def _resize(self) -> None:
        with suppress(OSError):
            size = fcntl.ioctl(self._terminal, termios.TIOCGWINSZ, _SIZE)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def end(self) -> None:
        """Wait for the end of the screen, and tell the attached terminal."""
        if self._status is None:
            _, self._status = os.waitpid(self._pid, 0)
        self.leave(ENDED if os.WIFEXITED(self._status) else b"")

    def leave(self, said: bytes = LEFT) -> None:
        """Detach the terminal, which is told this; the screen keeps running."""
        if self._client is None:
            return
        with suppress(OSError):
            self._client.send(said)
        for each in (self._client, self._terminal):
            self._ready.unregister(each)
        os.close(self._terminal)
        self._client.close()
        self._client = None
        self._terminal = -1


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _PIECE)
    except OSError:  # the other side of a pseudo-terminal is gone
        return b""
