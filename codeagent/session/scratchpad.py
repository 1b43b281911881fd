"""The scratchpad on disk: one small private file for a session, and one for a workspace."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from codeagent.core.errors import SessionError
from codeagent.core.redact import Redactor
from codeagent.core.scratchpad import Note, ScratchpadFull
from codeagent.disk.locks import locked
from codeagent.disk.private import UnsafeFile, read_small, replace_private

NAME = "scratchpad.json"
_MOST_CHARACTERS = 32_000
"""Of one value: it can be given back in one result."""
_MOST_BYTES = 256 * 1024
_MOST_KEYS = 200
_LARGEST_FILE = 2 * 1024 * 1024
"""JSON may write a byte as six."""


class _Pages(BaseModel):
    """The file's content."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    v: Literal[1] = 1
    notes: dict[str, str] = {}  # pydantic copies it


class ScratchpadFile:
    """The Scratchpad of `core.scratchpad`; every call reads the file anew, so that two sessions may share it."""

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
            raise ScratchpadFull(f"{key!r} would have {len(value)} characters; a value has at most {_MOST_CHARACTERS}")
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
        """Secrets masked; half a character, which no file holds, is a question mark."""
        return self._redactor.clean(text).encode("utf-8", "replace").decode()

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """The notes, to be changed; written where they are others at the end. Raises SessionError."""
        try:
            with locked(self._path.with_name(f"{self._path.name}.lock")):
                before = self._read()
                notes = dict(before)
                yield notes
                if notes != before:
                    replace_private(self._path, _Pages(notes=notes).model_dump_json().encode())
        except OSError as error:
            raise SessionError(f"{self._path} cannot be changed ({error.strerror}); nothing was changed") from error

    def _read(self) -> dict[str, str]:
        try:
            raw = read_small(self._path, _LARGEST_FILE)
            return {} if raw is None else dict(_Pages.model_validate_json(raw).notes)
        except UnsafeFile as error:
            raise SessionError(f"{error}; nothing was changed") from error
        except ValidationError as error:
            raise SessionError(f"{self._path} is damaged; nothing was changed: repair or remove it") from error


def project_scratchpad(state_dir: Path, workspace: Path, redactor: Redactor) -> ScratchpadFile:
    """The one that all sessions of a workspace share; another folder at its path has another. Raises OSError."""
    status = workspace.stat()
    identity = f"{workspace}\0{status.st_dev}\0{status.st_ino}".encode("utf-8", "surrogateescape")
    return ScratchpadFile(state_dir / "projects" / hashlib.sha256(identity).hexdigest()[:32] / NAME, redactor)


def _bytes(text: str) -> int:
    return len(text.encode())
