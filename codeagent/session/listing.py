"""Lists sessions without reading every log: how each began is kept in a cache, the titles users
gave in a file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SessionError
from codeagent.disk.private import UnsafeFile, read_small, replace_private
from codeagent.session.lock import changing

_LARGEST = 64 * 1024 * 1024
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


class BeginningsCache:
    """Remembers how sessions began, in a file that may be lost or damaged: then the logs are read
    again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _texts(path, 3)
        self._changed = False

    def get(self, session_id: str) -> Beginning | None:
        found = self._known.get(session_id)
        return None if found is None else Beginning(*found)

    def put(self, session_id: str, beginning: Beginning) -> None:
        if beginning.is_final:
            self._known[session_id] = [beginning.workspace, beginning.model, beginning.prompt]
            self._changed = True

    def save(self, ids: set[str]) -> None:
        """Write the file if anything was added, without sessions that are gone; a failure costs
        only time later."""
        if self._changed:
            kept = {
                session_id: texts for session_id, texts in self._known.items() if session_id in ids
            }
            with suppress(OSError):
                replace_private(
                    self._path, json.dumps(kept).encode("utf-8", "replace"), synced=False
                )


class SessionTitles:
    """The titles that users gave to sessions, by id, in one file; every call reads it again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, str]:
        return {session_id: texts[0] for session_id, texts in _texts(self._path, 1).items()}

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


def _texts(path: Path, count: int) -> dict[str, list[str]]:
    """Read a file of so many texts by session; what does not fit is left out."""
    try:
        raw = json.loads(read_small(path, _LARGEST) or b"{}")
    except (UnsafeFile, ValueError, RecursionError):
        return {}
    if not isinstance(raw, dict):
        return {}
    return {
        session_id: texts
        for session_id, texts in raw.items()
        if isinstance(texts, list)
        and len(texts) == count
        and all(isinstance(text, str) for text in texts)
    }


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files below a folder; what vanishes in the meantime does not
    count."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
