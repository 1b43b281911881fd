"""What the agent remembers across sessions: a search through earlier ones, and scratchpads."""

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from codeagent.core.deferred import BaseModel, ConfigDict, Field
from codeagent.core.errors import SessionError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.memory import Found, Hit, Note, ScratchpadFull
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line
from codeagent.disk.private import UnsafeFile, read_small, replace_private
from codeagent.session.lock import changing
from codeagent.session.log import unseal
from codeagent.session.store import LOG, SessionStore

_SECONDS = 2.0
_LONGEST_RECORD = 1 << 20
"""Bytes; longer records hold no prompt, answer or command worth finding."""
_BEFORE, _SNIPPET = 60, 240
_KINDS = (b'"type":"message.added"', b'"type":"tool.started"')
_TYPE_WITHIN = 200
"""Bytes from the start of a record that hold its type."""
_PLAIN = lazy_regex(r"[a-z0-9_.-]+")
NAME = "scratchpad.json"
_MOST_CHARACTERS = 32_000
"""Of one value, so that it fits into one result."""
_MOST_BYTES = 256 * 1024
_MOST_KEYS = 200
_LARGEST_FILE = 2 * 1024 * 1024
"""Bytes; JSON may write one byte as six."""


class SessionMemory:
    """The Memory of one workspace: prompts, answers and commands, without tool results and
    codeagent's own notes."""

    def __init__(
        self,
        store: SessionStore,
        workspace: Path,
        redactor: Redactor,
        *,
        without: str | None = None,
        seconds: float = _SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`without` is the id of the current session; `clock` is monotonic, in seconds."""
        self._store = store
        self._workspace = str(workspace)
        self._redactor = redactor
        self._without = without
        self._seconds = seconds
        self._clock = clock

    def search(self, words: tuple[str, ...], limit: int) -> Found:
        folded = tuple(word.casefold() for word in words if word.strip())
        end = self._clock() + self._seconds
        hits: list[Hit] = []
        sessions = 0
        for session_id in self._store.last_written_first():
            if session_id == self._without:
                continue
            if len(hits) > limit or self._clock() > end:
                return Found(tuple(hits[:limit]), sessions, False)
            if not self._store.is_of(session_id, self._workspace):
                continue
            path = self._store.folder(session_id) / LOG
            sessions += 1
            hits += self._search_log(path, session_id, folded, limit + 1 - len(hits), end)
        return Found(tuple(hits[:limit]), sessions, len(hits) <= limit and self._clock() <= end)

    def _search_log(
        self, path: Path, session_id: str, words: tuple[str, ...], limit: int, end: float
    ) -> list[Hit]:
        """Return the newest hits of one log, the newest first."""
        newest: deque[Hit] = deque(maxlen=limit)
        rough = tuple(word.encode() for word in words if _PLAIN.fullmatch(word))
        try:
            with path.open("rb") as file:
                for count, line in enumerate(file):
                    if count % 1024 == 0 and self._clock() > end:
                        break
                    if (
                        _may_match(line, rough)
                        and (hit := self._hit(line, session_id, words)) is not None
                    ):
                        newest.append(hit)
        except OSError:
            pass  # it was removed, or cannot be read: what was found so far counts
        return list(reversed(newest))

    def _hit(self, line: bytes, session_id: str, words: tuple[str, ...]) -> Hit | None:
        body = unseal(line.rstrip(b"\n"))
        try:
            event: Any = json.loads(body or b"")
            said = list(_said(event))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        for what, text in said:
            folded = text.casefold()
            if all(word in folded for word in words):
                first = min(folded.index(word) for word in words) if words else 0
                start = max(0, first - _BEFORE)
                piece = self._redactor.clean(text[start : start + 4 * _SNIPPET])
                snippet = one_line(("…" if start else "") + piece, _SNIPPET)
                return Hit(session_id, float(event["ts"]), what, snippet)
        return None


def _may_match(line: bytes, rough: tuple[bytes, ...]) -> bool:
    """Check the bytes cheaply: the type is near the beginning, and ASCII words stand as they
    are."""
    if len(line) > _LONGEST_RECORD or not any(kind in line[:_TYPE_WITHIN] for kind in _KINDS):
        return False
    lowered = line.lower()
    return all(word in lowered for word in rough)


def _said(event: Any) -> Iterator[tuple[Literal["prompt", "answer", "command"], str]]:
    if event["type"] == "tool.started":
        command = event["arguments"].get("command")
        if isinstance(command, str):
            yield "command", command
        return
    message = event["message"]
    if message["role"] == "assistant":
        yield "answer", message["text"]
    elif message["role"] == "user" and message["source"] != "note":
        yield (
            "prompt",
            "\n".join(part["text"] for part in message["content"] if part["type"] == "text"),
        )


class _Pages(BaseModel):
    """The file's content."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    v: Literal[1] = 1
    notes: dict[str, str] = Field(default_factory=dict)


class ScratchpadFile:
    """The Scratchpad of `core.ports`; every call reads the file again, so that two sessions may
    share it."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path = path
        self._redactor = redactor

    def get(self, key: str) -> str | None:
        return self._read().get(self._plain(key))

    def set(self, key: str, value: str) -> None:
        with self._changing() as notes:
            self._put(notes, key, self._plain(value))

    def append(self, key: str, value: str) -> None:
        with self._changing() as notes:
            before = notes.get(self._plain(key), "")
            gap = "\n" if before and not before.endswith("\n") else ""
            self._put(notes, key, self._plain(f"{before}{gap}{value}"))

    def delete(self, key: str) -> bool:
        with self._changing() as notes:
            return notes.pop(self._plain(key), None) is not None

    def list(self) -> tuple[Note, ...]:
        return tuple(Note(key, len(value)) for key, value in sorted(self._read().items()))

    def _put(self, notes: dict[str, str], key: str, value: str) -> None:
        """Raises ScratchpadFull."""
        key = self._plain(key)
        if len(value) > _MOST_CHARACTERS:
            raise ScratchpadFull(
                f"{key!r} would have {len(value)} characters; a value has at most {_MOST_CHARACTERS}"
            )
        notes[key] = value
        if len(notes) > _MOST_KEYS:
            raise ScratchpadFull(f"it holds {_MOST_KEYS} keys, and no more fit; delete some")
        size = sum(_bytes(one) + _bytes(text) for one, text in notes.items())
        if size > _MOST_BYTES:
            largest = sorted(notes, key=lambda one: _bytes(notes[one]), reverse=True)[:3]
            raise ScratchpadFull(
                f"it would have {size} bytes and holds {_MOST_BYTES}; delete something, the largest are "
                + ", ".join(f"{one!r} ({_bytes(notes[one])})" for one in largest)
            )

    def _plain(self, text: str) -> str:
        """Mask secrets, and replace lone surrogates, which UTF-8 cannot hold."""
        return self._redactor.clean(text).encode("utf-8", "replace").decode()

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Yield the notes to change; they are written at the end if they differ. Raises
        SessionError."""
        with changing(self._path):
            before = self._read()
            notes = dict(before)
            yield notes
            if notes != before:
                replace_private(self._path, _Pages(notes=notes).model_dump_json().encode())

    def _read(self) -> dict[str, str]:
        try:
            raw = read_small(self._path, _LARGEST_FILE)
        except UnsafeFile as error:
            raise SessionError(f"{error}; nothing was changed") from error
        if raw is None:
            return {}
        from pydantic import ValidationError  # few sessions have notes

        try:
            return dict(_Pages.model_validate_json(raw).notes)
        except ValidationError as error:
            raise SessionError(
                f"{self._path} is damaged; nothing was changed: repair or remove it"
            ) from error


def project_scratchpad(state_dir: Path, workspace: Path, redactor: Redactor) -> ScratchpadFile:
    """Return the scratchpad that all sessions of a workspace share, by its path and inode. Raises
    OSError."""
    status = workspace.stat()
    identity = f"{workspace}\0{status.st_dev}\0{status.st_ino}".encode("utf-8", "surrogateescape")
    return ScratchpadFile(
        state_dir / "projects" / hashlib.sha256(identity).hexdigest()[:32] / NAME, redactor
    )


def _bytes(text: str) -> int:
    return len(text.encode())
