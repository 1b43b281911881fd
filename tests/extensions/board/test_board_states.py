"""What the board says of a session, from the events in its log."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.events import (
    AsideAnswered,
    KnownEvent,
    RunFinished,
    RunReason,
    RunStarted,
    TurnFinished,
)
from codeagent.core.messages import Usage
from codeagent.core.notices import RunPaused, RunResumed
from codeagent.core.redact import Redactor
from codeagent.extensions.board import sessions
from codeagent.session.store import SessionStore
from tests.table import for_each

BEGUN = RunStarted(model="m", workspace="/w", mode="ask", strategy="s", codeagent="1")
PAUSED = RunPaused(text="", batch=1, why="step", calls=())
RESUMED = RunResumed(text="")


def ended(reason: RunReason, text: str = "") -> RunFinished:
    usage = Usage(input_tokens=1, output_tokens=1)
    return RunFinished(reason=reason, text=text, usage=usage, turns=1, calls=0, duration_ms=1)


@for_each(
    "events, in_use, state",
    [
        ((), True, "new"),
        ((BEGUN,), True, "working"),
        ((BEGUN,), False, "stopped"),
        ((BEGUN, PAUSED), True, "waiting for you"),
        ((BEGUN, PAUSED), False, "stopped"),
        ((BEGUN, PAUSED, RESUMED), True, "working"),
        ((BEGUN, PAUSED, BEGUN), True, "working"),
        ((BEGUN, ended("done")), True, "done"),
        ((BEGUN, ended("done")), False, "done"),
        ((BEGUN, ended("failed")), True, "failed"),
        ((BEGUN, ended("denied")), True, "stopped"),
        ((BEGUN, ended("limit")), True, "stopped"),
        ((BEGUN, ended("interrupted")), True, "stopped"),
        ((BEGUN, ended("done"), BEGUN), True, "working"),
    ],
)
def test_a_session_has_the_state_that_its_own_screen_would_show(
    events: Sequence[KnownEvent], in_use: bool, state: str
) -> None:
    assert sessions._state(events, in_use=in_use)[0] == state


@for_each(
    ("text", "last"),
    [
        ("**Done.** `a_b.py` is __init__", "Done. a_b.py is __init__"),
        ("2**3 is 8, and 4**2 is 16", "2**3 is 8, and 4**2 is 16"),
        ("** alone", "** alone"),
    ],
)
def test_the_last_words_of_a_run_are_shown_without_the_marks_of_markdown(
    text: str, last: str
) -> None:
    assert sessions._state((BEGUN, ended("done", text)), in_use=False)[1] == last


def test_a_process_that_may_not_be_ended_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(sessions.os, "kill", refuse)
    assert sessions._told_to_end(1) == "nothing was ended: process 1 belongs to another user"


def test_the_cost_of_a_session_includes_side_questions(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, Redactor({}))
    log = store.create()
    spent = Usage(input_tokens=1, cost_usd=0.25)
    turn = TurnFinished(turn=1, stop="end", usage=spent)
    for seq, event in enumerate((BEGUN, turn, AsideAnswered(usage=spent)), 1):
        log.append(replace(event, seq=seq, ts=1.0, session=log.session_id))
    log.close()
    (row,) = sessions.SessionBoard(store).rows()
    assert row.cost_usd == 0.5
