"""Opening a session's log: a new one, or one that goes on."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from codeagent.agent.past import Past
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import visible
from codeagent.session.fold import History, fold
from codeagent.session.log import SessionLog
from codeagent.session.repair import check_recording, closing_events
from codeagent.session.store import SessionStore

_SHOWN = 3
"""Problems of a damaged log that are told when it is opened."""


def past_of(history: History) -> Past:
    return Past(
        line=history.line,
        call_ids=history.call_ids,
        timeline=history.timeline,
        queued=history.undelivered,
        notes=history.notes,
        jobs=history.jobs,
    )


@dataclass(frozen=True)
class Opened:
    """A session that is held, and what it holds."""

    log: SessionLog
    history: History
    troubles: tuple[tuple[str, str], ...] = ()
    """Codes and texts of the notices it begins with."""


async def opened_session(
    store: SessionStore, resume: str | None, workspace: Workspace, stack: AsyncExitStack
) -> Opened:
    """The stack closes it, also where nobody waits for it any more."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open_session, store, resume, workspace))

    async def close() -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            log = opening.result().log
            log.close()
            store.discard_if_empty(log.session_id)

    stack.push_async_callback(close)
    return await asyncio.shield(opening)


def _open_session(store: SessionStore, resume: str | None, workspace: Workspace) -> Opened:
    """Raises SessionError, or ConfigError where the session belongs to another workspace."""
    if resume is None:
        return Opened(store.create(), fold(()))
    log, recording = store.open(store.find(resume))
    try:
        _refuse_other_workspace(recording.events, workspace, log.session_id)
        closing = closing_events(recording.events, log.session_id, log.next_seq, round(time.time(), 3))
        for event in closing:
            log.append(event)
        history = fold((*recording.events, *closing))
        return Opened(log, history, _damage(check_recording(recording, history).problems, log.session_id))
    except BaseException:
        log.close()
        raise


def _damage(problems: tuple[str, ...], session_id: str) -> tuple[tuple[str, str], ...]:
    if not problems:
        return ()
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    text = (
        f"the log of this session is damaged: {'; '.join(problems[:_SHOWN])}{more}. What can be read of it goes on; "
        f"codeagent sessions check {session_id} shows all that is wrong"
    )
    return (("session.damaged", visible(text)),)


def _refuse_other_workspace(
    events: tuple[KnownEvent | UnknownEvent, ...], workspace: Workspace, session_id: str
) -> None:
    there = next((event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None)
    if there is not None and there != str(workspace.root):
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )
