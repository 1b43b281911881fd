"""What was spent: each request is counted once, and the parts add up to the whole."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.events import AsideAnswered, KnownEvent, RunStarted, TurnFinished
from codeagent.core.messages import Usage
from codeagent.core.notices import AgentStarted, ModelFellBack
from codeagent.core.redact import Redactor
from codeagent.extensions.usage.requests import SpentRequest, SpentSession, spent
from codeagent.extensions.usage.totals import WAYS, Total, since_days, totals
from codeagent.session.log import SessionLog
from codeagent.session.store import SessionStore
from codeagent.session.upkeep import fork, remove
from tests.table import for_each

AT = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
DAY = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state", Redactor({}))


def put(log: SessionLog, event: KnownEvent, at: float, agent: str = "main") -> None:
    stamp: dict[str, Any] = {"seq": log.next_seq, "ts": at, "agent": agent}
    log.append(replace(event, session=log.session_id, **stamp))


def begun(model: str = "a", workspace: str = "/home/ada/one") -> RunStarted:
    return RunStarted(
        model=model, workspace=workspace, mode="ask", strategy="parallel", codeagent="1"
    )


def turn(cost: float | None = 0.1, tokens: int = 10) -> TurnFinished:
    return TurnFinished(turn=1, stop="end", usage=Usage(input_tokens=tokens, cost_usd=cost))


def kept(store: SessionStore, *events: KnownEvent, at: float = AT) -> str:
    log = store.create()
    for number, event in enumerate(events):
        put(log, event, at + number)
    log.close()
    return log.session_id


def add(store: SessionStore, session_id: str, *events: KnownEvent, at: float = AT + DAY) -> None:
    log, _ = store.open(session_id)
    for number, event in enumerate(events):
        put(log, event, at + number)
    log.close()


def counted(store: SessionStore, since: float = 0.0) -> dict[str, Total]:
    return totals(spent(store, store.ids(), since), "model").groups


def test_a_request_belongs_to_the_model_that_answered_and_to_its_day(store: SessionStore) -> None:
    fell_back = ModelFellBack(text="", reason="busy", model="b")
    first = kept(store, begun(), turn(0.1), fell_back, turn(0.25), turn(None))
    add(store, first, begun(), turn(0.5))
    groups = counted(store)
    assert {name: one.cost for name, one in groups.items()} == {"a": "$0.6000", "b": "≥$0.2500"}
    days = totals(spent(store, store.ids()), "day").groups
    assert {name: one.requests for name, one in days.items()} == {"2026-11-20": 3, "2026-11-21": 1}
    assert counted(store, AT + DAY / 2)["a"].requests == 1


def test_a_side_question_counts_too(store: SessionStore) -> None:
    kept(store, begun(), turn(0.1), AsideAnswered(usage=Usage(input_tokens=5, cost_usd=0.25)))
    found = counted(store)["a"]
    assert (found.cost, found.requests, found.input_tokens) == ("$0.3500", 2, 15)


def test_more_days_than_a_calendar_has_are_all_of_them() -> None:
    assert since_days(10**12, AT) == since_days(36_500, AT) < 0


def test_a_fork_and_a_fork_of_it_count_only_what_they_added(store: SessionStore) -> None:
    first = kept(store, begun(), turn(), turn())
    second = fork(store, first)
    add(store, second, begun(), turn())
    third = fork(store, second)
    add(store, third, begun(), turn())
    add(store, first, begun(), turn())
    assert counted(store)["a"].requests == 5
    remove(store, first)
    assert counted(store)["a"].requests == 4
    remove(store, second)
    assert counted(store)["a"].requests == 4


def test_the_requests_of_agents_are_counted_once_also_in_a_fork(store: SessionStore) -> None:
    first = kept(store, begun(), turn())
    child = store.create_child(first)
    started = AgentStarted(
        text="", call_id="c", child="x", child_session=child.session_id, parent_session=first
    )
    put(child, started, AT + 5, "x")
    put(child, begun("small"), AT + 6, "x")
    put(child, turn(), AT + 7, "x")
    child.close()
    add(store, first, started, turn())
    second = fork(store, first)
    add(store, second, begun(), turn(), at=time.time() + DAY)
    groups = counted(store)
    assert (groups["a"].requests, groups["small"].requests) == (3, 1)
    assert len(store.children(second)) == 1


def test_a_log_is_read_again_only_once_it_has_grown(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = [kept(store, begun(), turn()) for _ in range(2)][-1]
    before = counted(store)
    read: list[str] = []
    reads = store.read_only
    monkeypatch.setattr(
        store, "read_only", lambda one, kinds: read.append(one) or reads(one, kinds)
    )
    assert counted(store) == before and read == []
    add(store, second, turn())
    assert counted(store)["a"].requests == 3 and read == [second]
    (store.root.parent / "usage-index.json").write_text("damaged")
    assert counted(store)["a"].requests == 3 and read == [second, *store.ids()]


@for_each("damage", ['{"x": 1}', "[]", "[" * 20_000, "nothing"])
def test_a_damaged_index_is_made_again(damage: str, tmp_path: Path) -> None:
    store = SessionStore(tmp_path / str(len(damage)), Redactor({}))
    session = kept(store, begun(), turn())
    rows = f'{{"{session}": {damage}}}'
    (store.root.parent / "usage-index.json").write_text(rows if damage[0] == "{" else damage)
    assert counted(store)["a"].requests == 1


@for_each("version", [[], [[1, 0]], [[3, 0]]])
def test_an_index_that_counts_other_events_is_made_again(
    version: list[list[int]], tmp_path: Path
) -> None:
    store = SessionStore(tmp_path / str(version), Redactor({}))
    kept(store, begun(), turn())
    assert counted(store)["a"].requests == 1
    path = store.root.parent / "usage-index.json"
    rows = json.loads(path.read_text())
    for row in rows.values():
        row[0] = [*version, *row[0][1:]]
        row[2] = []
    path.write_text(json.dumps(rows))
    assert counted(store)["a"].requests == 1


WRONG_FIELDS: dict[int, object] = {0: ["x"], 1: None, 2: "3", 4: "5", 7: "1.5"}


@for_each("at", list(WRONG_FIELDS))
def test_a_row_of_the_index_with_a_wrong_field_is_made_again(at: int, tmp_path: Path) -> None:
    store = SessionStore(tmp_path / str(at), Redactor({}))
    session = kept(store, begun(), turn())
    before = counted(store)
    path = store.root.parent / "usage-index.json"
    rows = json.loads(path.read_text())
    rows[session][2][0][at] = WRONG_FIELDS[at]
    path.write_text(json.dumps(rows))
    assert counted(store) == before


REQUEST = st.builds(
    SpentRequest,
    origin=st.just(""),
    seq=st.integers(1, 99),
    at=st.floats(1.7e9, 1.9e9),
    model=st.sampled_from(["a", "b", "c", ""]),
    input_tokens=st.integers(0, 10**7),
    output_tokens=st.integers(0, 10**6),
    cache_read_tokens=st.integers(0, 10**6),
    nanodollars=st.none() | st.integers(0, 10**12),
)
SESSION = st.builds(
    SpentSession,
    workspace=st.sampled_from(["/home/ada/one", "/home/ada/two", ""]),
    requests=st.lists(REQUEST, max_size=8).map(tuple),
)


@given(st.lists(SESSION, max_size=8))
def test_the_parts_add_up_to_the_whole_however_it_is_divided(sessions: list[SpentSession]) -> None:
    found = [totals(sessions, by) for by in WAYS]
    assert len({repr(one.whole) for one in found}) == 1
    for one in found:
        parts = [asdict(part) for part in one.groups.values()]
        whole = asdict(one.whole)
        assert {key: sum(part[key] for part in parts) for key in whole} == whole
        assert all(0 <= one.share(part) <= 1 for part in one.groups.values())
    assert found[0].whole.nanodollars == sum(
        one.nanodollars or 0 for session in sessions for one in session.requests
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_forks_change_no_total(steps: list[int]) -> None:
    """Each step adds a request to a session or copies it."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(Path(folder), Redactor({}))
        ids, added = [kept(store, begun(), turn(0.1))], 1
        for step in steps:
            chosen = ids[step % len(ids)]
            if step % 2:
                ids.append(fork(store, chosen))
            else:
                add(store, chosen, turn(0.1))
                added += 1
        whole = totals(spent(store, store.ids()), "day").whole
        assert (whole.requests, whole.nanodollars) == (added, added * 10**8)


def test_days_begin_at_midnight() -> None:
    assert time.localtime(since_days(1, AT))[:6] == (2026, 11, 20, 0, 0, 0)
    assert time.localtime(since_days(20, AT))[:6] == (2026, 11, 1, 0, 0, 0)
