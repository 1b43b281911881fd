"""The index: what the last snapshot found, so that a file with the same stamp is not read again."""

import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from codeagent.core.checkpoints import NodeKind
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError

Stamp = tuple[int, int, int, int, int]
"""Time of content and of inode in ns, size, inode, mode."""
NO_STAMP: Stamp = (0, 0, 0, 0, 0)
"""The stamp of a file that changed so recently that its stamp might not show the next change."""
IndexEntry = tuple[Stamp, NodeKind, str]
Leaf = tuple[bytes, str]
"""What a tree of git's has of a file: its mode, and the hash of its content."""
_KINDS: dict[bytes, NodeKind] = {b"100644": "file", b"100755": "executable", b"120000": "link"}
_MODES = {kind: mode for mode, kind in _KINDS.items()}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS state (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), snapshot TEXT, about BLOB);
CREATE TABLE IF NOT EXISTS files (
    path BLOB PRIMARY KEY, changed INTEGER, inode_changed INTEGER, size INTEGER, inode INTEGER, mode INTEGER,
    kind TEXT, name TEXT
) WITHOUT ROWID;
"""


class FileState(NamedTuple):
    """The kind of the file at a path, and the hash of its content."""

    kind: NodeKind
    blob: str


def state_of(leaf: Leaf | None) -> FileState | None:
    """Return the state of a file in a tree of git's."""
    return None if leaf is None else FileState(_KINDS.get(leaf[0], "file"), leaf[1])


def mode_of(kind: NodeKind) -> bytes:
    """Return the mode as git writes it."""
    return _MODES[kind]


@dataclass
class Folder:
    files: dict[str, IndexEntry] = field(default_factory=dict)
    folders: dict[str, "Folder"] = field(default_factory=dict)

    def paths(self, prefix: str = "") -> Iterable[str]:
        """Yield all files below, with the folder's own path in front."""
        for name in self.files:
            yield prefix + name
        for name, folder in self.folders.items():
            yield from folder.paths(f"{prefix}{name}/")


@dataclass
class SnapshotIndex:
    """The content of one snapshot, with stamps."""

    snapshot: str | None = None
    about: bytes = b""
    root: Folder = field(default_factory=Folder)


class IndexFile:
    """The index in one SQLite file beside the objects; used under the store's lock. Raises
    CheckpointError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory: SnapshotIndex | None = None
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def load(self) -> SnapshotIndex:
        """Return the index of the last snapshot of any process; empty before the first."""
        known = self._memory
        self._memory = None
        try:
            return self._loaded(known)
        except sqlite3.OperationalError as error:
            raise self._failed(error) from None
        except sqlite3.DatabaseError:
            # It only saves reading: a damaged one is rebuilt from the files themselves.
            self.forget()
            return SnapshotIndex()

    def _loaded(self, known: SnapshotIndex | None) -> SnapshotIndex:
        database = self._open()
        row = database.execute("SELECT snapshot, about FROM state").fetchone() or (None, b"")
        if known is not None and known.snapshot == row[0]:
            return known
        return SnapshotIndex(
            row[0], row[1], _nested(database.execute("SELECT * FROM files ORDER BY path"))
        )

    def snapshot(self) -> str | None:
        """Return which snapshot the index is of."""
        try:
            row = self._open().execute("SELECT snapshot FROM state").fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from None
        return None if row is None else row[0]

    def save(
        self, known: SnapshotIndex, changed: Mapping[str, IndexEntry], gone: Iterable[str]
    ) -> None:
        """Save `known` as it is now; `changed` and `gone` are the differences to what `load`
        returned."""
        rows = [
            (os.fsencode(path), *stamp, kind, name) for path, (stamp, kind, name) in changed.items()
        ]
        try:
            with self._open() as database:
                database.executemany(
                    "DELETE FROM files WHERE path = ?", [(os.fsencode(path),) for path in gone]
                )
                database.executemany(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows
                )
                database.execute(
                    "INSERT OR REPLACE INTO state VALUES (1, ?, ?)", (known.snapshot, known.about)
                )
        except sqlite3.Error as error:
            raise self._failed(error) from None
        self._memory = known

    def keep(self, known: SnapshotIndex) -> None:
        """Keep `known`, as `load` returned it: it is still right."""
        self._memory = known

    def forget(self) -> None:
        """Start afresh: every file will be read again."""
        self._memory = None
        self.close()
        for end in ("", "-wal", "-shm", "-journal"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        """Connect; used by one thread at a time, but not always the same one."""
        if self._connection is None:
            try:
                self._connection = open_database(self._path, _SCHEMA)
            except OSError as error:
                raise self._failed(error) from None
        return self._connection

    def _failed(self, error: sqlite3.Error | OSError) -> CheckpointError:
        return CheckpointError(
            f"{self._path} cannot be used: {error}; nothing was changed: make room or remove it, then try again"
        )


def open_database(path: Path, schema: str) -> sqlite3.Connection:
    """Open a database that only its owner may read, for one thread at a time. Raises sqlite3.Error,
    OSError."""
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(schema)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _nested(rows: Iterable[tuple[bytes, int, int, int, int, int, NodeKind, str]]) -> Folder:
    root = Folder()
    folders = {"": root}
    for raw, changed, inode_changed, size, inode, mode, kind, name in rows:
        head, _, last = os.fsdecode(raw).rpartition("/")
        folder = folders.get(head) or _folder(folders, head)
        folder.files[last] = ((changed, inode_changed, size, inode, mode), kind, name)
    return root


def _folder(folders: dict[str, Folder], path: str) -> Folder:
    if path not in folders:
        head, _, last = path.rpartition("/")
        folders[path] = _folder(folders, head).folders.setdefault(last, Folder())
    return folders[path]
