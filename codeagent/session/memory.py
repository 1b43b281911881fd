"""Searching what was said in earlier sessions: a plain look through their logs, the newest first, within a bound."""

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from codeagent.core.memory import Found, Hit
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line
from codeagent.session.records import unseal
from codeagent.session.store import LOG, SessionStore

_SECONDS = 2.0
_LONGEST_RECORD = 1 << 20
"""Longer ones hold no prompt, answer or command that somebody would look for."""
_BEFORE, _SNIPPET = 60, 240
_KINDS = (b'"type":"message.added"', b'"type":"tool.started"')
_TYPE_WITHIN = 200
"""Bytes of a record within which its type stands."""
_PLAIN = re.compile(r"[a-z0-9_.-]+")


class SessionMemory:
    """The Memory of one workspace. Results of tools, and notes that codeagent made, are not looked through."""

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
        """`without` is the present session's id; `clock` gives seconds that never go back."""
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
            if len(hits) >= limit or self._clock() > end:
                return Found(tuple(hits[:limit]), sessions, False)
            if not self._store.is_of(session_id, self._workspace):
                continue
            path = self._store.folder(session_id) / LOG
            sessions += 1
            hits += self._search_log(path, session_id, folded, limit - len(hits), end)
        return Found(tuple(hits[:limit]), sessions, self._clock() <= end)

    def _search_log(self, path: Path, session_id: str, words: tuple[str, ...], limit: int, end: float) -> list[Hit]:
        """The newest of this log's hits, the newest first."""
        newest: deque[Hit] = deque(maxlen=limit)
        rough = tuple(word.encode() for word in words if _PLAIN.fullmatch(word))
        try:
            with path.open("rb") as file:
                for count, line in enumerate(file):
                    if count % 1024 == 0 and self._clock() > end:
                        break
                    if _may_match(line, rough) and (hit := self._hit(line, session_id, words)) is not None:
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
    """A cheap look at the bytes: the type stands near the beginning, and words of ASCII as they are."""
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
        yield "prompt", "\n".join(part["text"] for part in message["content"] if part["type"] == "text")
