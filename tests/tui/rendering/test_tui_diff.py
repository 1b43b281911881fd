"""What changes between two texts."""

from hypothesis import assume, given
from hypothesis import strategies as st
from rich.style import Style

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.diff import (
    DiffRow,
    changed_words,
    counts,
    diff_rows,
    paired,
    split_lines,
    unified_lines,
)
from codeagent.tui.rendering.lines import NARROWEST, Line
from codeagent.tui.rendering.palette import CodeStyles, DiffStyles, Palette
from tests.table import for_each

PALETTE = Palette()
TEXTS = st.lists(
    st.sampled_from(
        [
            "",
            "a",
            "b",
            "}",
            "def f(x):",
            "\treturn x + 1",
            "    return x",
            "end ",
            "漢字" * 6,
            "x" * 50,
            "\u202e",
        ]
    )
    | st.text(st.sampled_from("ab \t\r\x1b"), max_size=9),
    max_size=12,
).flatmap(lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines)))


def kinds(rows: tuple[DiffRow, ...]) -> str:
    return "".join(
        {"same": "=", "added": "+", "removed": "-", "gap": "~", "note": "!"}[row.kind]
        for row in rows
    )


def texts(lines: list[Line]) -> list[str]:
    return [line.strip.text.rstrip() for line in lines]


def copied(lines: list[Line]) -> str:
    return "".join(
        ("\n" if line.joins is None else line.joins) + line.text for line in lines
    ).removeprefix("\n")


def test_lines_around_a_change_are_kept_and_the_others_counted() -> None:
    before = "".join(f"{number}\n" for number in range(1, 31))
    rows = diff_rows(before, before.replace("15\n", "x\n"), 100)
    assert kinds(rows) == "~===-+===~"
    assert (rows[0].text, rows[-1].text) == ("11 unchanged lines", "12 unchanged lines")
    assert [(row.old, row.new) for row in rows[3:6]] == [(113, 113), (114, None), (None, 114)]
    assert counts(rows) == (1, 1)


def test_a_single_line_is_never_left_out() -> None:
    assert kinds(diff_rows("1\n2\n3\n", "1\n2\nx\n", context=1)) == "==-+"


def test_a_new_file_is_all_added() -> None:
    rows = diff_rows("", "a\nb\n")
    assert [(row.kind, row.text, row.new) for row in rows] == [("added", "a", 1), ("added", "b", 2)]


def test_the_words_that_differ_are_marked() -> None:
    old, new = diff_rows("x = one + two\n", "x = one + three\n")
    assert [old.text[first:end] for first, end in old.changed] == ["two"]
    assert [new.text[first:end] for first, end in new.changed] == ["three"]


def test_a_line_is_compared_with_what_became_of_it() -> None:
    rows = diff_rows("return 366 if y else 365\n", "leap = y\nreturn 366 if leap else 365\n")
    assert [bool(row.changed) for row in rows] == [True, False, True]


def test_lines_with_little_in_common_have_no_words_marked() -> None:
    assert all(not row.changed for row in diff_rows("one two three\n", "def f(x): pass\n"))


def test_large_texts_are_compared_by_line_only() -> None:
    before = "".join(f"line {number}\n" for number in range(6_000))
    rows = diff_rows(before, before.replace("line 77\n", "line x\n"))
    assert (counts(rows), any(row.changed for row in rows)) == ((1, 1), False)


@for_each(
    ("before", "after", "shape", "note"),
    [
        ("a\n", "a", "=!", "the newline at the end is removed"),
        ("a", "a\n", "=!", "a newline is added at the end"),
        ("", "a", "+!", "no newline at the end"),
        ("a\r\n", "a\n", "!=", "line ends change from CRLF to LF"),
        ("a\n", "a\r\n", "!=", "line ends change from LF to CRLF"),
        ("", "a\r\n", "!+", "lines end in CRLF"),
    ],
)
def test_how_texts_end_is_said(before: str, after: str, shape: str, note: str) -> None:
    rows = diff_rows(before, after)
    assert (kinds(rows), [row.text for row in rows if row.kind == "note"]) == (shape, [note])


def test_two_excerpts_without_a_newline_say_nothing() -> None:
    assert kinds(diff_rows("a", "b")) == "-+"


def test_single_carriage_returns_are_a_change_that_is_shown_and_not_copied() -> None:
    rows = diff_rows("a\r\nb\n", "a\nb\n")
    lines = unified_lines(rows, 40, PALETTE)
    assert texts(lines) == ["   1 - a␍", "   1 + a", "   2   b"]
    assert copied(lines) == "a\na\nb"


