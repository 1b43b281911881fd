"""Long outputs of a session's calls, kept in files beside its log and read page by page."""

import errno
import os
from bisect import bisect_left
from dataclasses import field
from pathlib import Path
from typing import BinaryIO

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.memory import OutputPage
from codeagent.core.redact import Redactor
from codeagent.disk.opens import create_file
from codeagent.disk.private import make_private_folder

_MIB = 1024 * 1024
_CHUNK = 256 * 1024
_BUFFER = 64 * 1024
_HELD_BACK = 4096
"""Characters kept back until more comes, so that a secret written in two pieces is still masked."""
_SAFE = lazy_regex(r"[A-Za-z0-9_-]{1,64}")


class FileOutputs:
    """The OutputStore below one folder; the folder is made when the first output is written.

    Both caps are in bytes. Past them text is counted and dropped, and the count is kept beside the
    file.
    """

    def __init__(
        self,
        folder: Path,
        redactor: Redactor,
        *,
        cap_per_output: int = 64 * _MIB,
        cap_per_session: int = 512 * _MIB,
    ) -> None:
        self._folder = folder
        self._redactor = redactor
        self._cap = cap_per_output
        self._left = cap_per_session - sum(path.stat().st_size for path in self._files("*"))
        self._taken = set(self.handles())
        self._indexes: dict[str, _Index] = {}
        self._dropped: dict[str, int] = {}

    def create(self, call_id: str) -> "_FileSink":
        stem = call_id if _SAFE.fullmatch(call_id) else "output"
        handle, number = stem, 1
        while handle in self._taken:
            number += 1
            handle = f"{stem}-{number}"
        self._taken.add(handle)
        return _FileSink(self, handle, self._redactor)

    def read(self, handle: str, offset: int, lines: int) -> OutputPage:
        """Return `lines` lines from line `offset` (from 1). Raises KeyError for an unknown
        handle."""
        if handle not in self._taken or not self._path(handle).is_file():
            raise KeyError(handle)
        with self._path(handle).open("rb") as file:
            index = self._index(handle, file)
            first = max(1, offset)
            page = _lines(file, index, first, max(0, lines))
        return OutputPage(page, first, index.lines, self._dropped_bytes(handle))

    def handles(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self._files()))

    def keep_image(self, suffix: str, data: bytes) -> str:
        """Keep an image, and return the path of its file. Raises OSError, also if the session has
        kept too much."""
        granted = self.reserve(len(data), 0)
        if granted < len(data):
            self._left += granted
            raise OSError(errno.ENOSPC, "the session's outputs have reached their limit")
        make_private_folder(self._folder)
        number = 1
        while (path := self._folder / f"image-{number}{suffix}").exists():
            number += 1
        with os.fdopen(create_file(path), "wb") as file:
            file.write(data)
        return str(path)

    def reserve(self, wanted: int, used: int) -> int:
        """Take up to `wanted` bytes of what is left for an output that has `used` bytes; return how
        many."""
        granted = max(0, min(wanted, self._cap - used, self._left))
        self._left -= granted
        return granted

    def open(self, handle: str) -> BinaryIO:
        """Create the output's file, for its sink. Raises OSError."""
        make_private_folder(self._folder)
        return os.fdopen(create_file(self._path(handle)), "wb", buffering=0)

    def note_dropped(self, handle: str, dropped: int) -> None:
        self._dropped[handle] = dropped
        try:
            self._path(handle).with_suffix(".dropped").write_text(str(dropped))
        except OSError:
            pass

    def _dropped_bytes(self, handle: str) -> int:
        if handle in self._dropped:
            return self._dropped[handle]
        try:
            return int(self._path(handle).with_suffix(".dropped").read_text())
        except (OSError, ValueError):
            return 0

    def _files(self, pattern: str = "*.txt") -> list[Path]:
        return list(self._folder.glob(pattern)) if self._folder.is_dir() else []

    def _path(self, handle: str) -> Path:
        return self._folder / f"{handle}.txt"

    def _index(self, handle: str, file: BinaryIO) -> "_Index":
        size = os.fstat(file.fileno()).st_size
        known = self._indexes.get(handle)
        if known is None or known.size != size:
            known = self._indexes[handle] = _index(file, size)
        return known


class _FileSink:
    """One output being written; its file appears with its first text."""

    def __init__(self, store: FileOutputs, handle: str, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._handle = handle
        self._held = ""
        self._file: BinaryIO | None = None
        self._used = 0
        self._dropped = 0

    @property
    def handle(self) -> str:
        return self._handle

    def write(self, text: str) -> None:
        """Write text; what the disk does not take is counted as dropped, so that no command fails
        because of it."""
        self._held += text
        if len(self._held) > _BUFFER:
            cleaned = self._redactor.clean(self._held)
            self._held = cleaned[-_HELD_BACK:]
            self._put(cleaned[:-_HELD_BACK])

    def flush(self) -> None:
        """Write everything except what may be the beginning of a secret."""
        cleaned = self._redactor.clean(self._held)
        cut = len(cleaned) - self._redactor.open_end(cleaned)
        self._held = cleaned[cut:]
        self._put(cleaned[:cut])

    def close(self) -> None:
        """Idempotent."""
        held = self._redactor.clean(self._held)
        self._held = ""
        self._put(held)
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._dropped:
            self._store.note_dropped(self._handle, self._dropped)

    def _put(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        if not data:
            return
        granted = 0 if self._dropped else self._store.reserve(len(data), self._used)
        written = self._write(data[:granted])
        self._used += written
        self._dropped += len(data) - written

    def _write(self, data: bytes) -> int:
        written = 0
        try:
            if self._file is None:
                self._file = self._store.open(self._handle)
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError:
            pass
        return written


@dataclass(frozen=True)
class _Index:
    """How many lines end before each chunk of the file."""

    size: int
    lines: int
    before: list[int] = field(repr=False)


def _index(file: BinaryIO, size: int) -> _Index:
    before, ends, last = [0], 0, b""
    while chunk := file.read(_CHUNK):
        ends += chunk.count(b"\n")
        before.append(ends)
        last = chunk
    unfinished = bool(last) and not last.endswith(b"\n")
    return _Index(size, ends + unfinished, before)


def _lines(file: BinaryIO, index: _Index, first: int, count: int) -> tuple[str, ...]:
    if first > index.lines or count == 0:
        return ()
    chunk = max(0, bisect_left(index.before, first - 1) - 1)
    file.seek(chunk * _CHUNK)
    to_skip = first - 1 - index.before[chunk]
    page: list[str] = []
    for line in file:
        if to_skip:
            to_skip -= 1
            continue
        page.append(line.rstrip(b"\n").decode("utf-8", "replace"))
        if len(page) == count:
            break
    return tuple(page)
