"""Results: records are added and never lost, and tell which tasks are still to do."""

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.core.messages import Usage
from codeagent.disk.locks import locked
from codeagent.extensions.batch.report import markdown, page
from codeagent.extensions.batch.results import RECORDS, Attempt, Results, Retry, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from tests.effort import part
from tests.pty_screen import PtyScreen, environment
from tests.table import for_each

TASK = BatchTask(repository="/there", prompt="go")
RECORD = TaskRecord(
    key=TASK.key,
    subject=TASK.subject,
    title="go",
    repository="/there",
    commit="c" * 40,
    model="m",
    state="done",
    error="",
    denied=(),
    changed=(1, 2, 3),
    usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.25),
    turns=2,
    seconds=3.5,
    attempt=1,
    session="s",
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    results.append(RECORD)
    results.close()
    assert Results(tmp_path).read().records == {TASK.key: RECORD}


def test_the_last_record_of_a_task_counts(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    results.append(RECORD)
    results.append(second := replace(RECORD, attempt=2, state="failed"))
    results.close()
    assert Results(tmp_path).read().records == {TASK.key: second}


OTHER = replace(RECORD, key="other")


@pytest.mark.soak
@for_each("cut", part(range(1, len(OTHER.line())), 40))
def test_a_line_that_a_crash_cut_off_is_removed_and_the_others_stay(
    cut: int, tmp_path: Path
) -> None:
    folder = tmp_path / str(cut)
    results = Results(folder).hold()
    results.append(RECORD)
    results.close()
    with (folder / RECORDS).open("ab") as file:
        file.write(OTHER.line()[:cut])
    results = Results(folder).hold()
    assert list(results.records) == [TASK.key]
    results.append(replace(RECORD, key="third"))
    results.close()
    assert list(Results(folder).read().records) == [TASK.key, "third"]


def test_a_record_that_is_only_in_the_folder_of_its_task_is_collected_once(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    results.begin(TASK.key).finish(RECORD)
    results.close()
    (tmp_path / TASK.key / "copy/there").mkdir(parents=True)
    for _ in range(2):
        results = Results(tmp_path).hold()
        results.collect()
        results.close()
    assert not (tmp_path / TASK.key / "copy").exists()
    assert results.unfinished == set()
    assert (tmp_path / RECORDS).read_bytes() == RECORD.line()


def test_a_second_batch_is_kept_out(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    with pytest.raises(ConfigError, match="another batch"):
        Results(tmp_path).hold()
    results.close()
    Results(tmp_path).hold().close()


def test_a_line_that_is_not_a_record_is_an_error_with_its_number(tmp_path: Path) -> None:
    (tmp_path / RECORDS).write_bytes(RECORD.line() + b"{}\n")
    with pytest.raises(ConfigError, match=f"{RECORDS}:2"):
        Results(tmp_path).read()


FAILED = replace(RECORD, state="failed")
DENIED = replace(RECORD, denied=("bash(ls)",))


@for_each(
    ("record", "retry", "again"),
    [
        (None, (), True),
        (RECORD, (), False),
        (RECORD, ("failed", "denied"), False),
        (RECORD, ("all",), True),
        (FAILED, (), False),
        (FAILED, ("failed",), True),
        (FAILED, ("denied",), False),
        (replace(RECORD, state="limit"), ("failed",), True),
        (DENIED, ("denied",), True),
        (DENIED, ("failed",), False),
        (replace(RECORD, state="denied"), ("denied",), True),
        (replace(RECORD, state="interrupted"), (), True),
    ],
)
def test_tasks_without_a_record_and_those_to_retry_are_done(
    record: TaskRecord | None, retry: tuple[Retry, ...], again: bool
) -> None:
    results = Results(Path("/nowhere"))
    if record is not None:
        results.records[record.key] = record
    assert bool(results.missing([TASK], retry)) == again


def test_the_record_of_an_earlier_attempt_does_not_end_a_later_one(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    results.begin(TASK.key).finish(FAILED)
    results.append(FAILED)
    folder = results.begin(TASK.key)
    assert (folder.record(), folder.attempt()) == (None, Attempt(2, ""))
    results.close()
    results = Results(tmp_path).hold()
    results.collect()
    assert results.missing([TASK]) == [TASK]
    assert results.begin(TASK.key).attempt() == Attempt(2, "")
    folder.finish(second := replace(RECORD, attempt=2))
    assert folder.record() == second
    results.close()


def test_a_working_copy_that_a_process_of_a_killed_batch_is_still_making_stays(
    tmp_path: Path,
) -> None:
    results = Results(tmp_path).hold()
    (copy := results.begin(TASK.key).copy).mkdir(parents=True)
    results.close()
    results = Results(tmp_path).hold()
    results.collect()
    assert copy.exists()
    assert results.missing([TASK]) == [TASK]
    results.close()


def test_a_task_that_a_process_of_a_killed_batch_still_cleans_up_is_checked_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.disk.locks._PATIENCE", 0.0)
    results = Results(tmp_path).hold()
    (folder := results.begin(TASK.key)).finish(RECORD)
    folder.copy.mkdir()
    results.close()
    with locked(folder.path / "lock"):
        results = Results(tmp_path).hold()
        results.collect()
        assert (results.records, folder.copy.exists()) == ({TASK.key: RECORD}, True)
        results.close()
    results = Results(tmp_path).hold()
    results.collect()
    assert (results.unfinished, folder.copy.exists()) == (set(), False)
    results.close()


def test_what_cannot_be_removed_after_a_record_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    results = Results(tmp_path).hold()
    (copy := results.begin(TASK.key).copy).mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr("codeagent.extensions.batch.results.locked", full)
        results.append(RECORD)
    results.close()
    assert copy.exists()
    results = Results(tmp_path).hold()
    results.collect()
    results.close()
    assert (results.records, copy.exists()) == ({TASK.key: RECORD}, False)


def test_the_summary_names_the_rules_that_would_have_allowed_what_was_denied() -> None:
    text = markdown([RECORD, replace(DENIED, key="b"), replace(DENIED, key="c")], 4)
    assert text.startswith("# 3 of 4 tasks passed")
    assert "- `bash(ls)`: 2 times" in text


@pytest.mark.parametrize("title", ["[a](javascript:x)", "\\](javascript:x)", "<b>", "a | b", "`a`"])
def test_a_title_is_plain_text_in_the_summary(title: str) -> None:
    [row] = markdown([replace(RECORD, title=title)], 1).splitlines()[-1:]
    assert row.count("|") == 7
    assert not set("<`\\") & set(row)
    assert row.count("](") == 2


def test_the_page_needs_nothing_else_and_no_title_can_end_its_script() -> None:
    text = page([replace(RECORD, title="</script><script>alert(1)</script>")], 1)
    assert text.count("</script>") == 1
    assert "src=" not in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_another_attempt_that_was_cut_off_continues_and_comes_first(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    for key in (TASK.key, OTHER.key):
        results.append(replace(RECORD, key=key, state="failed"))
    results.begin(TASK.key).begin(begun := Attempt(2, "c", "session"))
    results.close()
    results = Results(tmp_path).hold()
    results.collect()
    other = BatchTask(repository="/there", prompt="other")
    assert results.missing([other, TASK]) == [TASK, other]
    assert results.begin(TASK.key).attempt() == begun
    results.append(replace(RECORD, attempt=2))
    assert results.missing([TASK]) == []
    assert list((tmp_path / "begun").iterdir()) == []
    results.close()


def test_the_cost_of_all_attempts_counts(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    results.append(RECORD)
    results.append(replace(RECORD, attempt=2))
    results.close()
    assert Results(tmp_path).read().spent == 0.5


def test_a_record_for_which_the_disk_has_no_room_is_not_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(tmp_path).hold()
    results.append(RECORD)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:20]))
    with pytest.raises(OSError, match="No space left"):
        results.append(OTHER)
    monkeypatch.undo()
    results.append(OTHER)
    results.close()
    assert list(Results(tmp_path).read().records) == [TASK.key, "other"]


@pytest.mark.parametrize("piped", [False, True])
def test_a_terminal_breaks_a_long_line_at_words_and_a_pipe_gets_one(
    piped: bool, tmp_path: Path
) -> None:
    text = " ".join(["word"] * 30)
    code = f"from codeagent.extensions.batch.views import *; BatchView(BatchProgress(1, 1)).say('{text}')"
    shell = f'"{sys.executable}" -c "{code}"{" | cat" * piped}'
    env = environment(tmp_path, PYTHONPATH=str(Path(__file__).parents[3]))
    with PtyScreen(["sh", "-c", shell], env, tmp_path, (62, 24)) as screen:
        assert screen.exit_code() == 0
        lines = screen.raw.decode().splitlines()
    assert " ".join(each.strip() for each in lines) == text
    assert len(lines) == (1 if piped else 3)
    assert all(set(each.split()) == {"word"} for each in lines)
