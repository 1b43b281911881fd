"""What reaches a terminal: nothing in it acts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.sanitize import one_line, visible

ACTING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def test_every_character_that_acts_is_escaped_and_no_letter_is() -> None:
    for code in [*range(0x3000), *range(0xD700, 0x10000), *range(0x11000, 0x14000), *range(0xE0000, 0x10FFFE, 7)]:
        character = chr(code)
        acts = unicodedata.category(character) in ACTING and character not in "\n\t"
        if acts:
            assert visible(character).startswith("\\"), hex(code)
        elif unicodedata.category(character)[0] in "LNPSZ" and code not in (0x115F, 0x1160, 0x3164, 0xFFA0):
            assert visible(character) == character, hex(code)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\u202eb", "a\\u202eb"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("a\r\nb\n\tc", "a\nb\n\tc"),
        ("progress\rbar", "progress\\x0dbar"),
        ("\x9b1m", "\\x9b1m"),
        ("héllo 你好 ✓", "héllo 你好 ✓"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_line_of_at_most_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert not {"\n", "\r", "\t", "\x1b"}.intersection(line)


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_making_visible_twice_changes_nothing_more(text: str) -> None:
    assert visible(visible(text)) == visible(text)
