"""The log of a session, new or resumed: held by this process, completed if it was cut off, and
folded."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from codeagent.app.notices import CodedText
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import visible
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History, fold
from codeagent.session.log import SessionLog
from codeagent.session.recording import Recording, without_collecting
from codeagent.session.store import SessionStore

_SHOWN = 3
"""Problems of a damaged log that are listed when it is opened."""


@dataclass(frozen=True)
class Opened:
    """A session that is held, and what it holds."""

    log: SessionLog
    history: History
    troubles: tuple[CodedText, ...] = ()


async def opened_session(
    store: SessionStore,
    resume: str | None,
    workspace: Workspace,
    stack: AsyncExitStack,
    *,
    first: Callable[[], None] = lambda: None,
) -> Opened:
    """Open a session; the stack closes it, even if the wait for it was cancelled.

    `first` is called in the same thread, before it.
    """

    def open_log() -> Opened:
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


def _open_log(store: SessionStore, resume: str | None, workspace: Workspace) -> Opened:
    """Open and hold the session. Raises SessionError, or ConfigError if it belongs to another
    workspace."""
    if resume is None:
        return Opened(store.create(), fold(()))
    with without_collecting():
        log, recording = store.open(store.find(resume))
        try:
            return _resumed(store, log, recording, workspace)
        except BaseException:
            log.close()
            raise


def _resumed(
    store: SessionStore, log: SessionLog, recording: Recording, workspace: Workspace
) -> Opened:
    """Close what the log and those of children leave open, and fold it.

    Raises ConfigError if it belongs to another workspace.
    """
    from codeagent.session.repair import check_recording, closing_events  # a new log is whole

    _refuse_other_workspace(recording.events, workspace, log.session_id)
    history = fold(recording.events)
    now = round(time.time(), 3)
    if closing := closing_events(recording.events, log.session_id, log.next_seq, now, history):
        for event in closing:
            log.append(event)
        store.close_children(log.session_id, now)
        history = fold((*recording.events, *closing))
    return Opened(
        log, history, _damage(check_recording(recording, history).problems, log.session_id)
    )


def _damage(problems: tuple[str, ...], session_id: str) -> tuple[CodedText, ...]:
    if not problems:
        return ()
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    text = (
        f"the log of this session is damaged: {'; '.join(problems[:_SHOWN])}{more}. What can be read of it is used; "
        f"codeagent sessions check {session_id} lists every problem"
    )
    return (("session.damaged", visible(text)),)


def _refuse_other_workspace(
    events: tuple[KnownEvent | UnknownEvent, ...], workspace: Workspace, session_id: str
) -> None:
    there = next(
        (event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None
    )
    if there is not None and there != str(workspace.root) and may_exist(Path(there)):
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )
