"""The check of a stored session: what is damage, and what a killed process may leave open."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.events import KnownEvent, ToolFinished, ToolResultAdded
from codeagent.session.recording import Recording
from codeagent.session.repair import CheckReport, check_recording
from tests.session.eventlogs import Log, finished_run, logs


def check(events: list[KnownEvent], **fields: object) -> CheckReport:
    return check_recording(Recording(tuple(events), **fields))  # type: ignore[arg-type]  # fields of Recording


@given(logs())
def test_a_whole_log_is_sound_and_needs_no_repair(events: list[KnownEvent]) -> None:
    assert check(events) == CheckReport((), ())


@given(logs(), st.data())
def test_a_log_that_ends_anywhere_is_sound(events: list[KnownEvent], data: st.DataObject) -> None:
    assert check(events[: data.draw(st.integers(0, len(events)))]).problems == ()


def test_a_killed_run_names_what_resume_will_repair() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.announce("c1", "c2")
    log.assistant("", "c1", "c2")
    log.start("c1")
    assert check(log.events).repairs == (
        "call c1 has no result",
        "call c2 has no result",
        "call c1 started and did not finish",
        "the last run has no end",
    )


def test_a_torn_tail_is_something_resume_repairs() -> None:
    report = check(finished_run(), tail=b"{half")
    assert (report.problems, report.repairs) == (
        (),
        ("5 bytes of an unfinished record at the end",),
    )


def test_damaged_lines_are_problems() -> None:
    assert check(finished_run(), problems=("line 3: a run of NUL bytes, left out",)).problems != ()


def test_a_call_without_a_result_in_a_finished_run_is_a_problem() -> None:
    events = [
        event
        for event in finished_run()
        if not (isinstance(event, ToolResultAdded) and event.call_id == "c1")
    ]
    assert check(events).problems == ("call c1 has no result",)


def test_two_results_for_one_call_are_a_problem() -> None:
    events = finished_run()
    result = next(event for event in events if isinstance(event, ToolResultAdded))
    assert (
        f"call {result.call_id} has 2 results" in check([*events[:-1], result, events[-1]]).problems
    )


def test_a_start_without_an_end_and_an_end_without_a_start_are_problems() -> None:
    events = finished_run()
    assert check([event for event in events if not isinstance(event, ToolFinished)]).problems == (
        "call c1 started and did not finish",
        "call c2 started and did not finish",
    )
    ends_only = [event for event in events if event.type != "tool.started"]
    assert check(ends_only).problems == (
        "call c1 finished and never started",
        "call c2 finished and never started",
    )


def test_a_run_that_was_left_open_before_another_one_is_a_problem() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.announce("c1")
    log.assistant("", "c1")
    log.run()
    log.user("again")
    log.end()
    assert check(log.events).problems == ("call c1 has no result",)
