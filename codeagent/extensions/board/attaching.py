"""Shows a detached session on this terminal until it ends or is left."""

import os
import signal
import socket
import sys
import termios
import tty
from contextlib import ExitStack, suppress
from pathlib import Path

from codeagent.commands.arguments import say
from codeagent.core.errors import ConfigError, SessionInUse
from codeagent.disk.sockets import address_of
from codeagent.extensions.board.holder import ATTACH, BUSY, ENDED, LEAVE, LEFT, RESIZED, held_socket
from codeagent.session.store import SessionStore
from codeagent.tui.terminal import RESET

_PATIENCE = 5.0
"""Seconds that a screen has to take a connection."""


def held_session(store: SessionStore, session_id: str) -> Path | None:
    """Return the socket of a detached session; None if the session is not one."""
    try:
        store.check_free(session_id)
    except SessionInUse as error:
        path = held_socket(error.pid or 0)
        return path if path.exists() else None
    return None


def last_held() -> Path:
    """Return the socket of the session that was detached last. Raises ConfigError."""
    found = sorted(held_socket(0).parent.glob("*"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ConfigError('no session is detached: codeagent --detach "PROMPT" starts one')
    return found[-1]


def attach(path: Path) -> None:
    """Show a detached session on this terminal, which is restored at the end. Raises
    ConfigError."""
    connection = connected(path)
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    with ExitStack() as stack:
        stack.callback(connection.close)
        for number, handler in (
            (signal.SIGWINCH, lambda *_: connection.send(RESIZED)),
            (signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)),
        ):
            stack.callback(signal.signal, number, signal.signal(number, handler))
        stack.callback(termios.tcsetattr, terminal, termios.TCSADRAIN, before)
        stack.callback(os.write, terminal, RESET)
        tty.setraw(terminal)
        socket.send_fds(connection, [ATTACH], [terminal])
        said = b""
        with suppress(OSError):
            said = connection.recv(1)
    if said == BUSY:
        raise ConfigError("another terminal shows this session: /detach there, or close it")
    if said == LEFT:
        say("the session works on without a terminal: codeagent attach shows it")
    elif said != ENDED:
        raise ConfigError(
            "the process of the session was killed; its log is kept, and codeagent --resume continues it"
        )


def leave() -> None:
    """Detach the terminal that shows this process's screen. Raises ConfigError."""
    with connected(held_socket(os.getpid())) as connection:
        connection.send(LEAVE)


def connected(path: Path) -> socket.socket:
    """Connect to a detached session of this user. Raises ConfigError."""
    with ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(_PATIENCE)
        try:
            if path.stat().st_uid != os.getuid():
                raise ConfigError(f"{path} belongs to another user; nothing was sent to it")
            with address_of(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)  # its process was killed
            raise ConfigError(
                "that session is no longer detached: codeagent --resume opens it"
            ) from None
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"that session does not answer ({reason}): try again") from error
        connection.settimeout(None)
        stack.pop_all()
        return connection
