"""Long output is searched as it is shown, without anything being prepared before."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.parts.output import LONGEST, OutputMatch, OutputText

TEXT = OutputText("one Two\n\x1b[31mthree\x1b[0m two\nfour\n")


def place(found: OutputMatch | None) -> tuple[int, int, int, int] | None:
    return None if found is None else (found.row, found.start, found.number, found.total)


def test_text_and_lines_give_the_same_rows() -> None:
    assert [TEXT.plain(row) for row in range(len(TEXT))] == ["one Two", "three two", "four"]
    assert OutputText(["one Two", "\x1b[31mthree\x1b[0m two", "four"]).whole == TEXT.whole
    assert len(OutputText("")) == 0


def test_a_search_goes_on_round_the_end_in_both_directions() -> None:
    assert place(TEXT.find("two", 0, 0)) == (0, 4, 1, 2)
    assert place(TEXT.find("two", 0, 5)) == (1, 6, 2, 2)
    assert place(TEXT.find("two", 1, 7)) == (0, 4, 1, 2)
    assert place(TEXT.find("two", 1, 6, backwards=True)) == (0, 4, 1, 2)
    assert place(TEXT.find("two", 0, 4, backwards=True)) == (1, 6, 2, 2)
    assert TEXT.find("five", 0, 0) is None
    assert OutputText("").find("x", 0, 0) is None


def test_case_counts_where_what_is_sought_has_capitals() -> None:
    assert place(TEXT.find("Two", 0, 0)) == (0, 4, 1, 1)
    assert list(TEXT.spans("two", 0)) == [(4, 7)]
    assert list(TEXT.spans("Two", 1)) == []


def test_only_colours_act() -> None:
    text = OutputText("\x1b[2J\x1b]0;title\x07a\x1b[32mb\x1b[0m\r50%\r100%\n\u202eevil\tx")
    assert text.raw(0).endswith("100%")
    assert "\x1b[2J" not in text.raw(0)
    assert text.plain(1) == "\\u202eevil    x"


def test_the_whole_is_the_rows_as_they_are_shown() -> None:
    text = OutputText("a\x1b[31mb\x1b[0m\tc\n1%\r2%\n\x1b]0;t\x07d\n\u202ee\n")
    assert (
        text.whole
        == "\n".join(text.plain(row) for row in range(len(text)))
        == "ab    c\n2%\nd\n\\u202ee"
    )


def test_a_line_that_is_very_long_goes_on_in_further_rows() -> None:
    text = OutputText(["x" * (2 * LONGEST + 5), "\x1b[31m" + "y" * LONGEST])
    assert [len(text.plain(row)) for row in range(len(text))] == [LONGEST, LONGEST, 5, LONGEST]


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\n"), max_size=20), max_size=6),
    st.text(max_size=2),
)
def test_what_is_found_is_where_it_says(lines: list[str], wanted: str) -> None:
    text = OutputText(lines)
    found = text.find(wanted, 0, 0)
    if found is not None:
        assert (found.start, found.start + len(wanted)) in list(text.spans(wanted, found.row))
        assert 1 <= found.number <= found.total
