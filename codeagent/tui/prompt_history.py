"""The prompts the user sent before, in a file that several conversations append to at once."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codeagent.disk.locks import wait_for_lock
from codeagent.disk.opens import closing_fd, open_appended
from codeagent.disk.private import make_private_folder, replace_private
from codeagent.tui.fuzzy import rank

_MOST = 5_000
"""How many entries are kept."""
_LARGEST = 1_000_000
"""Bytes of the file; beyond that its older half is dropped."""
_LONGEST = 100_000
"""Characters of the longest entry that is written; longer ones are remembered until the program
ends."""


class PromptHistory:
    """A file with one JSON string per line, the newest last, readable by its owner only.

    Damaged lines are skipped. If the file cannot be read or written, the history is kept until the
    program ends and `trouble` says why.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[str] | None = None
        self.trouble = ""
        """One line, empty if nothing is wrong."""

    @property
    def entries(self) -> tuple[str, ...]:
        """All entries, the oldest first; the file is read on first use."""
        return tuple(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def __getitem__(self, index: int) -> str:
        return self._loaded()[index]

    def add(self, text: str) -> None:
        """Keep what was sent; blank text and a repetition of the last entry are left out."""
        entries = self._loaded()
        if not text.strip() or (entries and entries[-1] == text):
            return
        entries.append(text)
        if len(text) > _LONGEST:
            return
        try:
            self._append(json.dumps(text).encode() + b"\n")
        except OSError as error:
            self.trouble = (
                f"The prompt history is kept only until you leave: {self._path}: {error.strerror}."
            )

    def search(self, text: str, limit: int = 200) -> list[str]:
        """Return the matching entries, each once: those that contain the text first, the newest
        first."""
        newest_first = dict.fromkeys(reversed(self._loaded()))
        return rank(text, newest_first, limit) if text else list(newest_first)[:limit]

    def _loaded(self) -> list[str]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self) -> list[str]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            self.trouble = f"The prompt history cannot be read: {self._path}: {error.strerror}."
            return []
        return [text for text in map(_entry, data.split(b"\n")) if text][-_MOST:]

    def _append(self, line: bytes) -> None:
        make_private_folder(self._path.parent)
        with self._locked() as fd:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            os.write(fd, b"\n" + line if torn else line)
            if size > _LARGEST:
                self._halve(fd)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the locked file that has the name now: another writer may just have replaced it."""
        while True:
            with closing_fd(open_appended(self._path)) as fd:
                wait_for_lock(fd)
                if _is_at(fd, self._path):
                    yield fd
                    return

    def _halve(self, fd: int) -> None:
        lines = os.pread(fd, os.fstat(fd).st_size, 0).splitlines(keepends=True)
        kept, total = [], 0
        for line in reversed(lines[-_MOST:]):
            total += len(line)
            if total > _LARGEST // 2:
                break
            kept.append(line)
        replace_private(self._path, b"".join(reversed(kept)), synced=False)


class HistoryWalk:
    """Walks from the text being typed through the history; changes made on the way are kept until
    the walk ends."""

    def __init__(self, entries: Sequence[str]) -> None:
        """`entries`: the oldest first."""
        self._entries = entries
        self._at = len(entries)
        self._changed: dict[int, str] = {}

    @property
    def at_typed(self) -> bool:
        """Whether the walk is at the text being typed, not at an earlier one."""
        return self._at == len(self._entries)

    def older(self, current: str) -> str | None:
        """Return the text before; None at the oldest. `current` is what the composer shows now."""
        return self._go(self._at - 1, current)

    def newer(self, current: str) -> str | None:
        """Return the text after, in the end the one being typed; None if that is already shown."""
        return self._go(self._at + 1, current)

    def _go(self, to: int, current: str) -> str | None:
        if not 0 <= to <= len(self._entries):
            return None
        self._changed[self._at] = current
        self._at = to
        return (
            self._changed.get(to, "") if self.at_typed else self._changed.get(to, self._entries[to])
        )


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _entry(line: bytes) -> str | None:
    """Return the text of a line; None if it is damaged."""
    try:
        text = json.loads(line)
    except ValueError:
        return None
    return text if isinstance(text, str) else None
