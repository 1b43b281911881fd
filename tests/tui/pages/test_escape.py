"""Esc closes the top layer, then pauses, then stops; where nothing runs, twice goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.pages.escape import AGAIN, Escape, Meaning, Situation
from tests.table import for_each
from tests.tui.pages.stand_in import Clock

IDLE = Situation()
WORKING = Situation(busy=True)
NEW = Situation("paused", busy=True, new=True)


@for_each(
    ("situation", "meaning"),
    [
        (Situation(busy=True, finding=True), "close_find"),
        (Situation(busy=True, elsewhere=True), "to_writing"),
        (Situation(plan=True), "put_plan_away"),
        (Situation(busy=True, command=True), "stop_command"),
        (Situation("paused", busy=True, command=True), "stop_command"),
        (WORKING, "pause"),
        (Situation("pausing", busy=True), "stop"),
        (Situation("paused", busy=True), "stop"),
        (NEW, "too_soon"),
        (IDLE, "offer_rewind"),
        (Situation(blank=False), ""),
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
    assert [escape.press(each) for each in (IDLE, Situation(finding=True), IDLE)][
        -1
    ] == "offer_rewind"


def test_a_pause_that_was_asked_for_can_be_made_a_stop_at_once() -> None:
    escape = Escape(Clock())
    assert [escape.press(WORKING), escape.press(NEW)] == ["pause", "stop"]


def test_a_pause_that_came_by_itself_is_stopped_by_the_second_press_however_soon() -> None:
    escape = Escape(Clock())
    assert [escape.press(NEW), escape.press(NEW)] == ["too_soon", "stop"]


def test_a_pause_that_is_asked_for_again_after_something_was_sent_does_not_stop() -> None:
    escape = Escape(Clock())
    escape.press(WORKING)
    escape.forget()
    assert escape.press(WORKING) == "pause"


@pytest.mark.parametrize(
    "first", [Situation(busy=True, command=True), Situation("paused", busy=True)]
)
def test_after_a_stop_further_presses_do_nothing_for_two_seconds(first: Situation) -> None:
    clock = Clock()
    escape = Escape(clock)
    assert escape.press(first).startswith("stop")
    assert [
        escape.press(each) for each in (IDLE, WORKING, IDLE, Situation("stopping", busy=True))
    ] == ["stopped"] * 4
    clock.now += AGAIN
    assert escape.press(IDLE) == "offer_rewind"


def test_something_that_is_sent_after_a_stop_can_be_paused_at_once() -> None:
    escape = Escape(Clock())
    escape.press(Situation("paused", busy=True))
    escape.forget()
    assert escape.press(WORKING) == "pause"


def test_four_fast_presses_end_a_run_and_nothing_else() -> None:
    escape = Escape(Clock())
    presses = [WORKING, Situation("pausing", busy=True), IDLE, IDLE]
    assert [escape.press(each) for each in presses] == ["pause", "stop", "stopped", "stopped"]


@given(
    st.lists(
        st.builds(
            Situation,
            st.sampled_from(["", "pausing", "paused"]),
            new=st.booleans(),
            blank=st.booleans(),
            busy=st.just(True),
        ),
        min_size=2,
        max_size=2,
    ),
    st.lists(
        st.builds(Situation, finding=st.booleans(), plan=st.booleans(), busy=st.booleans()),
        max_size=4,
    ),
)
def test_of_two_presses_on_something_that_runs_the_second_stops_it(
    situations: list[Situation], before: list[Situation]
) -> None:
    """Unless an earlier press just stopped it."""
    escape = Escape(Clock())
    earlier = [escape.press(each) for each in before]
    meanings = [escape.press(each) for each in situations]
    assert "stop" in meanings or "stop" in earlier
