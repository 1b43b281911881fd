"""Opening a session's log: a new one, or one that goes on."""

import asyncio
import time
from contextlib import AsyncExitStack

from codeagent.agent.agent import Past
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.ports import Workspace
from codeagent.core.runtime import Queued
from codeagent.session.history import History, fold
from codeagent.session.log import SessionLog
from codeagent.session.resume import closing_events
from codeagent.session.store import SessionStore


def past_of(history: History) -> Past:
    queued = tuple(Queued(item.id, item.kind, item.text) for item in history.undelivered)
    return Past(
        line=history.line,
        call_ids=history.call_ids,
        moments=history.moments,
        queued=queued,
        notes=history.notes,
        jobs=history.jobs,
    )


async def opened_session(
    store: SessionStore, resume: str | None, workspace: Workspace, stack: AsyncExitStack
) -> tuple[SessionLog, History]:
    """The session and what it holds; the stack closes it, also where nobody waits for it any more."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open_session, store, resume, workspace))

    async def close() -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            log = opening.result()[0]
            log.close()
            store.discard_if_empty(log.session_id)

    stack.push_async_callback(close)
    return await asyncio.shield(opening)


def _open_session(store: SessionStore, resume: str | None, workspace: Workspace) -> tuple[SessionLog, History]:
    """Raises SessionError, or ConfigError where the session belongs to another workspace."""
    if resume is None:
        return store.create(), fold(())
    log, recording = store.open(store.find(resume))
    try:
        _refuse_other_workspace(recording.events, workspace, log.session_id)
        closing = closing_events(recording.events, log.session_id, log.next_seq, round(time.time(), 3))
        for event in closing:
            log.append(event)
        return log, fold((*recording.events, *closing))
    except BaseException:
        log.close()
        raise


def _refuse_other_workspace(
    events: tuple[KnownEvent | UnknownEvent, ...], workspace: Workspace, session_id: str
) -> None:
    there = next((event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None)
    if there is not None and there != str(workspace.root):
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )
