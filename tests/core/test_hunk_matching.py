"""Which lines two texts have in common."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.display import matching

LINES = st.lists(st.sampled_from("abcdef}"), max_size=30)


def test_lines_that_are_unique_hold_the_rest_in_place() -> None:
    old = ["def a():", "  x", "}", "def b():", "  y", "}"]
    new = ["def c():", "  z", "}", *old]
    assert matching(old, new) == [(0, 3, 6)]


@given(LINES, LINES)
def test_runs_are_equal_lines_in_order(old: list[str], new: list[str]) -> None:
    left = right = 0
    for first, begin, size in matching(old, new):
        assert first >= left
        assert begin >= right
        assert old[first : first + size] == new[begin : begin + size]
        left, right = first + size, begin + size


@given(LINES)
def test_equal_texts_have_everything_in_common(lines: list[str]) -> None:
    assert sum(size for _, _, size in matching(lines, list(lines))) == len(lines)


def test_lines_that_are_many_times_in_both_are_matched_too() -> None:
    old, new = ["}", "x"] * 100, ["}", "y"] * 100

    assert sum(size for _, _, size in matching(old, new)) == 100


def test_where_too_many_lines_differ_the_middle_is_not_matched() -> None:
    old, new = ["head", *["a", "b"] * 5_000, "tail"], ["head", *["b", "a", "a"] * 5_000, "tail"]

    assert matching(old, new) == [(0, 0, 1), (10_001, 15_001, 1)]
