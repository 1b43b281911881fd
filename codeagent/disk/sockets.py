"""Unix sockets in our own folders, however long the paths are: a socket's address has room for about
100 bytes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.disk.opens import closing_fd, open_folder

_BACKLOG = 128


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """Yield an address for binding or connecting to the socket at a path. Raises OSError.

    It leads through the folder's descriptor; without /proc it is the path itself, which may be too
    long.
    """
    with closing_fd(open_folder(path.parent, listed=False)) as fd:
        folder = Path(f"/proc/self/fd/{fd}")
        yield str((folder if folder.exists() else path.parent) / path.name)


def connect_to(path: Path, seconds: float) -> socket.socket:
    """Connect to the socket at a path; `seconds` is how long the other side has to accept, and then
    for each answer. The caller closes it. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        with address_of(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def listen_at(path: Path, mode: int = 0o600) -> socket.socket:
    """Listen on a socket at a path that is free. The caller closes it, and removes the path. Raises
    OSError."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with address_of(path) as address:
            listener.bind(address)
            path.chmod(mode)  # until it listens, nobody can connect
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
