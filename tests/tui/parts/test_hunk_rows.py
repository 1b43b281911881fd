"""The rows of a change hunk by hunk: nothing of it is left out, and every line has its number."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.display import DiffBlock, cut
from codeagent.tui.parts.hunk_pane import CONTEXT, HunkRows, hunk_rows
from codeagent.tui.rendering.diff import LEAST_FOLDED, line_end_notes

LINES = st.lists(st.sampled_from(["", "a", "b", "}"]), max_size=25)
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def rows_of(
    before: str, after: str, *, everything: bool = False, start: int = 1
) -> tuple[HunkRows, ...]:
    hunks = cut(before, after)
    return hunk_rows(
        DiffBlock(path="a", before=before, after=after, start_line=start),
        hunks,
        [hunk.new for hunk in hunks],
        everything=everything,
    )


def lines_of(text: str) -> list[str]:
    return text.split("\n")[: -1 if text.endswith("\n") or not text else None]


@given(TEXT, TEXT, st.integers(1, 50))
def test_with_all_lines_the_rows_are_both_texts_with_their_numbers(
    before: str, after: str, start: int
) -> None:
    rows = [
        row for hunk in rows_of(before, after, everything=True, start=start) for row in hunk.rows
    ]
    if before == after:
        assert rows == []
        return
    old = [(row.old, row.text) for row in rows if row.kind in ("same", "removed")]
    new = [(row.new, row.text) for row in rows if row.kind in ("same", "added")]

    for shown, text in ((old, before), (new, after)):
        lines = list(enumerate(lines_of(text), start))
        # What is behind the last newline can be the same as a blank line of the other text.
        assert shown in (lines, [*lines, (start + len(lines), "")])


@given(TEXT, TEXT)
def test_what_is_left_out_between_hunks_is_counted(before: str, after: str) -> None:
    hunks, shown = cut(before, after), rows_of(before, after)
    for at, (hunk, rows) in enumerate(zip(hunks, shown, strict=True)):
        assert rows.line == hunk.start + 1
        if at == 0:
            assert rows.gap == 0
            continue
        apart = hunk.start - hunks[at - 1].start - len(hunks[at - 1].old)
        assert rows.gap in (0, apart - 2 * CONTEXT)
        assert (rows.gap == 0) == (apart < 2 * CONTEXT + LEAST_FOLDED)


def test_what_the_user_wrote_stands_in_place_of_what_was_proposed() -> None:
    diff = DiffBlock(path="a", before="1\n2\n3\n", after="1\ntwo\n3\n")
    (hunk,) = hunk_rows(diff, cut(diff.before, diff.after), [("zwei", "drei")])

    assert [(row.kind, row.text, row.old, row.new) for row in hunk.rows] == [
        ("same", "1", 1, 1),
        ("removed", "2", 2, None),
        ("added", "zwei", None, 2),
        ("added", "drei", None, 3),
        ("same", "3", 3, 4),
    ]


def test_a_newline_at_the_end_that_comes_or_goes_is_said() -> None:
    assert [row.text for row in rows_of("a", "a\n")[0].rows] == [
        "a",
        "a newline is added at the end",
    ]
    assert [row.text for row in rows_of("a\n", "a")[0].rows] == [
        "a",
        "the newline at the end is removed",
    ]


def test_line_ends_that_are_everywhere_the_same_are_no_part_of_a_line() -> None:
    assert [row.text for row in rows_of("a\r\nb\r\n", "a\r\nc\r\n")[0].rows] == ["a", "b", "c"]
    assert [row.text for row in rows_of("a\r\nb\n", "a\r\nc\n")[0].rows] == ["a\r", "b", "c"]


def test_line_ends_that_change_everywhere_are_said_once() -> None:
    (note,) = line_end_notes("a\nb\n", "a\r\nb\r\n")

    assert note.text == "line ends change from LF to CRLF"
    assert line_end_notes("a\r\n", "b\r\n") == ()
