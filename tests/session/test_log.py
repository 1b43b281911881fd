"""The journal: durable before it says so, and nothing lost where the disk fails."""

import asyncio
import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.errors import SessionWriteError
from codeagent.core.event_json import event_json
from codeagent.core.events import Notice
from codeagent.core.redact import Redactor
from codeagent.session import log as log_module
from codeagent.session.log import SessionLog
from codeagent.session.recording import read_recording
from codeagent.session.store import LOG, SessionStore
from tests.session.eventlogs import finished_run

ENVIRONMENT = {
    "PROVIDER_API_KEY": "sk-canary-0123456789",
    "PLAIN": "visible-value",
    "DB_PASSWORD": "assistant",
}


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state", Redactor(ENVIRONMENT))


@pytest.fixture
def log(store: SessionStore) -> SessionLog:
    return store.create()


def notice(log: SessionLog, text: str) -> Notice:
    return Notice(seq=log.next_seq, ts=1.0, session=log.session_id, code="test", text=text)


def texts(log: SessionLog) -> list[str]:
    return [
        event.text for event in read_recording(log.folder / LOG).events if isinstance(event, Notice)
    ]


class Disk:
    """Makes single system calls on the log fail, the way a full or broken disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing: dict[str, int] = {}
        self.short = False
        self.calls: list[str] = []
        for name in ("write", "fdatasync", "ftruncate"):
            monkeypatch.setattr(log_module.os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, real: Callable[..., int]) -> Callable[..., int]:
        def call(fd: int, *args: bytes) -> int:
            self.calls.append(name)
            if name in self.failing:
                if name == "write" and self.short:
                    real(fd, args[0][: len(args[0]) // 2])
                raise OSError(self.failing[name], os.strerror(self.failing[name]))
            return real(fd, *args)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


async def test_what_was_appended_is_in_the_file_at_once_and_durable_after_sync(
    log: SessionLog, disk: Disk
) -> None:
    log.append(notice(log, "one"))
    assert texts(log) == ["one"]
    assert "fdatasync" not in disk.calls
    await log.sync()
    assert disk.calls.count("fdatasync") == 1


async def test_a_sync_with_nothing_new_does_not_touch_the_disk(log: SessionLog, disk: Disk) -> None:
    log.append(notice(log, "one"))
    await log.sync()
    disk.calls.clear()
    await log.sync()
    assert disk.calls == []


async def test_syncs_at_the_same_time_share_one_flush(log: SessionLog, disk: Disk) -> None:
    for text in ("one", "two", "three"):
        log.append(notice(log, text))
    await asyncio.gather(*(log.sync() for _ in range(10)))
    assert disk.calls.count("fdatasync") == 1


async def test_seq_counts_on_over_gaps_and_over_a_restart(
    store: SessionStore, log: SessionLog
) -> None:
    log.append(notice(log, "one"))
    log.append(replace(notice(log, "two"), seq=9))
    log.close()
    again, _ = store.open(log.session_id)
    assert again.next_seq == 10
    again.close()


async def test_no_secret_of_the_environment_reaches_the_file(log: SessionLog) -> None:
    log.append(notice(log, "the key is sk-canary-0123456789, PLAIN is visible-value"))
    log.close()
    assert b"canary" not in (log.folder / LOG).read_bytes()
    assert texts(log) == ["the key is [secret PROVIDER_API_KEY], PLAIN is visible-value"]


async def test_a_password_that_is_a_word_of_the_format_breaks_no_record(log: SessionLog) -> None:
    for event in finished_run():
        log.append(event)
    log.append(notice(log, "the word assistant"))
    log.close()
    recording = read_recording(log.folder / LOG)
    assert (len(recording.events), recording.problems) == (len(finished_run()) + 1, ())
    assert recording.events[-1].text == "the word [secret DB_PASSWORD]"


async def test_a_lone_surrogate_is_replaced_and_the_event_kept(log: SessionLog) -> None:
    log.append(notice(log, "broken \udc80 text"))
    log.close()
    assert texts(log) == ["broken ? text"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("short", [True, False], ids=["half written", "refused"])
async def test_a_write_that_fails_keeps_the_events_and_sync_says_so(
    log: SessionLog, disk: Disk, code: int, short: bool
) -> None:
    log.append(notice(log, "before"))
    disk.failing, disk.short = {"write": code}, short
    log.append(notice(log, "one"))
    log.append(notice(log, "two"))
    with pytest.raises(SessionWriteError, match="2 events are kept in memory") as caught:
        await log.sync()
    assert os.strerror(code) in str(caught.value) and "\n" not in str(caught.value)
    assert texts(log) == ["before"]
    assert (log.folder / LOG).read_bytes().endswith(b"\n")
    disk.failing = {}
    await log.sync()
    assert texts(log) == ["before", "one", "two"]


async def test_half_a_record_that_could_not_be_cut_off_is_cut_off_before_the_next_write(
    log: SessionLog, disk: Disk
) -> None:
    log.append(notice(log, "before"))
    disk.failing, disk.short = {"write": errno.EIO, "ftruncate": errno.EIO}, True
    log.append(notice(log, "one"))
    disk.failing = {"ftruncate": errno.EIO}
    with pytest.raises(SessionWriteError):
        await log.sync()
    disk.failing = {}
    await log.sync()
    assert texts(log) == ["before", "one"]
    assert read_recording(log.folder / LOG).problems == ()


async def test_after_a_failed_flush_everything_since_the_last_one_is_written_again(
    log: SessionLog, disk: Disk
) -> None:
    log.append(notice(log, "durable"))
    await log.sync()
    log.append(notice(log, "one"))
    disk.failing = {"fdatasync": errno.EIO}
    with pytest.raises(SessionWriteError):
        await log.sync()
    log.append(notice(log, "two"))
    disk.failing, disk.calls = {}, []
    await log.sync()
    assert texts(log) == ["durable", "one", "two"]
    assert disk.calls.count("fdatasync") == 1


async def test_a_cancelled_sync_leaves_its_events_to_the_next_one(
    log: SessionLog, disk: Disk
) -> None:
    log.append(notice(log, "one"))
    task = asyncio.create_task(log.sync())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    disk.calls.clear()
    await log.sync()
    assert "fdatasync" in disk.calls


async def test_closing_flushes_and_lets_go_and_may_be_repeated(
    store: SessionStore, log: SessionLog
) -> None:
    log.append(notice(log, "one"))
    log.close()
    log.close()
    again, recording = store.open(log.session_id)
    assert len(recording.events) == 1
    again.close()


async def test_closing_on_a_full_disk_says_so_and_still_lets_go(
    store: SessionStore, log: SessionLog, disk: Disk
) -> None:
    disk.failing = {"write": errno.ENOSPC}
    log.append(notice(log, "one"))
    with pytest.raises(SessionWriteError, match="1 event is kept"):
        log.close()
    disk.failing = {}
    store.open(log.session_id)[0].close()


async def test_each_line_is_the_events_own_json_and_its_checksum(log: SessionLog) -> None:
    event = notice(log, "one")
    log.append(event)
    log.close()
    line = json.loads((log.folder / LOG).read_text())
    assert (len(line.pop("crc")), line.pop("prev")) == (8, "00000000")
    assert line == json.loads(event_json(event, Redactor({})))


async def test_each_line_carries_the_checksum_of_the_one_before_also_after_a_restart(
    store: SessionStore, log: SessionLog
) -> None:
    for text in ("one", "two"):
        log.append(notice(log, text))
    log.close()
    again, _ = store.open(log.session_id)
    again.append(notice(again, "three"))
    again.close()
    lines = [json.loads(line) for line in (log.folder / LOG).read_text().splitlines()]
    assert [line["prev"] for line in lines] == ["00000000", *(line["crc"] for line in lines[:-1])]


async def test_the_chain_holds_over_a_disk_that_failed_and_over_a_torn_tail(
    store: SessionStore, log: SessionLog, disk: Disk
) -> None:
    log.append(notice(log, "one"))
    disk.failing = {"write": errno.ENOSPC}
    log.append(notice(log, "two"))
    disk.failing = {}
    log.append(notice(log, "three"))
    disk.failing = {"fdatasync": errno.EIO}
    with pytest.raises(SessionWriteError):
        await log.sync()
    disk.failing = {}
    await log.sync()
    log.close()
    with (log.folder / LOG).open("ab") as file:
        file.write(b'{"v":1,"seq":77,"ts":5.0')
    again, _ = store.open(log.session_id)
    again.append(notice(again, "four"))
    again.close()
    recording = read_recording(log.folder / LOG)
    assert (texts(log), recording.problems) == (["one", "two", "three", "four"], ())


def removed(log: SessionLog) -> None:
    (log.folder / LOG).unlink()


def folder_removed(log: SessionLog) -> None:
    shutil.rmtree(log.folder.parent)


def replaced(log: SessionLog) -> None:
    (log.folder / LOG).rename(log.folder / "moved")
    (log.folder / LOG).write_bytes((log.folder / "moved").read_bytes())


@pytest.mark.parametrize("happens", [removed, folder_removed, replaced])
async def test_a_log_that_is_no_longer_at_its_place_is_a_write_error_at_the_next_sync(
    log: SessionLog, happens: Callable[[SessionLog], None]
) -> None:
    log.append(notice(log, "one"))
    await log.sync()
    happens(log)
    log.append(notice(log, "two"))
    with pytest.raises(SessionWriteError, match="removed or replaced") as failure:
        await log.sync()
    assert "1 event is kept in memory, what was done in the workspace is kept" in str(failure.value)
    with pytest.raises(SessionWriteError, match="1 event is kept in memory"):
        log.close()


async def test_a_log_that_is_put_back_is_written_again_with_all_that_was_kept(
    log: SessionLog,
) -> None:
    log.append(notice(log, "one"))
    await log.sync()
    (log.folder / LOG).rename(log.folder / "moved")
    log.append(notice(log, "two"))
    with pytest.raises(SessionWriteError):
        await log.sync()
    (log.folder / "moved").rename(log.folder / LOG)
    await log.sync()
    log.close()
    assert (texts(log), read_recording(log.folder / LOG).problems) == (["one", "two"], ())
