"""The record of who changed what: the moments at which each session took a snapshot, and the files
it wrote itself.

All sessions of a workspace write to one SQLite file, so their entries have one order.
"""

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.index import open_database

_AFTER_ALL = 1 << 62
_LONGEST_WRITE = 60.0
"""Seconds from the intention to write a file until it is written, at most."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS moments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, at REAL, name TEXT UNIQUE, snapshot TEXT, begun INTEGER,
    commands INTEGER, path BLOB, before TEXT, after TEXT, landed INTEGER
);
CREATE INDEX IF NOT EXISTS of_sessions ON moments (session, id) WHERE name IS NOT NULL;
"""
_MOMENT = "SELECT id, begun, name, session, snapshot, commands FROM moments WHERE name IS NOT NULL"
_LAST = f"{_MOMENT} AND id IN (SELECT max(id) FROM moments WHERE name IS NOT NULL AND id < ? GROUP BY session)"
"""The last moment of each session before an entry."""
_DONE = "INSERT INTO moments (session, at) VALUES (?, ?)"
_ADD = (
    "INSERT INTO moments (session, at, begun, name, snapshot, commands) VALUES (?, ?, ?, ?, ?, ?)"
)
_INTEND = "INSERT INTO moments (session, at, path, before, after) VALUES (?, ?, ?, ?, ?)"
_NEWEST = "SELECT coalesce(max(id), 0) FROM moments"
_LANDING = "SELECT id, session, path, before, after, landed FROM moments WHERE path IS NOT NULL"


class Moment(NamedTuple):
    """The taking of a snapshot by a session, before or after its own work."""

    id: int
    begun: int
    """The newest entry when the snapshot began: it has what had landed by then, and may have later
    changes."""
    name: str
    session: str
    snapshot: str
    commands: bool
    """Whether commands of the session may change any file from now until its next moment."""


class Landing(NamedTuple):
    """A file that a session wrote, removed or moved itself; recorded before it did, and again
    after."""

    id: int
    session: str
    path: str
    before: str
    """The `content_name` of the file before."""
    after: str
    """The `content_name` of the file after."""
    landed: int | None
    """The entry made when it was done; None while that is unknown."""


class Record(NamedTuple):
    """What happened since a moment, in order."""

    known: tuple[Moment, ...]
    """The last moment of each session before it."""
    moments: tuple[Moment, ...]
    """That moment and all later ones."""
    landings: tuple[Landing, ...]
    """All that may have changed a file since."""


class MomentsFile:
    """The record in its file. Everything raises CheckpointError."""

    def __init__(self, path: Path, session: str) -> None:
        """`session` is this process's own, see `SnapshotStore.session`."""
        self.durable = False
        """Whether an entry survives a crash of the machine too, not only of the process; set it if
        others work here."""
        self._path = path
        self._session = session
        self._living: frozenset[str] = frozenset()
        """The living sessions at the last moment of this one."""
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def begin(self) -> int:
        """Return the newest entry, as a snapshot begins; called under the store's lock."""
        with self._entries() as entries:
            return int(entries.execute(_NEWEST).fetchone()[0])

    def add(self, begun: int, snapshot: str, *, commands: bool, living: Iterable[str]) -> str:
        """Record a moment of this session, and return its name; called under the store's lock.

        Sessions that died while a command ran get a moment of their own: from now on they change
        nothing.
        """
        name = secrets.token_hex(16)
        now = time.time()
        alive = frozenset(living)
        with self._entries() as entries:
            if alive != self._living:
                last = [_moment(row) for row in entries.execute(_LAST, (_AFTER_ALL,))]
                ended = [
                    moment.session
                    for moment in last
                    if moment.commands and moment.session not in alive
                ]
                rows = [
                    (session, now, begun, secrets.token_hex(16), snapshot, 0) for session in ended
                ]
                entries.executemany(_ADD, rows)
            entries.execute(_ADD, (self._session, now, begun, name, snapshot, int(commands)))
        self._living = alive
        return name

    def intend(self, landings: Iterable[tuple[str, str, str]]) -> list[int]:
        """Record that this session is about to change files (path, content before, after); return
        the entries' ids."""
        with self._entries() as entries:
            rows = [
                (self._session, time.time(), os.fsencode(path), *contents)
                for path, *contents in landings
            ]
            return [_added(entries.execute(_INTEND, row)) for row in rows]

    def landed(self, ids: Iterable[int]) -> None:
        """Record that these landings were done."""
        with self._entries() as entries:
            now = _added(entries.execute(_DONE, (self._session, time.time())))
            entries.executemany(
                "UPDATE moments SET landed = ? WHERE id = ?", [(now, each) for each in ids]
            )

    def withdraw(self, ids: Iterable[int]) -> None:
        """Remove these landings from the record: nothing was changed."""
        with self._entries() as entries:
            entries.executemany("DELETE FROM moments WHERE id = ?", [(each,) for each in ids])

    def since(self, name: str) -> Record:
        """Return what happened since a moment."""
        with self._entries() as entries:
            row = entries.execute(f"{_MOMENT} AND name = ?", (name,)).fetchone()
            if row is None:
                raise CheckpointError(
                    "the record of who changed what since then is gone, and another codeagent may have worked here; "
                    "nothing was changed: compare the files yourself"
                )
            first = _moment(row)
            known = tuple(_moment(row) for row in entries.execute(_LAST, (first.id,)))
            moments = tuple(
                _moment(row)
                for row in entries.execute(f"{_MOMENT} AND id >= ? ORDER BY id", (first.id,))
            )
            may_count = f"{_LANDING} AND (landed > ? OR landed IS NULL) ORDER BY id"
            landings = tuple(_landing(row) for row in entries.execute(may_count, (first.begun,)))
        return Record(known, moments, landings)

    def written_by_others(self, since: float) -> dict[str, str]:
        """Return what other sessions wrote themselves since then, as the name of the newest content
        by path."""
        others = "SELECT path, after FROM moments WHERE landed IS NOT NULL AND session != ? AND at >= ? ORDER BY id"
        with self._entries() as entries:
            rows = entries.execute(others, (self._session, since - _LONGEST_WRITE))
            return {os.fsdecode(path): after for path, after in rows}

    def prune(self, age: float, living: Iterable[str]) -> None:
        """Remove what is older than `age` seconds, but nothing since the first moment of a living
        session."""
        alive = tuple(living)
        first = f"SELECT coalesce(min(id), ({_NEWEST})) FROM moments WHERE session IN ({','.join('?' * len(alive))})"
        with self._entries() as entries:
            entries.execute(
                f"DELETE FROM moments WHERE at < ? AND id < ({first})", (time.time() - age, *alive)
            )

    @contextmanager
    def _entries(self) -> Iterator[sqlite3.Connection]:
        """Yield the open record, and commit what was added to it unless something was raised."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = open_database(self._path, _SCHEMA)
                self._connection.execute(
                    f"PRAGMA synchronous = {'FULL' if self.durable else 'NORMAL'}"
                )
                with self._connection:
                    yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise CheckpointError(
                    f"{self._path} cannot be used: {error}; nothing was changed: make room or remove it (then nothing "
                    "from before can be taken back), then try again"
                ) from None


def _added(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _moment(row: tuple[int, int, str, str, str, int]) -> Moment:
    entry, begun, name, session, snapshot, commands = row
    return Moment(entry, begun, name, session, snapshot, commands=bool(commands))


def _landing(row: tuple[int, str, bytes, str, str, int | None]) -> Landing:
    entry, session, path, before, after, landed = row
    return Landing(entry, session, os.fsdecode(path), before, after, landed=landed)
