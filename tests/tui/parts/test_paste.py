"""What is pasted is kept exactly, and nothing of it acts on the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.parts.prompt_text import Chips, harmless, is_long
from tests.table import for_each


@for_each(
    ("text", "long"),
    [
        ("x" * 1_000, False),
        ("x" * 1_001, True),
        ("\n".join("abcdefghij"), False),
        ("\n".join("abcdefghijk"), True),
        ("\r".join("abcdefghijk"), True),
        ("", False),
    ],
)
def test_more_than_ten_lines_or_a_thousand_characters_are_long(text: str, long: bool) -> None:
    assert is_long(text) is long


def test_what_would_act_on_a_terminal_is_shown_instead() -> None:
    assert harmless("a\x1b[2Jb\u202ec\x07\r\nd\re\tf") == "a\\x1b[2Jb\\u202ec\\x07\nd\ne\tf"


def test_a_chip_says_how_much_it_stands_for() -> None:
    chips = Chips()
    assert (
        chips.add("x" * 999_999 + "\n").replace("\xa0", " ")
        == "[pasted 1,000,000 characters, 2 lines #1]"
    )
    assert chips.add("yy").replace("\xa0", " ") == "[pasted 2 characters, 1 line #2]"


def test_words_typed_like_a_chip_are_no_chip() -> None:
    chips = Chips()
    typed = chips.add("secret").replace("\xa0", " ")
    assert chips.expand(typed) == typed
    assert chips.spans(typed) == []


def test_numbers_are_not_used_again_after_the_texts_were_let_go() -> None:
    chips = Chips()
    first = chips.add("one")
    chips.clear()
    assert chips.add("one") != first
    assert chips.expand(first) == first


texts = st.text(st.characters(exclude_characters="\r\xa0", exclude_categories=["Cs"]), max_size=30)


@given(st.lists(st.tuples(texts, texts), max_size=5))
def test_expanding_always_gives_back_what_was_pasted_where_it_was_pasted(
    pairs: list[tuple[str, str]],
) -> None:
    chips = Chips()
    typed = "".join(before + chips.add(pasted) for before, pasted in pairs)
    assert chips.expand(typed) == "".join(before + pasted for before, pasted in pairs)


def test_a_pasted_chip_inside_a_paste_stays_words() -> None:
    chips = Chips()
    inner = chips.add("inner")
    outer = chips.add(f"before {inner} after")
    assert chips.expand(outer) == f"before {inner} after"
