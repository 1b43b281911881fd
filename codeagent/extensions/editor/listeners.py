"""The open screens that take selections: each has a socket, and a private file that says where it
is and holds its token."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.private import UnsafeFile, make_private_folder, read_private, replace_private

LINES = lazy_regex(r"[1-9]\d{0,6}(?:-[1-9]\d{0,6})?")
LONGEST = 8192
"""Bytes of a message."""
_LONGEST_ADDRESS = 100
"""Bytes of a socket's path that every system takes."""


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
def announced(state: Path, workspace: Path) -> Iterator[SelectionListener]:
    """Announce a listener in the state folder, and remove it at the end. Raises OSError."""
    folder = state / "editor"
    make_private_folder(folder)
    name = f"{time.time_ns()}-{os.getpid()}"
    socket, own = folder / f"{name}.socket", None
    if len(os.fsencode(socket)) > _LONGEST_ADDRESS:
        own = Path(mkdtemp(prefix="codeagent-"))
        socket = own / "socket"
    listener = SelectionListener(str(workspace), str(socket), os.urandom(32).hex())
    file = folder / f"{name}.json"
    try:
        replace_private(file, json.dumps(asdict(listener)).encode(), synced=False)
        yield listener
    finally:
        file.unlink(missing_ok=True)
        socket.unlink(missing_ok=True)
        if own is not None:
            own.rmdir()


def listeners_for(state: Path, path: Path) -> Iterator[tuple[Path, SelectionListener]]:
    """Yield the listeners whose workspace has the file, the innermost workspace and the newest
    first, with the file that announces each."""
    files = sorted((state / "editor").glob("*.json"), reverse=True)
    found: list[tuple[Path, SelectionListener]] = []
    for file in files:
        try:
            match json.loads(read_private(file) or b"null"):
                case {"workspace": str(workspace), "socket": str(socket), "token": str(token)}:
                    if path.is_relative_to(workspace):
                        found.append((file, SelectionListener(workspace, socket, token)))
        except (UnsafeFile, ValueError):
            continue
    yield from sorted(found, key=lambda each: -len(Path(each[1].workspace).parts))
