"""The requests in the session logs, each once; an index keeps those of logs that have not changed."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from codeagent.core.errors import SessionError
from codeagent.core.events import (
    AsideAnswered,
    KnownEvent,
    Notice,
    RunStarted,
    TurnFinished,
    UnknownEvent,
)
from codeagent.core.messages import Usage
from codeagent.core.notices import ModelChanged, ModelFellBack, SummaryWritten
from codeagent.session.listing import SessionCache
from codeagent.session.store import LOG, SessionStore

_INDEX = "usage-index.json"
_VERSION = 2
"""The version of the index's rows. Those of another one count other events, so they are made again."""
_KINDS = frozenset({"run.started", "turn.finished", "aside.answered", "notice"})
_NANO = 10**9
_TYPES = (str, int, float, str, int, int, int, int | None)
"""Of a request's fields in the index."""


class SpentRequest(NamedTuple):
    """What one request to a model took."""

    origin: str
    """The session, or the child's session, whose log had it first."""
    seq: int
    """The number of its event there."""
    at: float
    """Seconds since the epoch."""
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    nanodollars: int | None
    """Billionths of a dollar, so that a cost is rounded once and sums are exact; None if no price
    is known."""


class SpentSession(NamedTuple):
    """The requests of a session and its children."""

    workspace: str
    requests: tuple[SpentRequest, ...]


def spent(store: SessionStore, ids: Iterable[str], since: float = 0.0) -> Iterator[SpentSession]:
    """Yield what each session spent since then; a request that a fork copied counts once, for the
    original. Reads only logs that have changed since the last time. Blocks."""
    index, seen = SessionCache(store.root.parent / _INDEX), set[tuple[str, int]]()
    for session_id in ids:
        logs = [session_id, *store.children(session_id)]
        stamp = _stamp(store, logs)
        if max((at for _, at in stamp), default=0) < since * _NANO:
            continue
        session = _known(index.get(session_id), stamp)
        if session is None:
            try:
                session = _read(store, logs)
            except SessionError:
                continue
            index.put(session_id, [stamp, *session])
        new = [one for one in session.requests if one.at >= since and one[:2] not in seen]
        seen.update(one[:2] for one in new)
        yield SpentSession(session.workspace, tuple(new))
    index.save(set(store.ids()))


def _known(row: Any, stamp: list[list[int]]) -> SpentSession | None:
    """Return the index's row of a session; None if its logs have changed, or the row is damaged."""
    with suppress(TypeError, LookupError, ValueError):
        kept, workspace, requests = row
        fits = all(
            isinstance(value, kind)
            for one in requests
            for value, kind in zip(one, _TYPES, strict=True)
        )
        if kept == stamp and fits:
            return SpentSession(workspace, tuple(SpentRequest(*one) for one in requests))
    return None


def _stamp(store: SessionStore, logs: Sequence[str]) -> list[list[int]]:
    stamp = [[_VERSION, 0]]
    for log in logs:
        with suppress(OSError):
            status = (store.folder(log) / LOG).stat()
            stamp.append([status.st_size, status.st_mtime_ns])
    return stamp


def _read(store: SessionStore, logs: Sequence[str]) -> SpentSession:
    """Read the requests of a session and its children. Raises SessionError."""
    session_id, *children = logs
    events = list(store.read_only(session_id, _KINDS))
    forks = [
        (event.seq, event.ts, str(event.data.get("from", session_id)))
        for event in events
        if isinstance(event, Notice) and event.code == "session.forked"
    ]
    requests = [
        one._replace(origin=next((origin for seq, _, origin in forks if one.seq < seq), session_id))
        for one in _requests(events)
    ]
    for child in children:
        below = list(store.read_only(child, _KINDS))
        begun = below[0].ts if below else 0.0
        origin = next((origin for _, at, origin in forks if begun < at), session_id)
        own = origin + child.removeprefix(session_id)
        requests += [one._replace(origin=own) for one in _requests(below)]
    workspace = next((event.workspace for event in events if isinstance(event, RunStarted)), "")
    return SpentSession(workspace, tuple(requests))


def _requests(events: Iterable[KnownEvent | UnknownEvent]) -> Iterator[SpentRequest]:
    model = ""
    for event in events:
        match event:
            case RunStarted() | ModelChanged() | ModelFellBack():
                model = event.model
            case TurnFinished() | SummaryWritten() | AsideAnswered():
                yield _request(event.seq, event.ts, model, event.usage)
            case _:
                pass


def _request(seq: int, at: float, model: str, usage: Usage) -> SpentRequest:
    return SpentRequest(
        origin="",
        seq=seq,
        at=at,
        model=model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        nanodollars=None if usage.cost_usd is None else round(usage.cost_usd * _NANO),
    )
