"""What two lines have in common."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.rendering.diff import changed_words, paired


def test_lines_are_paired_with_what_they_have_most_words_of() -> None:
    assert paired(["return a + b"], ["x = 1", "return a + c"]) == [(0, 1)]
    assert paired(["a", "b"], ["c", "d"]) == [(0, 0), (1, 1)]


def test_words_are_whole() -> None:
    assert changed_words("foo(bar, 1)", "foo(barn, 1)") == (((4, 7),), ((4, 8),))


@given(st.text("ab +1", max_size=20), st.text("ab +1", max_size=20))
def test_what_is_not_marked_is_the_same_in_both(old: str, new: str) -> None:
    gone, come = changed_words(old, new)
    if gone or come:
        assert _without(old, gone) == _without(new, come)


def _without(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    return "".join(character for at, character in enumerate(text) if not any(first <= at < end for first, end in spans))
