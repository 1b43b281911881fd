"""Esc closes the top layer, then pauses, then stops; where nothing runs, twice goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.screens.escape import AGAIN, Escape, Meaning, Situation
from tests.tui.screens.stand_in import Clock

IDLE = Situation("idle")
WORKING = Situation("working", busy=True)
PAUSED = Situation("paused", busy=True)


@pytest.mark.parametrize(
    ("situation", "meaning"),
    [
        (Situation("working", busy=True, finding=True), "close_find"),
        (Situation("working", busy=True, elsewhere=True), "to_writing"),
        (Situation("idle", plan=True), "put_plan_away"),
        (Situation("idle", busy=True, command=True), "stop"),
        (WORKING, "pause"),
        (Situation("waiting", busy=True), "pause"),
        (Situation("pausing", busy=True), "stop"),
        (PAUSED, "stop"),
        (Situation("retrying", busy=True), "stop"),
        (Situation("paused", busy=True, new=True), "too_soon"),
        (IDLE, "offer_rewind"),
        (Situation("idle", blank=False), ""),
    ],
)
def test_the_first_press_acts_on_what_is_on_top(situation: Situation, meaning: Meaning) -> None:
    assert Escape(Clock()).press(situation) == meaning


@pytest.mark.parametrize(("seconds", "meaning"), [(AGAIN - 0.1, "rewind"), (AGAIN, "offer_rewind")])
def test_twice_goes_back_only_within_two_seconds(seconds: float, meaning: Meaning) -> None:
    clock = Clock()
    escape = Escape(clock)
    escape.press(IDLE)
    clock.now += seconds
    assert escape.press(IDLE) == meaning


def test_a_press_that_meant_something_else_is_not_the_first_of_two() -> None:
    escape = Escape(Clock())
    assert [escape.press(each) for each in (IDLE, Situation("idle", finding=True), IDLE)][-1] == "offer_rewind"


def test_a_pause_that_was_asked_for_can_be_made_a_stop_at_once() -> None:
    escape = Escape(Clock())
    assert [escape.press(WORKING), escape.press(Situation("paused", busy=True, new=True))] == ["pause", "stop"]


@given(
    st.lists(
        st.builds(
            Situation,
            st.sampled_from(["thinking", "answering", "working", "waiting"]),
            busy=st.just(True),
            new=st.booleans(),
            blank=st.booleans(),
        ),
        max_size=6,
    )
)
def test_what_has_not_paused_yet_is_always_paused_first(situations: list[Situation]) -> None:
    escape = Escape(Clock())
    assert {escape.press(each) for each in situations} <= {"pause"}
