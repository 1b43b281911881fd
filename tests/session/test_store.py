"""The folder of sessions: private, found by prefix, one writer at a time, repaired before it goes
on."""

import fcntl
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.errors import SessionError, SessionInUse, SessionNotFound
from codeagent.core.event_json import parse_event_json
from codeagent.core.events import MessageAdded, Notice
from codeagent.core.messages import UserMessage
from codeagent.core.notices import AgentStarted
from codeagent.core.redact import Redactor
from codeagent.session import recording
from codeagent.session.log import SessionLog
from codeagent.session.recording import read_recording
from codeagent.session.repair import DAMAGED, cut_torn_tail
from codeagent.session.store import LOG, SessionStore
from tests.session.eventlogs import finished_run


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state/codeagent", Redactor({}))


def finished(store: SessionStore) -> str:
    """The id of a session that holds one run."""
    log = store.create()
    for event in finished_run():
        log.append(event)
    log.close()
    return log.session_id


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_ids_sort_by_time_and_do_not_repeat(store: SessionStore) -> None:
    ids = [finished(store) for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", session_id) for session_id in ids)


@pytest.mark.parametrize("size", [200, 1 << 20])
def test_what_came_after_an_event_is_read_however_little_of_the_end_is_looked_at_first(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    session_id, events = finished(store), finished_run()
    monkeypatch.setattr("codeagent.session.store._END", size)
    assert [store.read_after(session_id, event.seq) for event in events] == [
        tuple(events[number:]) for number in range(1, len(events) + 1)
    ]
    assert store.read_after(session_id, 0) == tuple(events)
    with pytest.raises(SessionNotFound):
        store.read_after("20260102-030405-00000000", 1)


def test_folders_are_0700_and_files_0600_whatever_the_umask(store: SessionStore) -> None:
    before = os.umask(0)
    try:
        folder = store.folder(finished(store))
    finally:
        os.umask(before)
    assert [mode(path) for path in (store.root.parent, store.root, folder)] == [0o700] * 3
    assert {path.name: mode(path) for path in folder.iterdir()} == {LOG: 0o600, "lock": 0o600}


def test_a_session_is_found_by_the_beginning_of_its_id_where_that_is_unique(
    store: SessionStore,
) -> None:
    first, second = finished(store), finished(store)
    assert store.find(first) == first
    common = first[: len("20260102-")]
    assert store.find(second[:-1]) == second
    with pytest.raises(SessionNotFound, match="2 sessions begin with"):
        store.find(common)


@pytest.mark.parametrize("name", ["", "nope", "../state", "/etc", "*"])
def test_what_is_no_session_is_not_found(store: SessionStore, name: str) -> None:
    finished(store)
    with pytest.raises(SessionNotFound):
        store.find(name)
    with pytest.raises(SessionNotFound):
        store.open(name)
    with pytest.raises(SessionNotFound):
        store.read(name)


def test_the_last_session_is_the_one_written_to_last(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound, match="no session yet"):
        store.last()
    first, second = finished(store), finished(store)
    os.utime(store.folder(first) / LOG, (2e9, 2e9))
    os.utime(store.folder(second) / LOG, (1e9, 1e9))
    assert store.last() == first
    assert [summary.id for summary in store.summaries()] == [first, second]


def test_a_summary_says_what_the_session_was_about(store: SessionStore) -> None:
    finished(store)
    [summary] = store.summaries()
    assert (summary.workspace, summary.model, summary.prompt, summary.in_use) == (
        "/w",
        "m",
        "fix it",
        False,
    )


def test_a_session_is_named_after_what_the_user_wrote_and_not_after_a_note_for_the_model(
    store: SessionStore,
) -> None:
    log = store.create()
    for text, source in (
        ("(Plan mode: look at whatever you need)", "note"),
        ("how is a date parsed?", "prompt"),
    ):
        message = UserMessage.from_text(text, source)  # type: ignore[arg-type]  # two of the words
        log.append(MessageAdded(seq=log.next_seq, ts=1.0, session=log.session_id, message=message))
    log.close()
    assert [summary.prompt for summary in store.summaries()] == ["how is a date parsed?"]


def test_a_session_in_use_is_refused_with_the_pid_and_can_still_be_read(
    store: SessionStore,
) -> None:
    log = store.create()
    with pytest.raises(SessionInUse, match=f"process {os.getpid()}") as caught:
        store.open(log.session_id)
    assert caught.value.pid == os.getpid()
    assert store.read(log.session_id).events == ()
    assert store.summaries()[0].in_use
    log.close()


@pytest.mark.parametrize("named", ["a process that is gone", "nobody"])
def test_a_lock_that_is_held_only_for_a_moment_is_waited_for(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """As by a command that was forked before its process was killed, or by somebody who looks
    whether it is free."""
    log = store.create()
    log.close()
    gone = subprocess.Popen(["true"])
    gone.wait()
    holder = os.open(store.folder(log.session_id) / "lock", os.O_RDWR)
    os.pwrite(holder, f"{gone.pid}\n".encode() if named == "a process that is gone" else b"", 0)
    fcntl.flock(holder, fcntl.LOCK_EX)
    monkeypatch.setattr(
        "codeagent.session.lock.time.sleep", lambda seconds: fcntl.flock(holder, fcntl.LOCK_UN)
    )
    again, _ = store.open(log.session_id)
    again.close()
    os.close(holder)


def test_the_lock_of_a_dead_process_is_no_obstacle(store: SessionStore) -> None:
    session_id = finished(store)
    hold = (
        "import sys; from pathlib import Path; from codeagent.session.lock import SessionLock\n"
        "lock = SessionLock(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", hold, str(store.folder(session_id) / "lock")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(SessionInUse, match=f"process {holder.pid}"):
        store.open(session_id)
    holder.kill()
    holder.communicate()
    log, recording = store.open(session_id)
    assert len(recording.events) == len(finished_run())
    log.close()


def test_a_torn_tail_is_moved_aside_before_the_session_goes_on(store: SessionStore) -> None:
    session_id = finished(store)
    path = store.folder(session_id) / LOG
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"v":1,"seq":99,"ts"')
    log, recording = store.open(session_id)
    assert recording.torn
    log.append(Notice(seq=log.next_seq, ts=1.0, session=session_id, code="a", text="after"))
    log.close()
    after = read_recording(path)
    assert (len(after.events), after.problems, after.tail) == (len(finished_run()) + 1, (), b"")
    assert path.with_name(DAMAGED).read_bytes() == b'{"v":1,"seq":99,"ts"'
    assert mode(path.with_name(DAMAGED)) == 0o600


def test_a_missing_last_line_break_is_put_back_and_the_record_kept(store: SessionStore) -> None:
    session_id = finished(store)
    path = store.folder(session_id) / LOG
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    log, recording = store.open(session_id)
    log.close()
    assert len(recording.events) == len(finished_run())
    assert path.read_bytes() == whole
    assert not path.with_name(DAMAGED).exists()


def test_a_repair_that_was_cut_short_is_finished_by_the_next_one(store: SessionStore) -> None:
    path = store.folder(finished(store)) / LOG
    whole = path.read_bytes()
    path.write_bytes(whole + b"torn")
    recording = read_recording(path)
    path.with_name(DAMAGED).write_bytes(b"earlier damage\ntorn")
    cut_torn_tail(path, recording)
    assert path.read_bytes() == whole
    assert path.with_name(DAMAGED).read_bytes() == b"earlier damage\ntorn"
    cut_torn_tail(path, read_recording(path))
    assert path.read_bytes() == whole


def test_reading_changes_nothing(store: SessionStore) -> None:
    session_id = finished(store)
    path = store.folder(session_id) / LOG
    path.write_bytes(path.read_bytes() + b"torn")
    before = path.read_bytes()
    assert store.read(session_id).torn
    assert path.read_bytes() == before


def test_a_state_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match="XDG_STATE_HOME"):
        SessionStore(tmp_path / "file", Redactor({})).create()


def test_a_log_that_is_a_link_is_not_written_through(store: SessionStore, tmp_path: Path) -> None:
    session_id = finished(store)
    path = store.folder(session_id) / LOG
    target = tmp_path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    with pytest.raises(SessionError):
        store.open(session_id)


def test_a_created_log_is_a_journal_for_an_agent(store: SessionStore) -> None:
    log = store.create()
    assert isinstance(log, SessionLog)
    assert (log.next_seq, log.folder) == (1, store.folder(log.session_id))
    log.close()


def test_a_session_in_which_nothing_happened_leaves_nothing_behind(store: SessionStore) -> None:
    log = store.create()
    log.close()
    store.discard_if_empty(log.session_id)
    assert list(store.root.iterdir()) == []


def test_a_session_in_which_something_happened_stays(store: SessionStore) -> None:
    log = store.create()
    log.append(finished_run()[0])
    log.close()
    store.discard_if_empty(log.session_id)
    assert store.last() == log.session_id


def test_showing_a_session_and_resuming_it_parse_each_line_once_and_keep_nothing(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, parsed = finished(store), list[bytes]()
    monkeypatch.setattr(
        recording, "parse_event_json", lambda line: parsed.append(line) or parse_event_json(line)
    )
    shown = store.read(session_id)
    log, resumed = store.open(session_id)
    log.close()
    assert resumed == shown
    assert len(parsed) == len(finished_run())
    assert recording.reader_of.cache_info().currsize == 0


def test_sessions_of_children_are_numbered_below_their_parent_and_in_no_list(
    store: SessionStore,
) -> None:
    parent = store.create()
    logs = [store.create_child(parent.session_id) for _ in range(2)]
    assert [log.session_id for log in logs] == [f"{parent.session_id}.1", f"{parent.session_id}.2"]
    assert store.children(parent.session_id) == [log.session_id for log in logs]
    assert store.ids() == [parent.session_id]
    assert store.find(logs[1].session_id) == logs[1].session_id


def test_the_session_of_a_child_is_read_but_not_resumed(store: SessionStore) -> None:
    parent = store.create()
    child = store.create_child(parent.session_id)
    child.close()
    assert store.read(child.session_id).events == ()
    with pytest.raises(
        SessionError, match=f"an agent that {parent.session_id} started; resume that"
    ):
        store.open(child.session_id)


def test_the_events_of_a_child_follow_the_one_that_says_that_it_began(store: SessionStore) -> None:
    parent = store.create()
    child = store.create_child(parent.session_id)
    ids = {"child_session": child.session_id, "parent_session": parent.session_id}
    began = AgentStarted(text="", call_id="c1", child="a.1", **ids)
    parent.append(replace(began, seq=1, ts=1.0, session=parent.session_id))
    parent.append(Notice(seq=2, ts=2.0, session=parent.session_id, code="x", text="after"))
    child.append(replace(began, seq=1, ts=1.0, session=child.session_id, agent="a.1"))
    child.append(
        Notice(seq=2, ts=2.0, session=child.session_id, agent="a.1", code="x", text="its own")
    )
    merged = list(store.with_children(store.read(parent.session_id).events))
    assert [(event.agent, event.seq) for event in merged] == [
        ("main", 1),
        ("a.1", 1),
        ("a.1", 2),
        ("main", 2),
    ]
    shutil.rmtree(child.folder)
    assert len(list(store.with_children(store.read(parent.session_id).events))) == 2, (
        "it is left out if it is gone"
    )
