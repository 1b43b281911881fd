"""What the screen keeps of jobs is bounded, however much they print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.jobs import Job, JobStatus
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.state import JobBoard

KEPT = 601
"""Lines kept at most of one job: the beginning, the end, and the line that is not ended."""


def board_of(*job_ids: str) -> JobBoard:
    board = JobBoard()
    for job_id in job_ids:
        board.begin(Job(job_id, f"c-{job_id}", "bash", "make", "running", 0.0))
    return board


def ended(state: JobStatus, exit_code: int | None = None, lines: int = 0) -> Job:
    return Job("job-1", "c-job-1", "bash", "make", state, 0.0, 9.0, lines, exit_code)


def test_of_a_hundred_thousand_lines_the_beginning_and_the_end_are_kept_and_all_are_counted() -> (
    None
):
    board = board_of("job-1")
    for start in range(0, 100_000, 1_000):
        board.feed("job-1", "".join(f"line {number}\n" for number in range(start, start + 1_000)))

    row, output = board.get("job-1"), board.output("job-1")
    assert row is not None and row.lines == 100_000
    assert len(output) <= KEPT
    assert (output.lines()[0], output.lines()[-1]) == ("line 0", "line 99999")


@given(st.lists(st.text("ab\n\r\x1b[1m", max_size=200), max_size=40))
def test_never_more_is_kept_than_that(pieces: list[str]) -> None:
    board = board_of("job-1")
    for piece in pieces * 20:
        board.feed("job-1", piece)
    assert len(board.output("job-1")) <= KEPT


def test_of_a_job_that_ended_only_the_end_is_kept() -> None:
    board = board_of("job-1")
    board.feed("job-1", "".join(f"line {number}\n" for number in range(5_000)))
    board.end(ended("failed", 1, 5_000), "line 4999")

    assert len(board.output("job-1")) == 100
    assert board.output("job-1").lines()[-1] == "line 4999"
    assert board.get("job-1") == ended("failed", 1, 5_000)


def test_the_tail_of_the_log_stands_in_for_what_was_not_seen() -> None:
    board = JobBoard()
    board.end(ended("failed", 1, 300), "one\ntwo\n")
    assert list(board.output("job-1").lines()) == ["one", "two"]


def test_an_answer_stands_below_what_was_printed_on_the_way_to_it() -> None:
    board = board_of("job-1")
    board.feed("job-1", "half done\n")
    board.end(ended("done"), "all 12 deployed")
    assert list(board.output("job-1").lines()) == ["half done", "all 12 deployed"]


def test_what_was_printed_is_not_shown_twice() -> None:
    board = board_of("job-1")
    board.feed("job-1", "\x1b[32mok\x1b[0m\n")
    board.end(ended("done", 0, 1), "ok\n")
    assert list(board.output("job-1").lines()) == ["\x1b[32mok\x1b[0m"]


def test_a_job_goes_on_where_the_call_was_in_its_line() -> None:
    board, printed = JobBoard(), OutputBuffer()
    printed.feed("half a ")
    board.begin(ended("running"), printed)
    board.feed("job-1", "line\n")
    assert list(board.output("job-1").lines()) == ["half a line"]


def test_jobs_that_ran_are_lost_with_their_process_and_others_stay_as_they_ended() -> None:
    board = board_of("job-1", "job-2")
    board.end(ended("done", 0), "")
    board.lose()
    assert [(row.id, row.status) for row in board.rows] == [("job-1", "done"), ("job-2", "lost")]
    assert board.running == 0


@pytest.mark.parametrize(
    "act", [lambda board: board.feed("job-9", "x"), lambda board: board.listens("job-9", 80)]
)
def test_a_job_nobody_started_is_left_alone(act: object) -> None:
    board = board_of("job-1")
    assert callable(act)
    act(board)
    assert [row.id for row in board.rows] == ["job-1"]


def test_where_pieces_were_missed_the_log_knows_the_end() -> None:
    board = board_of("job-1")
    board.feed("job-1", "line 1\n")
    board.end(ended("failed", 1, 900), "line 899\nline 900\n")
    assert list(board.output("job-1").lines()) == ["line 899", "line 900"]


def test_lines_that_went_by_unseen_are_counted_and_no_count_goes_back() -> None:
    board = board_of("job-1")
    board.feed("job-1", "line 1\n")
    board.count({"job-1": 900, "job-9": 3})
    board.count({"job-1": 5})
    board.feed("job-1", "line 901\n")
    row = board.get("job-1")
    assert row is not None and row.lines == 900
