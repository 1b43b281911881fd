"""The folder of sessions: one folder each, with its log, the lock of its one writer, and its long
outputs."""

import asyncio
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SessionError, SessionNotFound
from codeagent.core.event_json import on_one_line
from codeagent.core.events import KnownEvent, MessageAdded, RunStarted, UnknownEvent
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notices import AgentStarted
from codeagent.core.ports import Workspace
from codeagent.core.redact import Redactor
from codeagent.core.runtime import SessionSummary
from codeagent.disk.opens import closing_fd, may_exist, open_folder
from codeagent.disk.private import make_private_folder
from codeagent.session.fold import History, fold
from codeagent.session.lock import SessionLock, check_free, is_locked
from codeagent.session.log import SessionLog
from codeagent.session.recording import (
    LogReader,
    Recording,
    read_end,
    read_head,
    read_kinds,
    read_recording,
    reader_of,
    without_collecting,
)

if TYPE_CHECKING:
    from codeagent.session.listing import Beginning, SessionTitles

LOG = "events.jsonl"
LOCK = "lock"
_ID = lazy_regex(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
_CHILDREN = "agents"
"""The folder in a session's own that holds the sessions of its children, a folder for each number
from 1."""
_CHILD = lazy_regex(rf"(?P<parent>{_ID.pattern})\.(?P<number>[1-9][0-9]{{0,5}})")
_HEAD = _END = 256 * 1024
"""Bytes at the start of a log that say how the session began, and at its end that fill more than a
screen."""
_FIRST_RUN = 64 * 1024
"""Bytes of a log that hold its first `run.started`."""


class SessionStore:
    """Sessions below `<state_dir>/sessions`; folders are 0700 and files 0600."""

    def __init__(self, state_dir: Path, redactor: Redactor) -> None:
        self._root = state_dir / "sessions"
        self._redactor = redactor

    @property
    def root(self) -> Path:
        return self._root

    def folder(self, session_id: str) -> Path:
        child = _CHILD.fullmatch(session_id)
        return self._root / (
            f"{child['parent']}/{_CHILDREN}/{child['number']}" if child else session_id
        )

    def create(self) -> SessionLog:
        """Create a session, held by this process. Raises SessionError."""
        started = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        session_id = f"{started}-{secrets.token_hex(4)}"
        try:
            for folder in (self._root.parent, self._root, self.folder(session_id)):
                _make_private(folder)
            return self._hold(session_id)[0]
        except OSError as error:
            raise SessionError(
                f"no session can be kept in {self._root} ({error.strerror}); nothing was run: "
                "make it writable, or set XDG_STATE_HOME to a folder that is"
            ) from error

    def create_child(self, parent: str) -> SessionLog:
        """Create the next session below this one, `PARENT.1` and so on, which lists leave out.
        Raises SessionError."""
        below = self.folder(parent) / _CHILDREN
        try:
            _make_private(below)
            number = max(
                (int(entry.name) for entry in below.iterdir() if entry.name.isdigit()), default=0
            )
            while True:
                number += 1
                with suppress(FileExistsError):  # another child took the number just now
                    (below / str(number)).mkdir(mode=0o700)
                    return self._hold(f"{parent}.{number}")[0]
        except OSError as error:
            raise SessionError(f"no session can be kept in {below} ({error.strerror})") from error

    def children(self, session_id: str) -> list[str]:
        """Return the sessions of its children, in the order they began."""
        below = self.folder(session_id) / _CHILDREN
        names = (entry.name for entry in below.iterdir()) if below.is_dir() else ()
        numbers = sorted(int(name) for name in names if name.isdigit())
        return [one for number in numbers if self._is_session(one := f"{session_id}.{number}")]

    def open(self, session_id: str) -> tuple[SessionLog, Recording]:
        """Resume a session: its log is repaired, then held. Raises SessionNotFound, SessionInUse,
        SessionError.

        The session of a child ended with the call that started it, and cannot be resumed.
        """
        self._require(session_id)
        if child := _CHILD.fullmatch(session_id):
            raise SessionError(
                f"{session_id} is the session of an agent that {child['parent']} started; resume that"
            )
        try:
            return self._hold(session_id)
        except OSError as error:
            text = f"session {session_id} cannot be opened ({error.strerror}); nothing was changed"
            raise SessionError(text) from error
        finally:
            reader_of.cache_clear()  # whoever shows it has read it by now, and a long log takes much memory

    def close_children(self, session_id: str, now: float) -> None:
        """Close what a killed process left open in the logs of the children; one that cannot be
        written stays as it is.

        `now` in seconds since the epoch.
        """
        from codeagent.session.repair import closing_events  # only after an end in the middle

        for child in self.children(session_id):
            with suppress(SessionError, OSError):
                log, recording = self._hold(child)
                for event in closing_events(recording.events, child, log.next_seq, now):
                    log.append(event)
                log.close()

    def discard_if_empty(self, session_id: str) -> None:
        """Remove a session in which nothing happened; its log must be closed."""
        folder = self.folder(session_id)
        try:
            if (folder / LOG).stat().st_size == 0:
                for name in (LOG, LOCK):
                    (folder / name).unlink(missing_ok=True)
                folder.rmdir()
        except OSError:
            return

    def read(self, session_id: str) -> Recording:
        """Read what a session holds, even while it is in use; changes nothing. Raises
        SessionNotFound, SessionError.

        Reading it again, or opening it, parses only what was added since.
        """
        self._require(session_id)
        with _reading(session_id):
            return read_recording(self.folder(session_id) / LOG)

    def read_end(self, session_id: str) -> list[KnownEvent | UnknownEvent]:
        """Return the last events of a session, without reading the others. Raises SessionNotFound,
        SessionError."""
        self._require(session_id)
        with _reading(session_id):
            return read_end(self.folder(session_id) / LOG, _END)

    def read_after(self, session_id: str, number: int) -> tuple[KnownEvent | UnknownEvent, ...]:
        """Return the sound events after the one of that number. Raises SessionNotFound,
        SessionError."""
        end = self.read_end(session_id) if number else []
        if not end or end[0].seq > number:
            return tuple(event for event in self.read(session_id).events if event.seq > number)
        return tuple(event for event in end if event.seq > number)

    def with_children(
        self, events: Iterable[KnownEvent | UnknownEvent]
    ) -> Iterator[KnownEvent | UnknownEvent]:
        """Yield the events, and those of each child whose log can be read behind the one that says
        that it began."""
        for event in events:
            yield event
            if isinstance(event, AgentStarted) and event.session == event.parent_session:
                with suppress(SessionError, OSError):
                    self._require(event.child_session)
                    # Not by `read`, which would forget what it has parsed of the parent.
                    yield from LogReader(self.folder(event.child_session) / LOG).read().events

    def find(self, prefix: str) -> str:
        """Return the only session whose id begins with `prefix`, or the child with exactly this id.

        Raises SessionNotFound.
        """
        if _CHILD.fullmatch(prefix) and self._is_session(prefix):
            return prefix
        matches = (
            [session_id for session_id in self.ids() if session_id.startswith(prefix)]
            if prefix
            else []
        )
        if len(matches) == 1:
            return matches[0]
        if not matches:
            raise SessionNotFound(f"unknown session {prefix!r}; see: codeagent sessions list")
        some = ", ".join(matches[:5])
        raise SessionNotFound(
            f"{len(matches)} sessions begin with {prefix!r}: {some}; give more of it"
        )

    def last(self, *folders: str) -> str:
        """Return the session written to last, in one of `folders` if given. Raises
        SessionNotFound."""
        for session_id in self.last_written_first():
            if not folders or any(self.is_of(session_id, folder) for folder in folders):
                return session_id
        where = f" of {folders[0]}" if folders else ""
        raise SessionNotFound(f"no session{where} yet; codeagent run PROMPT makes one")

    def summaries(self) -> list[SessionSummary]:
        """Describe every session, the one written to last first."""
        from codeagent.session.listing import Beginning, SessionCache  # a run lists nothing

        titles = self.titles.all()
        known = SessionCache(self._root.parent / "session-beginnings.json")
        found = []
        for session_id, log, locked in self._statuses():
            if (beginning := Beginning.of(known.get(session_id))) is None:
                beginning = self._beginning(session_id)
                if beginning.is_final:
                    known.put(session_id, list(astuple(beginning)))
            title = titles.get(session_id, "")
            found.append(self._summary(session_id, log, beginning, title, locked=locked))
        known.save({summary.id for summary in found})
        return sorted(found, key=lambda summary: (summary.modified, summary.id), reverse=True)

    def summary(self, session_id: str) -> SessionSummary:
        """Describe one session. Raises SessionNotFound, SessionError."""
        self._require(session_id)
        with _reading(session_id):
            log = self._stat(session_id)
        title = self.titles.all().get(session_id, "")
        return self._summary(session_id, log, self._beginning(session_id), title, locked=True)

    def _summary(
        self,
        session_id: str,
        log: os.stat_result,
        beginning: "Beginning",
        title: str,
        *,
        locked: bool,
    ) -> SessionSummary:
        """`locked`: whether the lock names a holder."""
        in_use = locked and is_locked(self.folder(session_id) / LOCK)
        facts = (log.st_mtime, log.st_size, beginning.workspace, beginning.model, beginning.prompt)
        return SessionSummary(session_id, *facts, in_use, title)

    @property
    def titles(self) -> "SessionTitles":
        from codeagent.session.listing import SessionTitles  # as above

        return SessionTitles(self._root.parent / "session-titles.json")

    def check_free(self, session_id: str) -> None:
        """Raise SessionInUse if a process works on it."""
        check_free(self.folder(session_id) / LOCK)

    def folder_of(self, session_id: str, here: Path, *, named: bool = False) -> Path:
        """Return the folder a session works in; `here` if that is the same, or if it has not run
        anywhere yet.

        If the folder is gone, that is `here` if the user `named` it. Raises SessionError.
        """
        there = self._beginning(session_id).workspace
        if not there or Path(there) == here.resolve():
            return here
        if may_exist(Path(there)):
            return Path(there)
        if named:
            return here
        raise SessionError(
            f"session {session_id} belongs to {there}, which no longer exists; nothing was changed: to continue it in "
            f"another folder, name that: codeagent FOLDER --resume {session_id}, or codeagent run with --cwd FOLDER"
        )

    def is_of(self, session_id: str, workspace: str) -> bool:
        """Tell whether its first run was there, from the first bytes of the log."""
        wanted = on_one_line(f'"workspace":{json.dumps(workspace, ensure_ascii=False)},').encode(
            "utf-8", "replace"
        )
        try:
            with (self.folder(session_id) / LOG).open("rb") as file:
                return wanted in file.read(_FIRST_RUN)
        except OSError:
            return False

    def read_only(
        self, session_id: str, kinds: frozenset[str]
    ) -> Iterator[KnownEvent | UnknownEvent]:
        """Yield the sound events of these types, in the order of the log. Raises SessionError."""
        with _reading(session_id):
            yield from read_kinds(self.folder(session_id) / LOG, kinds)

    def last_written_first(self) -> list[str]:
        def written(session_id: str) -> tuple[int, str]:
            try:
                return self._stat(session_id).st_mtime_ns, session_id
            except OSError:
                return 0, session_id  # it was removed just now

        return sorted(self.ids(), key=written, reverse=True)

    def ids(self) -> list[str]:
        """Return every session, in the order they began."""
        if not self._root.is_dir():
            return []
        return sorted(entry.name for entry in self._root.iterdir() if self._is_session(entry.name))

    def _require(self, session_id: str) -> None:
        if not self._is_session(session_id):
            raise SessionNotFound(f"unknown session {session_id!r}; see: codeagent sessions list")

    def _is_session(self, name: str) -> bool:
        known = _ID.fullmatch(name) or _CHILD.fullmatch(name)
        return known is not None and (self.folder(name) / LOG).is_file()

    def _stat(self, session_id: str) -> os.stat_result:
        return (self.folder(session_id) / LOG).stat()

    def _statuses(self) -> Iterator[tuple[str, os.stat_result, bool]]:
        """Yield each session's id, its log's status, and whether its lock names a holder, quickly
        for thousands."""
        if not self._root.is_dir():
            return
        with closing_fd(open_folder(self._root, follow=True)) as root:
            with os.scandir(root) as entries:
                names = [entry.name for entry in entries if _ID.fullmatch(entry.name)]
            for name in names:
                with suppress(OSError):  # it was removed just now, or never began
                    log = os.stat(f"{name}/{LOG}", dir_fd=root)
                    yield name, log, _size(f"{name}/{LOCK}", root) > 0

    def _beginning(self, session_id: str) -> "Beginning":
        from codeagent.session.listing import Beginning  # as above

        workspace = model = prompt = ""
        for event in read_head(self.folder(session_id) / LOG, _HEAD):
            match event:
                case RunStarted() if not model:
                    workspace, model = event.workspace, event.model
                case MessageAdded(message=UserMessage() as message) if (
                    message.source != "note" and not prompt
                ):
                    prompt = text_of(message.content)
        return Beginning(workspace, model, prompt)

    def _hold(self, session_id: str) -> tuple[SessionLog, Recording]:
        path = self.folder(session_id) / LOG
        lock = SessionLock(path.parent / LOCK)
        lock.acquire()
        try:
            recording = read_recording(path) if path.exists() else Recording()
            if recording.tail:
                from codeagent.session.repair import cut_torn_tail  # most logs are whole

                cut_torn_tail(path, recording)
            log = SessionLog(
                path,
                session_id,
                next_seq=recording.next_seq,
                last=recording.last,
                redactor=self._redactor,
                release=lock.release,
            )
            return log, recording
        except BaseException:
            lock.release()
            raise


@contextmanager
def _reading(session_id: str) -> Iterator[None]:
    """Raise SessionError in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise SessionError(f"session {session_id} cannot be read ({error.strerror})") from error


def _size(path: str, root: int) -> int:
    try:
        return os.stat(path, dir_fd=root).st_size
    except OSError:
        return 0


def _make_private(folder: Path) -> None:
    make_private_folder(folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


@dataclass(frozen=True)
class OpenedSession:
    """A session that is held, and what it holds."""

    log: SessionLog
    history: History
    troubles: tuple[tuple[str, str], ...] = ()
    """Code and text of what the user should know about its log."""


async def opened_session(
    store: SessionStore,
    resume: str | None,
    workspace: Workspace,
    stack: AsyncExitStack,
    *,
    first: Callable[[], None] = lambda: None,
) -> OpenedSession:
    """Open a session; the stack closes it, even if the wait for it was cancelled.

    `first` is called in the same thread, before it.
    """

    def open_log() -> OpenedSession:
        first()
        return _open_log(store, resume, workspace)

    opening = asyncio.ensure_future(asyncio.to_thread(open_log))

    async def close() -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            log = opening.result().log
            log.close()
            store.discard_if_empty(log.session_id)

    stack.push_async_callback(close)
    return await asyncio.shield(opening)


def _open_log(store: SessionStore, resume: str | None, workspace: Workspace) -> OpenedSession:
    """Open and hold the session. Raises SessionError, or ConfigError if it belongs to another
    workspace."""
    if resume is None:
        return OpenedSession(store.create(), fold(()))
    from codeagent.session.repair import resumed  # a new log is whole

    with without_collecting():
        log, recording = store.open(store.find(resume))
        try:
            history, troubles = resumed(log, recording, workspace, store.close_children)
        except BaseException:
            log.close()
            raise
    return OpenedSession(log, history, troubles)
