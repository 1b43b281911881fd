"""A folder of tool files: each read once, through no link, and read again only where something about it changed."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codeagent.core.toolbox import ToolProblem
from codeagent.tools.source import ToolFile

LARGEST = 256 * 1024
"""Bytes of one file."""
MOST = 200
"""Files of one folder."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class FolderState:
    """What the folder held when it was read."""

    files: tuple[ToolFile, ...] = ()
    """By name."""
    problems: tuple[ToolProblem, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over names and contents: what trust is given to."""
        total = hashlib.sha256()
        for file in self.files:
            name, content = file.path.name.encode("utf-8", "surrogateescape"), file.content
            total.update(b"%d %d " % (len(name), len(content)) + name + content)
        return total.hexdigest()


class ToolFolder:
    """Files with the given suffixes directly below `base/parts…`; what begins with `.` or `_` is passed over."""

    def __init__(
        self, base: Path, parts: tuple[str, ...], place: Literal["project", "user"], suffixes: tuple[str, ...]
    ) -> None:
        """No link is followed below `base`."""
        self._base = base
        self._parts = parts
        self._place = place
        self._suffixes = suffixes
        self._signature: tuple[object, ...] | None = None
        self._state = FolderState()

    @property
    def place(self) -> Literal["project", "user"]:
        return self._place

    def read(self) -> FolderState:
        """The state now; the same object as before where nothing changed. Blocks on a few small files."""
        folder = self._open_folder()
        if folder is None:
            self._signature, self._state = None, FolderState() if self._state.files else self._state
            return self._state
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if self._is_meant(entry.name))
            signature = tuple(_stamp(folder, name) for name in names)
            if signature != self._signature:
                self._signature, self._state = signature, self._read_all(folder, names)
            return self._state
        finally:
            os.close(folder)

    def _is_meant(self, name: str) -> bool:
        return name.endswith(self._suffixes) and not name.startswith((".", "_"))

    def _open_folder(self) -> int | None:
        """Its descriptor; None where there is no such folder, or a link stands in its place."""
        folder: int | None = None
        try:
            folder = os.open(self._base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in self._parts:
                inner = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            return folder
        except OSError:
            if folder is not None:
                os.close(folder)
            return None

    def _read_all(self, folder: int, names: list[str]) -> FolderState:
        files: list[ToolFile] = []
        problems: list[ToolProblem] = []
        for name in names[:MOST]:
            try:
                content = _content(folder, name)
            except OSError as error:
                problems.append(ToolProblem(self._shown(name), f"it cannot be read: {error.strerror or error}"))
                continue
            files.append(ToolFile(self._base.joinpath(*self._parts, name), self._shown(name), content, self._place))
        if len(names) > MOST:
            problems.append(ToolProblem(self._shown(""), f"only the first {MOST} of {len(names)} files are loaded"))
        return FolderState(tuple(files), tuple(problems))

    def _shown(self, name: str) -> str:
        inner = Path(*self._parts, name)
        return str(inner if self._place == "project" else self._base / inner)


def _stamp(folder: int, name: str) -> tuple[object, ...]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return (name,)
    return (name, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(folder: int, name: str) -> bytes:
    """Raises OSError."""
    fd = os.open(name, _OPEN, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a regular file")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(0, f"it is larger than {LARGEST} bytes")
    return content
