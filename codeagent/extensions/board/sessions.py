"""What the board shows of each session, read from its log."""

import os
import signal
import time
from collections.abc import Iterable
from itertools import chain
from typing import Literal

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.audit import gather_stats
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SessionError, SessionInUse
from codeagent.core.events import KnownEvent, RunFinished, RunStarted, ToolStarted, UnknownEvent
from codeagent.core.json_types import MAIN
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.notices import RunPaused, RunResumed
from codeagent.core.runtime import SessionSummary
from codeagent.core.sanitize import one_line
from codeagent.session.store import SessionStore

State = Literal["waiting for you", "working", "done", "failed", "stopped", "new"]
SIGNS: dict[State, str] = {
    "waiting for you": "?",
    "working": "●",
    "done": "✓",
    "failed": "✗",
    "stopped": "■",
    "new": "·",
}
NOT_RUNNING = "no process is working on this session"
_EMPHASIS = lazy_regex(r"(?<!\w)(\*\*|`)(?=\S)(.+?)(?<=\S)\1(?!\w)")
_MOST = 40
"""How many of the latest sessions are shown, besides those in use."""
_COUNTED = frozenset({"turn.finished", "aside.answered", "notice"})
_KINDS = _COUNTED | {
    "run.started",
    "run.finished",
    "approval.requested",
    "approval.resolved",
    "tool.started",
}


@dataclass(frozen=True)
class BoardRow:
    """One session."""

    id: str
    state: State
    title: str
    folder: str
    cost_usd: float
    modified: float
    """When its log was last written, in seconds since the epoch."""
    last: str
    """What it last did, on one line."""
    in_use: bool

    @property
    def age(self) -> str:
        """How long ago its log was written, in two or three characters."""
        seconds = max(0.0, time.time() - self.modified)
        for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
            if seconds >= length:
                return f"{seconds // length:.0f}{unit}"
        return "now"


class SessionBoard:
    """Reads the sessions; a log that has not changed is not read again. Blocks."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: dict[SessionSummary, BoardRow] = {}

    def rows(self, folders: Iterable[str] = ()) -> tuple[BoardRow, ...]:
        """Return the sessions of these folders, or of all: those in use first, and in each part
        those that wait for the user first."""
        wanted = frozenset(folders)
        listed = [
            each for each in self._store.summaries() if not wanted or each.workspace in wanted
        ]
        shown = [each for at, each in enumerate(listed) if at < _MOST or each.in_use]
        self._known = {each: self._known.get(each) or self._row(each) for each in shown}
        order = list(SIGNS)
        return tuple(
            sorted(self._known.values(), key=lambda row: (not row.in_use, order.index(row.state)))
        )

    def stop(self, session_id: str) -> str:
        """End the process of a session in an orderly way; return what was done."""
        try:
            self._store.check_free(session_id)
        except SessionInUse as error:
            return _told_to_end(error.pid)
        return NOT_RUNNING

    def _row(self, summary: SessionSummary) -> BoardRow:
        try:
            own = list(self._store.read_only(summary.id, _KINDS))
            below = [
                self._store.read_only(child, _COUNTED) for child in self._store.children(summary.id)
            ]
            cost = gather_stats(chain(own, *below)).usage.cost_usd or 0.0
        except SessionError:
            own, cost = [], 0.0
        state, last = _state(own, in_use=summary.in_use)
        return BoardRow(
            id=summary.id,
            state=state,
            title=one_line(summary.name, 80) or "(nothing said)",
            folder=summary.workspace,
            cost_usd=cost,
            modified=summary.modified,
            last=last,
            in_use=summary.in_use,
        )


def _told_to_end(pid: int | None) -> str:
    if pid is None:
        return "nothing was ended: its process is not known"
    if pid == os.getpid():
        return "this is the session on screen: leave it to end it"
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return NOT_RUNNING
    except PermissionError:
        return f"nothing was ended: process {pid} belongs to another user"
    return f"process {pid} was told to end; the session can be resumed"


def _state(events: Iterable[KnownEvent | UnknownEvent], *, in_use: bool) -> tuple[State, str]:
    """Return the state of a session, and what it last did."""
    state: State = "new"
    last, asked, paused = "", set[str](), False
    for event in events:
        match event:
            case RunStarted(agent=agent) if agent == MAIN:
                state, paused = "working", False
                asked.clear()
            case RunFinished(agent=agent, reason=reason) if agent == MAIN:
                state = reason if reason in ("done", "failed") else "stopped"
                last = one_line(_EMPHASIS.sub(r"\2", event.error or event.text), 120)
            case ApprovalRequested():
                asked.add(event.approval_id)
                last = f"asks about {one_line(event.name, 40)} {one_line(event.target, 80)}"
            case ApprovalResolved():
                asked.discard(event.approval_id)
            case RunPaused():
                paused = True
            case RunResumed():
                paused = False
            case ToolStarted():
                last = f"{one_line(event.name, 40)} {one_line(event.target, 80)}"
            case _:
                pass
    if state != "working":
        return state, last
    if not in_use:
        return "stopped", last
    return ("waiting for you" if asked or paused else state), last
