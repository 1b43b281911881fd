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
from codeagent.disk.sockets import connect_to
from codeagent.extensions.board.holder import (
    ATTACH,
    BUSY,
    DRAWS,
    ENDED,
    LEAVE,
    LEFT,
    RESIZED,
    held_socket,
)
from codeagent.session.lock import lives
from codeagent.session.store import SessionStore
from codeagent.tui.terminal import RESET, own_descriptor

_PATIENCE = 5.0
"""Seconds that a screen has to take a connection."""


class NotDetached(ConfigError):
    """The process of a detached session has ended."""


def held_session(store: SessionStore, session_id: str) -> Path | None:
    """Return the socket of a detached session; None if no process works on it. Raises SessionInUse
    if one does that holds no screen."""
    try:
        store.check_free(session_id)
    except SessionInUse as error:
        path = held_socket(error.pid or 0)
        if path.exists():
            return path
        raise
    return None


def last_held() -> socket.socket:
    """Connect to the session that was detached last, of those whose process runs. Raises
    ConfigError."""
    for path in sorted(held_socket(0).parent.glob("[0-9]*"), key=_made, reverse=True):
        with suppress(NotDetached):
            return connected(path)
    raise ConfigError('no session is detached: codeagent --detach "PROMPT" starts one')


def _made(path: Path) -> float:
    """Return when a socket was made, in seconds since the epoch; 0 if it has just been removed."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def attach(connection: socket.socket) -> None:
    """Show a detached session on this terminal, which is restored at the end. Raises
    ConfigError."""
    terminal = own_descriptor(sys.stdin.fileno())  # that one may be only for reading
    before = termios.tcgetattr(terminal)
    said = b""
    with ExitStack() as stack:
        stack.callback(os.close, terminal)
        stack.callback(connection.close)
        for number, handler in (
            (signal.SIGWINCH, lambda *_: connection.send(RESIZED)),
            (signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)),
        ):
            stack.callback(signal.signal, number, signal.signal(number, handler))
        stack.callback(termios.tcsetattr, terminal, termios.TCSADRAIN, before)
        # A screen that ended has done so before its last lines: in tmux, the second time would move
        # the cursor back to where they begin.
        stack.callback(lambda: said == ENDED or os.write(terminal, RESET))
        tty.setraw(terminal)
        os.write(terminal, DRAWS)  # it may draw at its new size before it takes the terminal again
        with suppress(OSError):  # its process is gone
            socket.send_fds(connection, [ATTACH], [terminal])
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
    """Connect to a detached session of this user; the socket of one whose process has ended is
    removed. Raises ConfigError."""
    try:
        if path.stat().st_uid != os.getuid():
            raise ConfigError(f"{path} belongs to another user; nothing was sent to it")
        connection = connect_to(path, _PATIENCE)
    except (FileNotFoundError, ConnectionRefusedError):
        if not lives(int(path.name)):  # one that is being made refuses too
            path.unlink(missing_ok=True)
        raise NotDetached(
            "that session is no longer detached: codeagent --resume opens it"
        ) from None
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"that session does not answer ({reason}): try again") from error
    connection.settimeout(None)
    return connection
