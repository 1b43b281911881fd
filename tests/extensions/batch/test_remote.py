"""Results at an address: a task has a whole result there or none, whatever fails during an upload."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.remote import RemoteResults, upload
from codeagent.extensions.batch.results import RECORDS, TaskFolder
from tests.extensions.batch.test_results import RECORD
from tests.table import for_each

URL = "memory://results"


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield
    MemoryFileSystem.store.clear()


def ended(tmp_path: Path, attempt: int = 1) -> TaskFolder:
    """The folder of a task that has ended on a node."""
    folder = TaskFolder(tmp_path / f"node/{attempt}" / RECORD.key)
    (folder.kept / "deep").mkdir(parents=True)
    (folder.kept / "deep" / f"log-{attempt}").write_text("kept")
    folder.patch.write_text(f"patch {attempt}")
    folder.finish(replace(RECORD, attempt=attempt))
    return folder


def test_the_folder_of_an_ended_task_moves_to_the_address(tmp_path: Path) -> None:
    folder = ended(tmp_path)
    upload(folder, URL)
    assert not folder.path.exists()
    results = RemoteResults(URL).read()
    assert results.records == {RECORD.key: RECORD}
    results.fetch([RECORD.key])
    here = results.folder(RECORD.key)
    assert (here.patch.read_text(), here.record()) == ("patch 1", RECORD)


def test_a_later_attempt_replaces_all_of_the_one_before(tmp_path: Path) -> None:
    for attempt in (1, 2):
        upload(ended(tmp_path, attempt), URL)
    results = RemoteResults(URL).read()
    results.fetch([RECORD.key])
    here = results.folder(RECORD.key)
    assert results.records[RECORD.key].attempt == 2
    assert [each.name for each in (here.kept / "deep").iterdir()] == ["log-2"]


def test_a_task_without_a_folder_or_a_patch_there_keeps_no_other_from_being_read(
    tmp_path: Path,
) -> None:
    upload(ended(tmp_path), URL)
    results = RemoteResults(URL).read()
    results.fetch([RECORD.key])
    (folder := ended(tmp_path, 2)).patch.unlink()
    upload(folder, URL)
    results.fetch(["given-up", RECORD.key])
    here = results.folder(RECORD.key)
    assert (here.record(), here.patch.exists()) == (replace(RECORD, attempt=2), False)


class Connection:
    """A connection that is lost after so many changes at the address."""

    def __init__(self, changes: int) -> None:
        self._left = changes

    def counted(self, change: Any) -> Any:
        def changed(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise OSError("the connection is lost")
            return change(*given, **named)

        return changed


@for_each("attempt, changes", [(attempt, changes) for attempt in (1, 2) for changes in range(5)])
def test_half_an_upload_is_not_a_result_and_is_done_again(
    attempt: int, changes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{URL}-{attempt}-{changes}"
    for earlier in range(1, attempt):
        upload(ended(tmp_path / str(changes), earlier), url)
    folder = ended(tmp_path / str(changes), attempt)
    connection = Connection(changes)
    with monkeypatch.context() as patch:
        for name in ("pipe_file", "rm_file", "put_file"):
            patch.setattr(
                MemoryFileSystem, name, connection.counted(getattr(MemoryFileSystem, name))
            )
        with pytest.raises(ConfigError, match="the connection is lost"):
            upload(folder, url)
    known = RemoteResults(url).read().records.values()
    assert [each.attempt for each in known] == ([1] if attempt == 2 and changes == 0 else [])
    upload(folder, url)
    assert RemoteResults(url).read().records == {RECORD.key: replace(RECORD, attempt=attempt)}


def test_the_records_of_another_driver_are_added_here_once(tmp_path: Path) -> None:
    mine = RemoteResults(URL).hold()
    mine.append(RECORD)
    for name in ("summary.md", "index.html"):
        (mine.path / name).write_text("")
    mine.publish()
    mine.close()
    upload(ended(tmp_path, 2), URL)
    for _ in range(2):
        again = RemoteResults(URL).hold()
        again.close()
        assert again.records[RECORD.key].attempt == 2
        assert again.spent == 2 * 0.25
        assert len((again.path / RECORDS).read_text().splitlines()) == 2


def test_a_file_that_a_task_kept_is_not_taken_for_a_record(tmp_path: Path) -> None:
    folder = ended(tmp_path)
    (folder.kept / "records").mkdir()
    for name in ("record.json", "results.jsonl", "records/other"):
        (folder.kept / name).write_bytes(replace(RECORD, key="forged").line())
    upload(folder, URL)
    assert list(RemoteResults(URL).read().records) == [RECORD.key]


@for_each(
    "url, said",
    [
        ("nowhere://there", "Protocol not known: nowhere"),
        ("gs://bucket/there", "install gcsfs"),
        ("memory://there", "fsspec"),
    ],
)
def test_an_address_that_cannot_be_used_is_an_error_that_says_what_it_needs(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url.startswith("memory:"):
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ConfigError, match=f"{said}.* It needs codeagent.ray., the package"):
        RemoteResults(url).read()


def test_an_error_at_the_address_is_not_mistaken_for_no_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(*given: Any, **named: Any) -> Any:
        raise PermissionError("denied")

    monkeypatch.setattr(MemoryFileSystem, "ls", denied)
    with pytest.raises(ConfigError, match="denied"):
        RemoteResults(URL).read()
