"""Hunks: whatever is taken of a change, the text is what it was with exactly that changed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.display import Hunk, HunkAnswer, cut, landed
from tests.effort import times
from tests.table import for_each

LINE = st.sampled_from(["", "a", "b", "}", "a\r", "é", "\u2028x"])
TEXT = st.one_of(st.lists(LINE, max_size=20).map("\n".join), st.text("ab\r\n", max_size=20))


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str]:
    """(before, after): the same text with some of its lines dropped, changed and added to; or any
    two."""
    before, other = draw(TEXT), draw(TEXT)
    if draw(st.booleans()):
        return before, other
    lines: list[str] = []
    for line in before.split("\n"):
        match draw(st.sampled_from(["keep", "keep", "keep", "drop", "change", "add"])):
            case "keep":
                lines.append(line)
            case "change":
                lines.append(draw(LINE))
            case "add":
                lines += [draw(LINE), line]
            case _:
                continue
    return before, "\n".join(lines)


def by_hand(before: str, hunks: tuple[Hunk, ...], answers: list[HunkAnswer]) -> str:
    """The same from the last hunk to the first, so that no place moves."""
    lines = before.split("\n")
    for hunk, answer in reversed(list(zip(hunks, answers, strict=True))):
        taken: Any = {True: hunk.new, False: hunk.old}.get(answer, answer)
        lines[hunk.start : hunk.start + len(hunk.old)] = taken
    return "\n".join(lines)


@settings(max_examples=times(80))
@given(edits())
def test_all_hunks_taken_is_the_new_text_and_none_the_old_one(texts: tuple[str, str]) -> None:
    before, after = texts
    hunks = cut(before, after)

    assert landed(before, hunks, [True] * len(hunks)) == after
    assert landed(before, hunks, [False] * len(hunks)) == before
    assert bool(hunks) == (before != after)


@settings(max_examples=times(80))
@given(edits(), st.data())
def test_any_answers_give_exactly_the_text_with_those_hunks(
    texts: tuple[str, str], data: st.DataObject
) -> None:
    before, after = texts
    hunks = cut(before, after)
    one: st.SearchStrategy[HunkAnswer] = st.booleans() | st.lists(LINE, max_size=3).map(tuple)
    answers = data.draw(st.lists(one, min_size=len(hunks), max_size=len(hunks)))

    assert landed(before, hunks, answers) == by_hand(before, hunks, answers)


@settings(max_examples=times(80))
@given(edits(), st.data())
def test_what_was_left_out_is_what_can_still_be_taken(
    texts: tuple[str, str], data: st.DataObject
) -> None:
    before, after = texts
    hunks = cut(before, after)
    answers = data.draw(st.lists(st.booleans(), min_size=len(hunks), max_size=len(hunks)))
    now = landed(before, hunks, answers)

    assert landed(now, cut(now, after), [True] * len(cut(now, after))) == after


@settings(max_examples=times(80))
@given(edits())
def test_hunks_are_the_old_and_new_lines_in_order_and_apart(texts: tuple[str, str]) -> None:
    before, after = texts
    lines, end = before.split("\n"), -1
    for hunk in cut(before, after):
        assert hunk.start > end
        assert hunk.old != hunk.new
        assert tuple(lines[hunk.start : hunk.start + len(hunk.old)]) == hunk.old
        end = hunk.start + len(hunk.old)


def test_changes_that_are_apart_are_hunks_of_their_own() -> None:
    before, after = "a\nb\nc\nd\ne\n", "a\nB\nc\nd\nnew\ne\n"

    assert cut(before, after) == (Hunk(1, ("b",), ("B",)), Hunk(4, (), ("new",)))


def test_a_newline_that_comes_or_goes_at_the_end_is_a_hunk() -> None:
    assert cut("a", "a\n") == (Hunk(1, (), ("",)),)
    assert cut("a\n", "a") == (Hunk(1, ("",), ()),)


def test_all_of_a_new_file_or_of_a_deleted_one_is_one_hunk() -> None:
    assert cut("", "a\n\nb\n") == (Hunk(0, (), ("a", "", "b")),)
    assert cut("", "\n") == (Hunk(0, (), ("",)),)
    assert cut("a\n\nb", "") == (Hunk(0, ("a", "", "b"), ("",)),)


def test_of_a_large_text_that_is_nothing_like_the_new_one_the_ends_are_kept() -> None:
    before = "\n".join(["first", *["x", "y"] * 20_000, "last"])
    after = "\n".join(["first", *["y", "x", "x"] * 20_000, "last"])

    (hunk,) = cut(before, after)
    assert (hunk.start, len(hunk.old), len(hunk.new)) == (1, 40_000, 60_000)


@for_each("answers", [[], [True], [True, False, True]])
def test_an_answer_too_few_or_too_many_is_refused(answers: list[bool]) -> None:
    with pytest.raises(ValueError, match="argument 2"):
        landed("a\nb\nc", cut("a\nb\nc", "A\nb\nC"), answers)
