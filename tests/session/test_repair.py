"""Closing what a killed process left open."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.events import (
    KnownEvent,
    RunFinished,
    SteerDelivered,
    SteerQueued,
    ToolResultAdded,
    UnknownEvent,
)
from codeagent.core.messages import text_of
from codeagent.session.fold import fold
from codeagent.session.recording import Recording
from codeagent.session.repair import check_recording, closing_events
from tests.session.eventlogs import SESSION, Log, finished_run, logs


def close(events: list[KnownEvent]) -> list[KnownEvent | UnknownEvent]:
    seq = events[-1].seq + 1 if events else 1
    return [*events, *closing_events(events, SESSION, seq, 5000.0)]


@given(logs(), st.data())
def test_any_prefix_of_any_log_passes_the_check_after_being_closed(
    events: list[KnownEvent], data: st.DataObject
) -> None:
    closed = close(events[: data.draw(st.integers(0, len(events)))])
    report = check_recording(Recording(tuple(closed)))
    assert report.problems == ()
    assert all("queued text" in repair for repair in report.repairs)


@given(logs(), st.data())
def test_closing_twice_adds_nothing_the_second_time(
    events: list[KnownEvent], data: st.DataObject
) -> None:
    closed = close(events[: data.draw(st.integers(0, len(events)))])
    assert closing_events(closed, SESSION, 9999, 6000.0) == ()


@given(logs(), st.data())
def test_closing_does_not_change_what_the_model_reads(
    events: list[KnownEvent], data: st.DataObject
) -> None:
    prefix = events[: data.draw(st.integers(0, len(events)))]
    before, after = fold(prefix).messages, fold(close(prefix)).messages
    assert after[: len(before)] == before


@given(logs())
def test_a_finished_log_needs_no_closing(events: list[KnownEvent]) -> None:
    assert closing_events(events, SESSION, 9999, 5000.0) == ()


def test_each_open_call_gets_a_cancelled_result_that_says_whether_it_had_started() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.announce("c1", "c2", "c3")
    log.assistant("", "c1", "c2", "c3")
    log.start("c1")
    log.start("c2")
    log.finish("c1")
    results = [event for event in close(log.events) if isinstance(event, ToolResultAdded)]
    assert [
        (result.call_id, result.executed, result.error and result.error.kind) for result in results
    ] == [("c1", True, None), ("c2", True, "cancelled"), ("c3", False, "cancelled")]


def test_a_call_that_was_announced_in_an_answer_that_never_came_is_closed_too() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.announce("c1", "c2")
    log.start("c1")
    results = [event for event in close(log.events) if isinstance(event, ToolResultAdded)]
    assert [(result.call_id, result.executed) for result in results] == [
        ("c1", True),
        ("c2", False),
    ]


def test_an_approval_that_waited_is_cancelled_and_never_granted() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.assistant("", "c1")
    log.add(
        ApprovalRequested,
        approval_id="c1.1",
        call_id="c1",
        name="read",
        target="x",
        reason="asks",
        blocks=(),
        binding="0" * 64,
    )
    [resolved] = [event for event in close(log.events) if isinstance(event, ApprovalResolved)]
    assert (resolved.approval_id, resolved.answer) == ("c1.1", "cancelled")


def test_a_run_without_an_end_is_ended_as_interrupted_with_its_usage() -> None:
    events = finished_run()[:-2]
    ended = close(events)[-1]
    assert isinstance(ended, RunFinished)
    assert (ended.reason, ended.text, ended.turns, ended.calls) == ("interrupted", "fixed", 2, 2)
    assert (ended.usage.input_tokens, ended.usage.cost_usd) == (10, 0.5)


def test_text_that_had_left_its_queue_becomes_its_message_and_queued_text_stays_queued() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.add(SteerQueued, id="q1", kind="steer", text="on its way")
    log.add(SteerQueued, id="q2", kind="follow_up", text="waiting")
    log.add(SteerDelivered, id="q1", kind="steer")
    history = fold(close(log.events))
    assert history.messages[-1].source == "steer"  # type: ignore[union-attr]  # a user message
    assert [queued.id for queued in history.undelivered] == ["q2"]


def test_a_command_of_the_users_own_that_was_running_is_ended_and_told_where_it_was_shared() -> (
    None
):
    log = Log()
    log.run()
    log.end()
    log.shell("shell-3", shared=True)
    started = log.events[:-2]
    closed = close(started)
    assert [event.type for event in closed[len(started) :]] == ["tool.finished", "tool.result"]
    [note] = fold(closed).notes
    assert "was stopped before it ended" in text_of(note.content)
    assert check_recording(Recording(tuple(started))).repairs == (
        "the command shell-3 did not end",
    )
    assert check_recording(Recording(tuple(started))).problems == ()


def test_a_command_may_span_the_edges_of_runs() -> None:
    log = Log()
    log.run()
    log.end()
    log.shell("shell-3", shared=False)
    started, finished, result = log.events[-3:]
    del log.events[-2:]
    log.run()
    log.user("go")
    log.end()
    events = [
        *log.events,
        *(replace(event, seq=log.seq + at) for at, event in ((1, finished), (2, result))),
    ]
    assert check_recording(Recording(tuple(events))).problems == ()
    assert started in events
