"""Folding a log into messages: valid for every provider, whatever the log went through."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.events import KnownEvent, MessageAdded, Notice, SteerDelivered, SteerQueued, ToolResultAdded
from codeagent.core.messages import AssistantMessage, ToolMessage, text_of, transcript_problems
from codeagent.core.notices import ModeChanged
from codeagent.session.fold import fold
from tests.session.eventlogs import Log, finished_run, logs


def test_results_follow_their_assistant_message_in_the_order_of_its_calls() -> None:
    roles = [message.role for message in fold(finished_run()).messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    results = [message for message in fold(finished_run()).messages if isinstance(message, ToolMessage)]
    assert [(result.call_id, text_of(result.content)) for result in results] == [("c1", "first"), ("c2", "second")]


@given(logs(), st.data())
def test_any_prefix_of_any_log_folds_to_a_valid_transcript(events: list[KnownEvent], data: st.DataObject) -> None:
    prefix = events[: data.draw(st.integers(0, len(events)))]
    history = fold(prefix)
    assert transcript_problems(history.messages) == []
    assert history.dropped == ()


@given(logs(), st.randoms(use_true_random=False))
def test_a_log_with_events_missing_repeated_or_out_of_order_still_folds_to_a_valid_transcript(
    events: list[KnownEvent], chance: random.Random
) -> None:
    damaged = [event for event in events for _ in range(chance.choice([0, 1, 1, 2]))]
    chance.shuffle(damaged)
    assert transcript_problems(fold(damaged).messages) == []


@given(logs())
def test_a_whole_log_owes_nothing(events: list[KnownEvent]) -> None:
    history = fold(events)
    assert history.open_calls == ()
    assert history.undelivered == ()


def test_a_call_without_a_result_gets_one_that_says_the_session_ended() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.assistant("", "c1", "c2", "c3")
    log.start("c1")
    log.start("c2")
    log.finish("c1", "real")
    results = {m.call_id: m for m in fold(log.events).messages if isinstance(m, ToolMessage)}
    assert (text_of(results["c1"].content), results["c1"].is_error) == ("real", False)
    assert text_of(results["c2"].content).startswith("cancelled: session ended while it ran")
    assert text_of(results["c3"].content) == "cancelled: session ended"
    assert [(item.call.id, item.started) for item in fold(log.events).open_calls] == [("c2", True), ("c3", False)]


def test_a_result_whose_call_is_in_no_message_is_left_out() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.finish("nobody")
    assert [message.role for message in fold(log.events).messages] == ["user"]


def test_an_assistant_message_without_a_user_before_it_is_left_out_and_reported() -> None:
    log = Log()
    log.assistant("hello?")
    log.user("go")
    history = fold(log.events)
    assert [message.role for message in history.messages] == ["user"]
    assert len(history.dropped) == 1


def test_an_assistant_message_that_reuses_a_call_id_is_left_out_and_reported() -> None:
    events = finished_run()
    assistant = next(
        event for event in events if isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage)
    )
    repeated = [*events, replace(assistant, seq=99)]
    assert len(fold(repeated).dropped) == 1


def test_text_that_is_still_queued_is_kept() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.add(SteerQueued, id="q1", kind="steer", text="also the docs")
    [queued] = fold(log.events).undelivered
    assert (queued.id, queued.kind, queued.text, queued.taken_out) == ("q1", "steer", "also the docs", False)


def test_text_that_left_its_queue_but_became_no_message_is_kept() -> None:
    log = Log()
    log.run()
    log.add(SteerQueued, id="q1", kind="steer", text="one")
    log.add(SteerQueued, id="q2", kind="steer", text="two")
    log.add(SteerDelivered, id="q1", kind="steer")
    log.add(SteerDelivered, id="q2", kind="steer")
    log.user("one", "steer")
    [queued] = fold(log.events).undelivered
    assert (queued.text, queued.taken_out) == ("two", True)


def test_text_the_user_took_back_is_not_kept() -> None:
    log = Log()
    log.add(SteerQueued, id="q1", kind="steer", text="never mind")
    log.add(SteerDelivered, id="q1", kind="steer", taken_back=True)
    assert fold(log.events).undelivered == ()


def test_the_details_of_calls_that_ran_come_along_in_order() -> None:
    assert [(item.name, item.details) for item in fold(finished_run()).details] == [("read", {"path": "a.py"})] * 2


def test_events_of_other_agents_are_not_part_of_the_conversation() -> None:
    own = finished_run()
    assert fold([*own, *(replace(event, agent="tester.1") for event in own)]).messages == fold(own).messages


def test_the_log_of_a_child_folds_to_its_own_conversation() -> None:
    own = finished_run()
    assert fold([replace(event, agent="tester.1") for event in own]).messages == fold(own).messages


def test_the_last_result_counts_where_a_call_id_was_announced_twice() -> None:
    events = finished_run()
    result = next(event for event in events if isinstance(event, ToolResultAdded) and event.call_id == "c1")
    early = replace(result, content=(), seq=0)
    messages = fold([events[0], early, *events[1:]]).messages
    assert text_of(messages[2].content) == "first"  # type: ignore[union-attr]  # a tool message


def test_a_shared_command_waits_as_a_note_until_its_message_is_there_and_others_never_do() -> None:
    log = Log()
    log.run()
    log.user("go")
    log.end()
    log.shell("shell-5", shared=True)
    log.shell("shell-8", shared=False)
    [note] = fold(log.events).notes
    assert note.source == "note" and "make" in text_of(note.content)
    assert len(fold(log.events).messages) == 1
    log.run()
    log.add(MessageAdded, message=note)
    log.user("and now")
    assert fold(log.events).notes == ()
    assert [message.role for message in fold(log.events).messages] == ["user"] * 3


def test_the_mode_is_that_of_the_last_change_or_of_the_last_run() -> None:
    log = Log()
    assert fold(log.events).mode is None
    log.run()
    assert fold(log.events).mode == "ask"
    log.add(ModeChanged, text="plan", mode="plan")
    assert fold(log.events).mode == "plan"
    log.add(Notice, code="mode.changed", text="?", data={"mode": "of a newer version"})
    assert fold(log.events).mode == "plan"
    log.run()
    assert fold(log.events).mode == "ask"
