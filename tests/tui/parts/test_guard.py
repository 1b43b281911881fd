from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.acts import Answer, SkipCall
from codeagent.core.policy import Answer as AnswerWord
from codeagent.core.policy import Decision
from codeagent.tui.parts.card_content import Send
from codeagent.tui.parts.guard import QUIET, REPEAT, Guard, allows
from tests.table import for_each


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_key_counts_half_a_second_after_the_question_appeared() -> None:
    clock = Clock()
    guard = Guard(clock)
    guard.close()
    clock.now += QUIET - 0.01
    assert not guard.admits("y")
    clock.now += REPEAT
    assert guard.admits("y")


def test_a_key_held_down_never_counts() -> None:
    clock = Clock()
    guard = Guard(clock)
    guard.close()
    clock.now += 0.3
    pressed = [guard.admits("y")]
    clock.now += 0.66
    for _ in range(100):
        pressed.append(guard.admits("y"))
        clock.now += 0.03
    assert not any(pressed)


def test_another_key_counts_at_once() -> None:
    clock = Clock()
    guard = Guard(clock)
    assert guard.admits("t")
    assert guard.admits("y")


@given(
    st.lists(
        st.tuples(st.floats(0, 2), st.sampled_from(["appears", "types", "y", "n"])), max_size=60
    )
)
def test_no_key_ever_counts_within_half_a_second_of_a_question_or_of_typing(
    steps: list[tuple[float, str]],
) -> None:
    clock = Clock()
    guard = Guard(clock)
    closed = float("-inf")
    for wait, what in steps:
        clock.now += wait
        if what in ("appears", "types"):
            guard.close()
            closed = clock.now
        elif guard.admits(what):
            assert clock.now - closed >= QUIET - 1e-9


@for_each("word", get_args(AnswerWord))
def test_every_answer_that_lets_a_call_happen_has_to_be_read_for(word: AnswerWord) -> None:
    assert allows(Send((SkipCall("c"), Answer("a", Decision(word))))) == (
        word in ("once", "session", "rule")
    )
