"""Lists sessions without reading every log: how each began is kept in a cache, the titles users
gave in a file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SessionError
from codeagent.disk.private import UnsafeFile, read_small, replace_private
from codeagent.session.lock import changing

_LARGEST = 256 * 1024 * 1024
_LONGEST = 4_000
"""Characters of a prompt that the cache holds; a session with a longer one is read each time."""
_MOST_TITLE = 200


@dataclass(frozen=True)
class Beginning:
    """How a session began; an empty text if its log does not say."""

    workspace: str = ""
    model: str = ""
    prompt: str = ""

    @property
    def is_final(self) -> bool:
        """Nothing that is added to the log changes it."""
        return bool(self.workspace and self.model and self.prompt) and len(self.prompt) <= _LONGEST

    @classmethod
    def of(cls, row: Any) -> "Beginning | None":
        """Return what a row of the cache holds; None if it is missing or damaged."""
        return cls(*row) if _are_texts(row, 3) else None


class SessionCache:
    """What was read of sessions, by their ids, in a file that may be lost or damaged: then the logs
    are read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = _rows(path)
        self._changed = False

    def get(self, session_id: str) -> Any:
        """Return what was put in, as JSON has it, or whatever a damaged file has there."""
        return self._rows.get(session_id)

    def put(self, session_id: str, row: list[Any]) -> None:
        self._rows[session_id] = row
        self._changed = True

    def save(self, ids: set[str]) -> None:
        """Write the file if anything was put in, without sessions that are gone; a failure costs
        only time later."""
        if self._changed:
            kept = {session_id: row for session_id, row in self._rows.items() if session_id in ids}
            with suppress(OSError):
                replace_private(self._path, json.dumps(kept).encode(), synced=False)


class SessionTitles:
    """The titles that users gave to sessions, by id, in one file; every call reads it again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, str]:
        rows = _rows(self._path).items()
        return {session_id: row[0] for session_id, row in rows if _are_texts(row, 1)}

    def give(self, session_id: str, title: str) -> None:
        """Give a title, or take it away with an empty one. Raises SessionError: nothing was changed
        then."""
        if len(title) > _MOST_TITLE:
            raise SessionError(
                f"a title has at most {_MOST_TITLE} characters, not {len(title)}; nothing was changed"
            )
        with self._changing() as titles:
            if title:
                titles[session_id] = title
            else:
                titles.pop(session_id, None)

    def forget(self, ids: set[str]) -> None:
        """Drop the titles of sessions that were removed. Raises SessionError."""
        if ids & self.all().keys():
            with self._changing() as titles:
                for session_id in ids:
                    titles.pop(session_id, None)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        with changing(self._path):
            titles = self.all()
            yield titles
            written = {session_id: [title] for session_id, title in titles.items()}
            replace_private(
                self._path, json.dumps(written, ensure_ascii=False).encode("utf-8", "replace")
            )


def _rows(path: Path) -> dict[str, Any]:
    """Read a file of JSON values by session; empty if it is damaged."""
    try:
        rows = json.loads(read_small(path, _LARGEST) or b"{}")
    except (UnsafeFile, ValueError, RecursionError):
        return {}
    return rows if isinstance(rows, dict) else {}


def _are_texts(row: Any, count: int) -> bool:
    return (
        isinstance(row, list) and len(row) == count and all(isinstance(text, str) for text in row)
    )


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files below a folder; what vanishes in the meantime does not
    count."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
