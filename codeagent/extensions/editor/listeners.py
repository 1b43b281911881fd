"""The open screens that take selections: each listens on a socket, and has a private file that says
where that is and holds its token."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from codeagent.config.checking import checked
from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.private import UnsafeFile, make_private_folder, read_private, replace_private
from codeagent.disk.sockets import listen_at

LINES = lazy_regex(r"[1-9]\d{0,6}(?:-[1-9]\d{0,6})?")
LONGEST = 8192
"""Bytes of a message."""


@dataclass(frozen=True)
class SelectionListener:
    """A screen that takes selections of files below its workspace."""

    workspace: str
    socket: str
    token: str
    """A sender has it only from the file."""

    def message(self, path: Path, lines: str) -> bytes:
        return json.dumps({"token": self.token, "path": str(path), "lines": lines}).encode() + b"\n"


@contextmanager
def announced(state: Path, workspace: Path) -> Iterator[tuple[SelectionListener, socket.socket]]:
    """Listen for selections, and announce it in the state folder. Raises OSError."""
    with _listening(state) as (path, server):
        listener = SelectionListener(str(workspace), str(path), os.urandom(32).hex())
        file = path.with_suffix(".json")
        try:
            replace_private(file, json.dumps(asdict(listener)).encode(), synced=False)
            yield listener, server
        finally:
            file.unlink(missing_ok=True)


def why_impossible(state: Path) -> str:
    """Return why no screen can listen on this system; empty if they can."""
    try:
        with _listening(state):
            return ""
    except OSError as error:
        return error.strerror or str(error)


@contextmanager
def _listening(state: Path) -> Iterator[tuple[Path, socket.socket]]:
    folder = state / "editor"
    make_private_folder(folder)
    path = folder / f"{time.time_ns()}-{os.getpid()}.socket"
    try:
        with listen_at(path) as server:
            yield path, server
    finally:
        path.unlink(missing_ok=True)


def listeners_for(state: Path, path: Path) -> Iterator[tuple[Path, SelectionListener]]:
    """Yield the listeners whose workspace has the file, the innermost workspace and the newest
    first, with the file that announces each."""
    found: list[tuple[Path, SelectionListener]] = []
    for file in sorted((state / "editor").glob("*.json"), reverse=True):
        with suppress(UnsafeFile, ValueError, RecursionError):
            listener = checked(SelectionListener, json.loads(read_private(file) or b"null"))
            if path.is_relative_to(listener.workspace):
                found.append((file, listener))
    yield from sorted(found, key=lambda each: -len(Path(each[1].workspace).parts))
