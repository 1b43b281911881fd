"""What is done with whole sessions: copying one up to a prompt, and removing old ones."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SessionError
from codeagent.core.events import MessageAdded, Notice, RunStarted
from codeagent.core.messages import UserMessage
from codeagent.core.notices import AgentStarted
from codeagent.core.runtime import SessionSummary
from codeagent.disk.private import make_private_folder
from codeagent.session.listing import bytes_below
from codeagent.session.lock import SessionLock
from codeagent.session.log import FIRST, checksum_of, opened, seal
from codeagent.session.memory import NAME
from codeagent.session.store import LOCK, LOG, SessionStore

_REMOVED = ".removed-"
"""Begins the name of a folder that is being removed: no session."""


@dataclass(frozen=True)
class PruneRule:
    """Which sessions to remove: those to which any of the three applies."""

    older_than: float | None = None
    """Seconds since the last write."""
    keep: int | None = None
    """All but so many, the last written ones."""
    max_bytes: int | None = None
    """The oldest, until the others together have at most so many bytes."""

    def is_for(self, age: float, place: int, total: int) -> bool:
        """Judge a session by its age, its place (from 0, the newest first) and the bytes up to and
        including it."""
        return (
            (self.older_than is not None and age > self.older_than)
            or (self.keep is not None and place >= self.keep)
            or (self.max_bytes is not None and total > self.max_bytes)
        )


@dataclass(frozen=True)
class Prunable:
    summary: SessionSummary
    size: int
    """Bytes of everything it holds."""


def prunable(store: SessionStore, rule: PruneRule, now: float) -> Iterator[Prunable]:
    """Yield the sessions that the rule is for, the last written first; `now` in seconds since the
    epoch."""
    total = 0
    for place, summary in enumerate(store.summaries()):
        size = None if rule.max_bytes is None else bytes_below(store.folder(summary.id))
        total += size or 0
        if rule.is_for(now - summary.modified, place, total):
            yield Prunable(summary, bytes_below(store.folder(summary.id)) if size is None else size)


def remove(store: SessionStore, session_id: str) -> None:
    """Remove a session with all it holds. Raises SessionInUse, SessionError."""
    folder = store.folder(session_id)
    lock = SessionLock(folder / LOCK)
    lock.acquire()
    aside = folder.with_name(f"{_REMOVED}{session_id}")
    try:
        folder.rename(aside)
    except OSError as error:
        raise SessionError(f"session {session_id} cannot be removed ({error.strerror})") from error
    finally:
        lock.release()
    shutil.rmtree(aside, ignore_errors=True)


def clear_leftovers(store: SessionStore) -> None:
    """Remove what a removal that was cut short left behind."""
    with suppress(OSError):
        for entry in store.root.glob(f"{_REMOVED}*"):
            shutil.rmtree(entry, ignore_errors=True)


def fork(store: SessionStore, session_id: str, before: int | None = None) -> str:
    """Copy a session into a new one and return its id; `before` leaves out that prompt (from 1) and
    what followed it.

    What tools printed, the notes, and the sessions of its children come along; the files of the
    workspace stay as they are. The old session is only read, and may be in use. Raises
    SessionNotFound, SessionError.
    """
    end = None if before is None else _begin_of(store, session_id, before)
    children = _begun_children(store, session_id, end)
    log = store.create()
    log.close()
    source, target = store.folder(session_id), store.folder(log.session_id)
    try:
        with (target / LOG).open("wb") as file:
            for line in _copied(source / LOG, session_id, log.session_id, end):
                file.write(line)
        if (source / "outputs").is_dir():
            shutil.copytree(source / "outputs", target / "outputs", symlinks=True)
        if (source / NAME).is_file():
            shutil.copy2(source / NAME, target / NAME)
        for child in children:
            _copy_child(store, child, session_id, log.session_id)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise SessionError(
            f"session {session_id} cannot be copied ({error.strerror}); nothing was kept"
        ) from error
    _tell_origin(store, log.session_id, session_id, before, len(children))
    return log.session_id


def _begin_of(store: SessionStore, session_id: str, prompt: int) -> int:
    """Return the number of the event with which the run of a prompt began. Raises SessionError."""
    begin, count = 0, 0
    for event in store.read(session_id).events:
        match event:
            case RunStarted():
                begin = event.seq
            case MessageAdded(message=UserMessage(source="prompt")):
                count += 1
                if count == prompt:
                    return begin or event.seq
            case _:
                pass
    raise SessionError(
        f"session {session_id} has {count} prompts, not {prompt}; nothing was copied"
    )


def _begun_children(store: SessionStore, session_id: str, end: int | None) -> list[str]:
    """Return the sessions of the children that began before the event `end`. Raises
    SessionError."""
    there = set(store.children(session_id))
    if not there:
        return []
    started = (event for event in store.read(session_id).events if isinstance(event, AgentStarted))
    begun = (event.child_session for event in started if end is None or event.seq < end)
    return [child for child in begun if child in there]


def _copy_child(store: SessionStore, child: str, old: str, new: str) -> None:
    """Raises OSError."""
    source, target = store.folder(child), store.folder(f"{new}{child.removeprefix(old)}")
    make_private_folder(target.parent)
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(LOG, LOCK))
    with (target / LOG).open("wb") as file:
        file.writelines(_copied(source / LOG, old, new, None))


def _copied(path: Path, old: str, new: str, end: int | None) -> Iterator[bytes]:
    """Yield the sound lines before the event `end`, as those of the new session; damaged ones are
    left out."""
    before, named = (
        FIRST,
        re.compile(rf'("(?:session|parent_session|child_session)":"){old}(?=[".])'.encode()),
    )
    becomes = rf"\g<1>{new}".encode()
    with path.open("rb") as file:
        for raw in file:
            if (found := opened(raw.rstrip(b"\n"))) is None:
                continue
            if end is not None and json.loads(found[0]).get("seq", 0) >= end:
                return
            line = seal(named.sub(becomes, found[0]).decode(), before)
            before = checksum_of(line[:-1])
            yield line


def _tell_origin(
    store: SessionStore, session_id: str, origin: str, before: int | None, children: int
) -> None:
    log, _ = store.open(session_id)
    where = "" if before is None else f" before its prompt {before}"
    family = f", with the sessions of {children} agents that it started" if children else ""
    text = f"copied from session {origin}{where}{family}; the files are as they are now"
    notice = Notice(code="session.forked", text=text, data={"from": origin})
    log.append(replace(notice, seq=log.next_seq, ts=round(time.time(), 3), session=session_id))
    log.close()
