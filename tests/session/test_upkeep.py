"""Copying sessions, giving them titles, and removing old ones: nothing is lost that was not asked
for."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import SessionError, SessionInUse, SessionNotFound
from codeagent.core.events import KnownEvent, MessageAdded, Notice
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notices import AgentStarted
from codeagent.core.redact import Redactor
from codeagent.session.fold import fold
from codeagent.session.repair import check_recording
from codeagent.session.store import LOG, SessionStore
from codeagent.session.upkeep import PruneRule, clear_leftovers, fork, prunable, remove
from tests.session.eventlogs import Log, finished_run
from tests.session.test_export import family

DAY = 86_400.0
NOW = 2e9


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state", Redactor({}))


def kept(store: SessionStore, events: list[KnownEvent], age: float = 0.0) -> str:
    log = store.create()
    for event in events:
        log.append(replace(event, session=log.session_id))
    log.close()
    os.utime(store.folder(log.session_id) / LOG, (NOW - age, NOW - age))
    return log.session_id


def prompts(*texts: str) -> list[KnownEvent]:
    """One run for each prompt."""
    log = Log()
    for text in texts:
        log.run()
        log.user(text)
        log.assistant(f"about {text}")
    return log.events


def said(store: SessionStore, session_id: str) -> list[str]:
    events = store.read(session_id).events
    messages = [event.message for event in events if isinstance(event, MessageAdded)]
    return [text_of(one.content) for one in messages if isinstance(one, UserMessage)]


def test_a_copy_holds_all_that_was_said_and_done_and_the_first_stays_as_it_was(
    store: SessionStore,
) -> None:
    first = kept(store, finished_run())
    outputs = store.folder(first) / "outputs"
    outputs.mkdir()
    (outputs / "o1").write_text("all of it")
    before = (store.folder(first) / LOG).read_bytes()
    copy = fork(store, first)
    assert (store.folder(first) / LOG).read_bytes() == before
    assert (store.folder(copy) / "outputs/o1").read_text() == "all of it"
    recording = store.read(copy)
    *events, origin = recording.events
    assert check_recording(recording).problems == ()
    assert {event.session for event in recording.events} == {copy}
    assert isinstance(origin, Notice) and origin.data == {"from": first}
    assert fold(events).messages == fold(store.read(first).events).messages
    assert stat.S_IMODE((store.folder(copy) / LOG).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("before", "left"), [(1, []), (2, ["a"]), (3, ["a", "b"]), (None, ["a", "b", "c"])]
)
def test_a_copy_ends_before_the_prompt_that_is_named(
    store: SessionStore, before: int | None, left: list[str]
) -> None:
    copy = fork(store, kept(store, prompts("a", "b", "c")), before)
    assert said(store, copy) == left
    log, recording = store.open(copy)
    log.close()
    assert check_recording(recording).problems == ()


def test_a_copy_has_the_sessions_of_the_children_that_began_in_it(store: SessionStore) -> None:
    first = family(store)
    (store.folder(f"{first}.1") / "scratchpad.json").write_text("{}")
    copy = fork(store, first)
    assert store.children(copy) == [f"{copy}.1", f"{copy}.2"]
    events = list(store.with_children(store.read(copy).events))
    assert {event.session for event in events} == {copy, f"{copy}.1", f"{copy}.2"}
    assert [event.parent_session for event in events if isinstance(event, AgentStarted)] == [
        copy
    ] * 4
    assert (store.folder(f"{copy}.1") / "scratchpad.json").is_file()
    assert all(check_recording(store.read(f"{copy}.{number}")).problems == () for number in (1, 2))
    assert "with the sessions of 2 agents" in store.read(copy).events[-1].text  # type: ignore[union-attr]  # the notice
    assert store.children(fork(store, first, 1)) == []


def test_removing_a_session_removes_those_of_its_children(store: SessionStore) -> None:
    first = family(store)
    size = sum(path.stat().st_size for path in store.folder(first).rglob("*") if path.is_file())
    (found,) = prunable(store, PruneRule(keep=0), NOW)
    assert found.size >= size
    remove(store, first)
    assert not store.folder(f"{first}.1").exists() and list(store.root.iterdir()) == []


@pytest.mark.parametrize("before", [0, -1, 4])
def test_a_prompt_that_there_is_not_is_refused_and_nothing_is_left(
    store: SessionStore, before: int
) -> None:
    first = kept(store, prompts("a", "b", "c"))
    with pytest.raises(SessionError, match="has 3 prompts"):
        fork(store, first, before)
    assert store.ids() == [first]


def test_a_session_in_use_can_be_copied_and_a_damaged_one_loses_only_what_is_damaged(
    store: SessionStore,
) -> None:
    log = store.create()
    for event in prompts("a", "b"):
        log.append(event)
    path = store.folder(log.session_id) / LOG
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:1], b"{half a rec", *lines[1:]]) + b"torn")
    copy = fork(store, log.session_id)
    log.close()
    assert said(store, copy) == ["a", "b"]
    assert check_recording(store.read(copy)).problems == ()


@given(
    ages=st.lists(st.integers(0, 100), max_size=8),
    older=st.none() | st.integers(0, 100),
    keep=st.none() | st.integers(0, 8),
)
def test_exactly_the_sessions_are_removed_to_which_a_rule_applies(
    tmp_path_factory: pytest.TempPathFactory, ages: list[int], older: int | None, keep: int | None
) -> None:
    store = SessionStore(tmp_path_factory.mktemp("state"), Redactor({}))
    ids = {kept(store, finished_run(), age * DAY): age for age in ages}
    rule = PruneRule(None if older is None else older * DAY, keep)
    found = [one.summary.id for one in prunable(store, rule, NOW)]
    newest_first = [summary.id for summary in store.summaries()]
    late = newest_first[keep:] if keep is not None else []
    old = [one for one, age in ids.items() if older is not None and age > older]
    assert set(found) == {*late, *old}


def test_the_oldest_are_removed_until_the_others_fit(store: SessionStore) -> None:
    ids = [kept(store, finished_run(), age * DAY) for age in (0, 1, 2)]
    size = sum(path.stat().st_size for path in store.folder(ids[0]).iterdir())
    found = [
        one.summary.id for one in prunable(store, PruneRule(max_bytes=2 * size + size // 2), NOW)
    ]
    assert found == ids[2:]


def test_a_session_in_use_is_never_removed(store: SessionStore) -> None:
    log = store.create()
    with pytest.raises(SessionInUse):
        remove(store, log.session_id)
    log.close()
    remove(store, log.session_id)
    assert store.ids() == []


def test_a_removal_that_was_cut_short_is_no_session_and_is_completed_later(
    store: SessionStore,
) -> None:
    session_id = kept(store, finished_run())
    store.folder(session_id).rename(store.root / f".removed-{session_id}")
    assert store.ids() == [] and store.summaries() == []
    clear_leftovers(store)
    assert not list(store.root.glob(".removed-*"))


def test_a_title_is_shown_kept_and_taken_away(store: SessionStore) -> None:
    session_id = kept(store, finished_run())
    store.titles.give(session_id, "Grüße — 世界")
    assert [summary.title for summary in store.summaries()] == ["Grüße — 世界"]
    with pytest.raises(SessionError, match="200 characters"):
        store.titles.give(session_id, "x" * 201)
    store.titles.give(session_id, "")
    assert [summary.title for summary in store.summaries()] == [""]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"x": 3}', '{"x": ["a", 1, "b"]}', "\0", "[" * 100_000]
)
def test_a_damaged_cache_costs_only_time(store: SessionStore, content: str) -> None:
    session_id = kept(store, finished_run())
    expected = store.summaries()
    (store.root.parent / "session-beginnings.json").write_text(content)
    assert store.summaries() == expected
    assert expected[0].id == session_id and expected[0].prompt == "fix it"


def test_what_the_cache_says_is_what_the_log_says_however_it_grew(store: SessionStore) -> None:
    log = store.create()
    for event in prompts("first", "second"):
        log.append(event)
        assert store.summaries() == SessionStore(store.root.parent, Redactor({})).summaries()
        (store.root.parent / "session-beginnings.json").unlink(missing_ok=True)
    log.close()
    assert store.summaries()[0].prompt == "first"


def test_an_unknown_session_is_not_copied(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound):
        fork(store, "20260101-000000-00000000", 1)
