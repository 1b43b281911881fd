"""Styled text broken into rows."""

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.lines import NARROWEST, Row, cells, cut_end, cut_middle, draw, wrap
from tests.table import for_each

BOLD = Style(bold=True)
TEXTS = st.text(
    st.sampled_from("ab c 漢字、。（é\u0301❤\ufe0f👍\t\n\x1b\u202e—…") | st.characters(),
    max_size=60,
)


def texts(rows: list[Row]) -> list[str]:
    return ["".join(text for text, _ in row.parts) for row in rows]


def joined(rows: list[Row]) -> str:
    return "".join(
        ("\n" if row.joins is None else row.joins) + text
        for row, text in zip(rows, texts(rows), strict=True)
    )


def test_words_are_kept_whole() -> None:
    rows = wrap([("one two three", None)], 8)
    assert (texts(rows), [row.joins for row in rows]) == (["one two", "three"], [None, " "])


def test_a_word_that_is_too_long_is_cut() -> None:
    rows = wrap([("a abcdefghij", None)], 4)
    assert (texts(rows), [row.joins for row in rows]) == (
        ["a", "abcd", "efgh", "ij"],
        [None, " ", "", ""],
    )


def test_a_newline_begins_a_row() -> None:
    rows = wrap([("one\n\ntwo", None)], 8)
    assert (texts(rows), [row.joins for row in rows]) == (["one", "", "two"], [None, None, None])


def test_wide_characters_break_between_each_other_but_not_before_punctuation() -> None:
    assert texts(wrap([("漢字漢、漢字", None)], 6)) == ["漢字", "漢、漢", "字"]


def test_an_accent_stays_with_its_letter() -> None:
    assert texts(wrap([("abce\u0301fgh", None)], 4)) == ["abce\u0301", "fgh"]


def test_styles_go_along() -> None:
    rows = wrap([("one ", None), ("two three", BOLD)], 8)
    assert [row.parts for row in rows] == [[("one ", None), ("two", BOLD)], [("three", BOLD)]]


def test_a_row_is_drawn_behind_its_gutter() -> None:
    (row,) = wrap([("\tx  ", None)], 20)
    line = draw(row, exact=True)
    assert (line.text, line.strip.text) == ("\tx  ", "    x  ")
    assert draw(row).text == "\tx"


@given(TEXTS, st.integers(1, 20), st.booleans())
def test_nothing_is_lost_and_no_row_is_too_wide(text: str, width: int, words: bool) -> None:
    middle = len(text) // 2
    rows = wrap([(text[:middle], None), (text[middle:], BOLD)], width, words=words)
    kept = visible(text[:middle]) + visible(text[middle:])
    assert joined(rows).rstrip(" ").lstrip("\n") == "\n".join(
        line for line in kept.split("\n")
    ).rstrip(" ").lstrip("\n")
    assert all(cell_len(draw(row).strip.text) <= max(width, NARROWEST) for row in rows)
    assert all(draw(row).strip.cell_length <= max(width, NARROWEST) for row in rows)


@given(st.text("ab  cd", max_size=80), st.integers(4, 12))
def test_plain_and_wide_text_break_alike(text: str, width: int) -> None:
    plain, wide = wrap([(text, None)], width), wrap([(text + "\n漢", None)], width)
    assert texts(wide)[:-1] == texts(plain)
    assert [row.joins for row in wide][:-1] == [row.joins for row in plain]


@given(TEXTS, TEXTS, st.integers(4, 12))
def test_rows_before_the_last_do_not_change_when_text_is_added(
    text: str, more: str, width: int
) -> None:
    text = text.rstrip()
    before = texts(wrap([(text, None)], width))[:-1]
    assert texts(wrap([(text + " " + more, None)], width))[: len(before)] == before


@given(st.characters())
def test_the_cells_of_every_character_are_as_rich_draws_them(character: str) -> None:
    assert cells(visible(character)) >= cell_len(
        visible(character).replace("\t", "    ").replace("\n", "")
    )


@given(
    st.lists(
        st.sampled_from(["👩\u200d💻", "❤\ufe0f", "1\ufe0f\u20e3", "🇩🇪", "a", " ", "漢", "\n"]),
        max_size=20,
    ),
    st.data(),
)
def test_an_emoji_is_never_cut_by_a_style_or_a_row(letters: list[str], data: st.DataObject) -> None:
    text = "".join(letters)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pairs = zip([0, *cuts], [*cuts, len(text)], strict=True)
    parts = [(text[start:end], BOLD if at % 2 else None) for at, (start, end) in enumerate(pairs)]
    rows = [draw(row) for row in wrap(parts, data.draw(st.integers(NARROWEST, 20)))]
    assert all("\\" not in row.strip.text for row in rows)
    assert sum(row.text.count("👩\u200d💻") + row.text.count("🇩🇪") for row in rows) == sum(
        letter in ("👩\u200d💻", "🇩🇪") for letter in letters
    )


@for_each("word", ["हिन्दी", "தமிழ்", "မြန်မာ", "ខ្មែរ", "সুন্দর", "กำ"])
def test_a_row_fits_where_spacing_marks_take_cells_of_their_own(word: str) -> None:
    """Else the terminal would draw the end of the row over its last cells, and a command would be
    shown without it."""
    rows = wrap([(f"echo {word} {word}{word} " * 6, None)], 30)
    for text in texts(rows):
        assert sum(1 if category(letter) == "Mc" else cell_len(letter) for letter in text) <= 30
    assert cells(word) >= cell_len(word)


@given(TEXTS, st.integers(0, 30))
def test_a_cut_text_fits_and_is_the_text_with_its_end_or_middle_left_out(
    text: str, width: int
) -> None:
    for cut in (cut_end, cut_middle):
        short = cut(text, width)
        head, _, tail = short.rpartition("…") if short != text else (short, "", "")
        assert cells(short) <= width or short == text == ""
        assert text.startswith(head) and text.endswith(tail)


@for_each(
    ("text", "end", "middle"),
    [
        ("abcdef", "abc…", "a…ef"),
        ("漢字漢字", "漢…", "…字"),
        ("👩\u200d💻👩\u200d💻x", "👩\u200d💻…", "…x"),
        ("abcd", "abcd", "abcd"),
    ],
)
def test_a_letter_is_never_cut_in_two(text: str, end: str, middle: str) -> None:
    assert (cut_end(text, 4), cut_middle(text, 4)) == (end, middle)
