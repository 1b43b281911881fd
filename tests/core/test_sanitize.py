"""What reaches a terminal: nothing in it acts."""

import json
import os
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.sanitize import one_line, spelled, unspelled, visible, visible_json
from tests.table import for_each

ACTING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def test_every_character_that_acts_is_escaped_and_no_letter_is() -> None:
    for code in [
        *range(0x3000),
        *range(0xD700, 0x10000),
        *range(0x11000, 0x14000),
        *range(0xE0000, 0x10FFFE, 7),
    ]:
        character = chr(code)
        acts = unicodedata.category(character) in ACTING and character not in "\n\t"
        if acts:
            assert visible(character).startswith("\\"), hex(code)
        elif unicodedata.category(character)[0] in "LNPSZ" and code not in (
            0x115F,
            0x1160,
            0x2800,
            0x3164,
            0xFFA0,
        ):
            assert visible(character) == character, hex(code)


@for_each(
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


@for_each(
    "character",
    [
        "\ufe00",
        "\ufe0f",
        "\U000e0100",
        "\U000e01ef",
        "\u034f",
        "\u2800",
        "\u180b",
        "\u180f",
        "\u17b4",
        "\u17b5",
        "\ufdd0",
        "\ufdef",
        "\ufffe",
        "\uffff",
        "\U0001fffe",
        "\U000dffff",
        "\U0010ffff",
    ],
)
def test_what_the_eye_does_not_see_is_shown(character: str) -> None:
    assert visible(f"a{character}b").startswith("a\\") and visible(character)[1] in "uU"


@for_each(
    "emoji",
    [
        *(
            "👨\u200d👩\u200d👧\u200d👦",
            "👩🏿\u200d❤\ufe0f\u200d💋\u200d👨🏻",
            "🏳\ufe0f\u200d🌈",
            "👩🏽\u200d💻",
        ),
        *("👩\u200d⚕", "🏳\u200d🌈", "⚡\ufe0f", "ℹ\ufe0f", "#\ufe0f\u20e3", "🇯🇵"),
        "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f",
    ],
)
def test_a_well_formed_emoji_is_shown_as_it_is(emoji: str) -> None:
    assert visible(f"a{emoji}b") == f"a{emoji}b"
    assert unspelled(spelled(f"a{emoji}")) == f"a{emoji}" and spelled(emoji) == emoji


@for_each(
    ("text", "shown"),
    [
        ("a\u200db", "a\\u200db"),
        ("👩\u200d", "👩\\u200d"),
        ("\u200d👩", "\\u200d👩"),
        ("1\ufe0f", "1\\ufe0f"),
        ("👩\ufe0f\ufe0f", "👩\ufe0f\\ufe0f"),
        ("👩\u200d\u202e👩", "👩\\u200d\\u202e👩"),
        ("👩" + "\u200d👩" * 4, "👩" + "\u200d👩" * 3 + "\\u200d👩"),
        ("🏴\U000e0072\U000e006d\U000e007f", "🏴\\U000e0072\\U000e006d\\U000e007f"),
        ("می\u200cخواهم", "می\\u200cخواهم"),
    ],
)
def test_the_invisible_parts_of_an_emoji_are_shown_outside_of_one(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_json_means_the_same_and_nothing_in_it_acts(text: str) -> None:
    for ascii_only in (True, False):
        shown = visible_json(json.dumps({text: [text]}, ensure_ascii=ascii_only))
        assert json.loads(shown) == {text: [text]}
        assert visible(shown) == shown


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_line_of_at_most_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert not {"\n", "\r", "\t", "\x1b"}.intersection(line)


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_making_visible_twice_changes_nothing_more(text: str) -> None:
    assert visible(visible(text)) == visible(text)


BYTES = st.lists(
    st.sampled_from(
        [
            b"a",
            b"0",
            b"\\",
            b"\\x",
            b"\\u00",
            b"\n",
            b"\r",
            b"\xff",
            b"\x85",
            b"/",
            "é\x85\u202e\U000e0041".encode(),
        ]
    )
    | st.binary(min_size=1, max_size=3)
).map(b"".join)


@given(BYTES.map(lambda name: name.replace(b"\0", b"")))
def test_every_path_is_spelled_on_one_line_of_utf8_and_read_back_as_the_same_bytes(
    name: bytes,
) -> None:
    path = os.fsdecode(name)
    text = spelled(path)
    assert text.splitlines() in ([text], []) and visible(text).encode() == text.encode()
    assert os.fsencode(unspelled(text)) == name


@for_each(
    "text",
    [
        "a\\x41",
        ".\\x67it",
        "a\\x2fb",
        "\\x00",
        "\\xc3\\xa9",
        "\\U99999999",
        "\\ud800",
        "\\uFFFD",
        "C:\\users\\new",
        "\\",
    ],
)
def test_a_text_that_no_path_is_spelled_like_is_the_path_itself(text: str) -> None:
    assert unspelled(text) == text