def test_unified_lines_have_numbers_and_signs_that_are_not_copied() -> None:
    lines = unified_lines(diff_rows("a\nb\n", "a\nc\n"), 40, PALETTE)
    assert texts(lines) == ["   1   a", "   2 - b", "   2 + c"]
    assert [line.text for line in lines] == ["a", "b", "c"]


def test_long_lines_wrap_and_are_copied_whole() -> None:
    lines = unified_lines(diff_rows("", "x" * 30 + "\n"), 20, PALETTE)
    assert texts(lines) == ["   1 + " + "x" * 13, "     + " + "x" * 13, "     + xxxx"]
    assert copied(lines) == "x" * 30


def test_blanks_are_visible_where_a_line_changes() -> None:
    lines = unified_lines(diff_rows("\ta\n", "    a \t\n"), 40, PALETTE)
    assert texts(lines) == ["   1 - →   a", "   1 +     a·→···"]
    assert copied(lines) == "\ta\n    a \t"


def test_a_whole_line_has_its_background() -> None:
    palette = Palette(
        diff=DiffStyles(added=Style(bgcolor="green")),
        code=CodeStyles(tokens={"keyword": Style(color="red")}),
    )
    (line,) = unified_lines(diff_rows("", "return\n"), 20, palette, "x.py")
    assert line.strip.cell_length == 20
    assert [part.style for part in line.strip if part.text == "return"] == [
        Style(bgcolor="green", color="red")
    ]


def test_without_backgrounds_the_colour_of_a_line_says_what_it_is() -> None:
    palette = Palette(
        diff=DiffStyles(added=Style(color="green")),
        code=CodeStyles(tokens={"keyword": Style(color="red")}),
    )
    (line,) = unified_lines(diff_rows("", "return\n"), 20, palette, "x.py")
    assert [part.style for part in line.strip if part.text == "return"] == [Style(color="green")]


def test_split_lines_stand_beside_each_other_and_copy_the_new_text() -> None:
    lines = split_lines(diff_rows("a\nb\nc\n", "a\nx\n"), 43, PALETTE)
    assert texts(lines) == [
        "   1   a             │    1   a",
        "   2 - b             │    2 + x",
        "   3 - c             │",
    ]
    assert copied(lines) == "a\nx"


def test_split_lines_are_unified_where_there_is_no_room() -> None:
    rows = diff_rows("a\n", "b\n")
    assert texts(split_lines(rows, 18, PALETTE)) == texts(unified_lines(rows, 18, PALETTE))


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_both_texts_can_be_read_from_the_rows(before: str, after: str, context: int) -> None:
    rows = diff_rows(before, after, 7, context=10**6)
    assume(counts(rows) != (0, 0))
    for kind, text in (("removed", before), ("added", after)):
        lines = [row.text for row in rows if row.kind in (kind, "same")]
        whole = text.split("\n") if text else []
        whole = whole[:-1] if whole and not whole[-1] else whole
        assert [line.rstrip("\r") for line in lines] == [line.rstrip("\r") for line in whole]
    assert [row.old for row in rows if row.old] == [
        7 + at for at in range(sum(row.old is not None for row in rows))
    ]
    assert [row.new for row in rows if row.new] == [
        7 + at for at in range(sum(row.new is not None for row in rows))
    ]
    brief = diff_rows(before, after, 7, context)
    assert [row for row in brief if row.kind in ("added", "removed")] == [
        row for row in rows if row.kind in ("added", "removed")
    ]


@given(TEXTS, TEXTS, st.integers(1, 60))
def test_no_character_of_a_line_is_hidden(before: str, after: str, width: int) -> None:
    rows = diff_rows(before, after)
    lines = unified_lines(rows, width, PALETTE, "x.py")
    shown = [
        visible(row.text.removesuffix("\r")) for row in rows if row.kind not in ("gap", "note")
    ]
    assert copied(lines).removeprefix("\n") == "\n".join(shown).removeprefix("\n")
    for line in [*lines, *split_lines(rows, width, PALETTE, "x.py")]:
        assert line.strip.cell_length <= max(width, NARROWEST)
        assert visible(line.strip.text) == line.strip.text


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
    return "".join(
        character
        for at, character in enumerate(text)
        if not any(first <= at < end for first, end in spans)
    )
