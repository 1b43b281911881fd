"""Finds the files that look like secrets, before each command; they read as empty inside."""

import os
import re
import stat
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.paths import secret_reason
from codeagent.sandbox.pinned import PinnedEntry, PinnedRoot

MOST_FILES = 100
MOST_ENTRIES = 200_000
"""Entries searched, the least deep first; `complete` says if a larger tree was not searched to its end."""
_SKIPPED = frozenset({
    ".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", ".nox", ".mypy_cache", "target",
    "test", "tests", "testdata", "fixtures", "examples",
})  # fmt: skip
"""Keys below folders of tests and examples are test data and stay readable."""
_OFTEN_PUBLIC = re.compile(r".+\.(pem|key|asc)|\.npmrc", re.IGNORECASE)
"""Certificates and package settings: secret only if they hold one of the marks below."""
_MARKS = (b"PRIVATE KEY", b"_auth", b"_password")
_LOOKED_AT = 64 * 1024
NOT_ALL_MASKED = "not all of it could be searched for files that look like secrets"
_SETTLED_NS = 2_000_000_000
"""A folder whose time stamp is younger may change once more within the same tick of the file system's clock."""


@dataclass(frozen=True)
class Mask:
    path: str
    """Absolute."""
    found: PinnedEntry


@dataclass(frozen=True)
class Secrets:
    masks: frozenset[Mask]
    complete: bool
    """Whether the whole tree was searched, and every such file is among the masks."""


@dataclass(frozen=True)
class _Folder:
    """One folder as it was listed."""

    identity: tuple[int, int, int]
    """Device, inode, and time of the last change of its entries, in nanoseconds."""
    folders: tuple[str, ...]
    suspects: tuple[str, ...]
    """Files whose names look like secrets."""
    entries: int


class SecretScan:
    """Searches one tree; folders that did not change since the last search are not listed again."""

    def __init__(self, root: PinnedRoot, without: str = "", most_entries: int = MOST_ENTRIES) -> None:
        """`without`: a folder, relative to the root, that is not searched."""
        self._root = root
        self._without = without
        self._most_entries = most_entries
        self._known: dict[str, _Folder] = {}
        self._turn = threading.Lock()

    def look(self) -> Secrets:
        """Search; blocks for milliseconds if little changed, for a second on a large tree at first."""
        with self._turn:
            return self._look()

    def _look(self) -> Secrets:
        known: dict[str, _Folder] = {}
        found: list[PinnedEntry] = []
        pending, entries = deque([""]), 0
        while pending and entries <= self._most_entries and len(found) <= MOST_FILES:
            name = pending.popleft()
            folder = self._folder(name)
            if folder is None:
                continue
            known[name] = folder
            entries += folder.entries
            pending.extend(path for path in (_joined(name, inner) for inner in folder.folders) if path != self._without)
            for suspect in folder.suspects:
                seen = self._root.find(_joined(name, suspect))
                if seen is not None and seen.kind == "file" and self._holds_secret(seen.name):
                    found.append(seen)
        self._known = {name: folder for name, folder in known.items() if folder.identity[2] >= 0}
        masks = frozenset(Mask(f"{self._root.path}/{each.name}", each) for each in found[:MOST_FILES])
        return Secrets(masks, not pending and entries <= self._most_entries and len(found) <= MOST_FILES)

    def _folder(self, name: str) -> _Folder | None:
        try:
            fd = os.open(name or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root.fd)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
            known = self._known.get(name)
            if known is not None and known.identity == identity:
                return known
            if time.time_ns() - status.st_mtime_ns < _SETTLED_NS:
                identity = (status.st_dev, status.st_ino, -1)
            with os.scandir(fd) as listed:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed]
        except OSError:
            return None
        finally:
            os.close(fd)
        folders = tuple(sorted(each for each, is_folder in entries if is_folder and each.lower() not in _SKIPPED))
        suspects = tuple(sorted(each for each, is_folder in entries if not is_folder and secret_reason(each)))
        return _Folder(identity, folders, suspects, len(entries))

    def _holds_secret(self, name: str) -> bool:
        if not _OFTEN_PUBLIC.fullmatch(Path(name).name):
            return True
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._root.fd)
        except OSError:
            return True
        with os.fdopen(fd, "rb") as file:
            head = file.read(_LOOKED_AT) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        return any(mark in head for mark in _MARKS)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
