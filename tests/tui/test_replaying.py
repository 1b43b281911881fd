"""A resumed session looks as it did when it was lived through, however much of its log was shown
first."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.events import KnownEvent, TurnStarted
from codeagent.tui.recorded import replayed, replayed_end
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from codeagent.tui.transcript import document as document_module
from codeagent.tui.transcript.blocks import AnyBlock, Batch, Remark
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.render import printed
from tests.tui.scripts import MOVES, START, Recording


def prompt_in_plan_mode(recording: Recording) -> object:
    return recording.finish().run("go on", mode="plan")


EVENTS = st.lists(st.sampled_from((*MOVES, prompt_in_plan_mode)), max_size=40)


def session(moves: Sequence[Callable[[Recording], object]]) -> list[KnownEvent]:
    recording = Recording().run("begin")
    for move in moves:
        move(recording)
    return [event for event in recording.events if event.durable]


def lived(events: Sequence[KnownEvent]) -> UiState:
    state = UiState()
    reducer = Reducer(state, live=True)
    for event in events:
        reducer.apply(event)
    reducer.end_recording()
    return state


def text(blocks: Sequence[AnyBlock]) -> str:
    return printed(blocks, 80, "full", START)


@given(EVENTS, st.data())
def test_a_replay_shows_what_was_lived_through_whatever_was_shown_of_its_end_before(
    moves: list[Callable[[Recording], object]], data: st.DataObject
) -> None:
    events, state = session(moves), UiState()
    cut = data.draw(st.none() | st.integers(0, len(events)))
    if cut is not None:
        state.document.show_end(replayed_end(events[cut:]))
        state.document.remark("meanwhile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_module, "_AT_A_TIME", data.draw(st.integers(1, 5)))
        for _ in state.replay(replayed(events)[0]):
            state.document.remark("between two slices")

    expected = lived(events)
    count, blocks = len(expected.document.blocks), state.document.blocks
    assert text(blocks[:count]) == text(expected.document.blocks)
    assert all(isinstance(block, Remark) for block in blocks[count:])
    assert [block.key for block in blocks] == list(range(len(blocks)))
    assert (state.queue.items, state.boundary.now) == (expected.queue.items, expected.boundary.now)
    assert (state.jobs.rows, state.jobs.end_notes) == (expected.jobs.rows, expected.jobs.end_notes)
    chosen = {"mode": "", "model": ""}
    assert state.status.now.changed(**chosen) == expected.status.now.changed(**chosen)
    assert not state.document.partial


def test_of_the_end_of_a_log_only_whole_turns_are_shown() -> None:
    recording = (
        Recording().run("first").plan(("c1", "bash", "make", "auto")).start("c1", "bash", "make")
    )
    cut = len(recording.events)
    recording.result("c1", "bash").end_batch(executed=1).answer("done").finish().run(
        "second"
    ).answer("also done")

    end = replayed_end(recording.events[cut:])

    assert [type(block).__name__ for block in end.blocks] == ["PromptBlock", "AnswerBlock"]


def test_what_became_of_calls_that_began_before_the_end_is_left_out_of_it() -> None:
    recording = (
        Recording().run("first").start("s1", "shell", "make", shared=True).finish().run("second")
    )
    recording.result("s1", "shell").answer("done")
    begun = next(at for at, event in enumerate(recording.events) if event.type == "run.finished")

    end = replayed_end(recording.events[begun:])

    assert not any(isinstance(block, Batch) for block in end.blocks)


def test_an_end_without_a_turn_shows_nothing() -> None:
    assert replayed_end(Recording().run("go").finish().events[-1:]).blocks == []


def test_what_continues_after_a_replay_belongs_to_what_was_recorded() -> None:
    recording = (
        Recording().run("fix the parser").checkpoint("k1", "prompt", "fix the parser").finish()
    )
    state = UiState()
    recorded, reducer = replayed(recording.events)
    for _ in state.replay(recorded):
        pass
    reducer.go_live(state)
    recording.restored("k1", "undo", ["a.py"], conversation=True)

    reducer.apply(recording.events[-1])

    [remark] = [block for block in state.document.blocks if isinstance(block, Remark)]
    assert "back to before “fix the parser”" in remark.text


def test_the_end_of_a_session_that_is_not_continued_is_removed_again() -> None:
    document = Document()
    document.remark("a warning")
    document.show_end(replayed_end(Recording().run("go").answer("done").events))

    document.forget_recorded()

    assert [block.text for block in document.blocks if isinstance(block, Remark)] == ["a warning"]
    assert len(document.blocks) == 1


def test_a_call_that_began_early_is_below_the_words_that_asked_for_it_also_in_a_replay() -> None:
    recording = Recording().run("begin")
    recording.think("Which file?").stream("Let me look.").start("call_1", "read", "a.txt")
    recording.result("call_1", "read", "one line")
    recording.answer("Let me look.", thinking="Which file?")
    recording.plan(("call_1", "read", "a.txt", "auto"), ("call_2", "read", "b.txt", "auto"))
    durable = [event for event in recording.events if event.durable]
    for events in (recording.events, durable):
        shown = text(lived(events).document.blocks)
        assert shown.index("Which file?") < shown.index("Let me look.") < shown.index("a.txt")


def test_the_next_answer_is_below_calls_whose_plan_was_lost() -> None:
    recording = Recording().run("begin")
    recording.start("call_1", "read", "a.txt").result("call_1", "read", "one line")
    recording.add(TurnStarted, turn=2)
    recording.answer("It has one line.")
    shown = text(lived(recording.events).document.blocks)
    assert shown.index("a.txt") < shown.index("It has one line.")


def test_an_answer_is_below_the_agents_of_a_group_which_no_turn_began() -> None:
    document = Document()
    document.card("call_1", "agent", "the planner")
    document.finish_answer("All is planned.")
    shown = text(document.blocks)
    assert shown.index("the planner") < shown.index("All is planned.")
