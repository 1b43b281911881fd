"""Text a user is asked to allow."""

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from codeagent.core.sanitize import emoji_spans, visible
from codeagent.tui.rendering.lines import NARROWEST
from codeagent.tui.rendering.marked import marked_lines, marked_text
from codeagent.tui.rendering.palette import Palette
from tests.table import for_each

PALETTE = Palette(text=Style(color="white"), warning=Style(color="yellow"))
TEXTS = st.text(
    st.sampled_from("ab -/\"'\n \t\u202e\u200b\u0430\u00a0\u3164\ufe0f\r\x1b漢é") | st.characters(),
    max_size=80,
)


def drawn(text: str, width: int = 40) -> list[str]:
    return [line.strip.text for line in marked_lines(text, width, PALETTE)]


def test_plain_text_is_shown_as_it_is() -> None:
    assert marked_text("git push\necho 'a  b'", PALETTE) == [
        ("git push\necho 'a  b'", PALETTE.text)
    ]


@for_each(
    "code",
    [
        *(
            0x00,
            0x07,
            0x09,
            0x0D,
            0x1B,
            0x7F,
            0x85,
            0x9B,
            0xA0,
            0xAD,
            0x034F,
            0x061C,
            0x115F,
            0x1160,
            0x180B,
            0x180E,
        ),
        *(
            0x2003,
            0x200B,
            0x200D,
            0x200F,
            0x2028,
            0x2029,
            0x202E,
            0x2066,
            0x2800,
            0x3000,
            0x3164,
            0xD800,
            0xE000,
        ),
        *(0xFE0F, 0xFEFF, 0xFFA0, 0xFFFE, 0x1D173, 0xE0001, 0xE0041, 0xE007F, 0xE0100, 0xF0000),
    ],
)
def test_what_is_not_seen_is_written_as_its_number(code: int) -> None:
    assert marked_text(f"a{chr(code)}b", PALETTE)[1] == (f"\\u{{{code:x}}}", PALETTE.warning)


def test_letters_that_look_like_others_are_underlined_and_listed() -> None:
    parts = marked_text("p\u0430yp\u0430l", PALETTE)
    assert parts[1] == ("\u0430", PALETTE.warning + Style(underline=True))
    assert drawn("p\u0430yp\u0430l") == ["p\u0430yp\u0430l", "2 look-alikes: U+0430 as a"]


def test_look_alike_quotes_are_listed_too() -> None:
    assert drawn("echo \u2019x\u2019 \u0430", 60)[-1] == "3 look-alikes: U+2019 as ', U+0430 as a"


@for_each(
    "text",
    [
        "git commit -m '日本語：ログインを修正（ノート）'",
        "git commit -m 'Исправил ошибку с кодировкой'",
        "git commit -m 'إصلاح ٥ أخطاء'",
        "git commit -m 'हिन्दी संदेश'",
        "echo 👨\u200d👩\u200d👧\u200d👦 🇩🇪 1\ufe0f\u20e3 ❤\ufe0f 🫨",
        "echo \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    ],
)
def test_emoji_and_words_of_another_script_are_shown_as_they_are(text: str) -> None:
    assert marked_text(text, PALETTE) == [(text, PALETTE.text)]
    assert drawn(text, 80) == [text]


def test_what_joins_emoji_is_shown_outside_of_one() -> None:
    assert drawn("👩\u200d\u202e👧 a\ufe0f", 60) == ["👩\\u{200d}\\u{202e}👧 a\\u{fe0f}"]


def test_a_mark_is_shown_as_its_number_unless_it_is_on_a_letter() -> None:
    assert drawn("a\u0301 ;\u0338 \u0323x") == ["a\u0301 ;\\u{338} \\u{323}x"]


def test_what_is_said_about_a_text_is_not_copied() -> None:
    assert [(line.text, line.joins) for line in marked_lines("\u0430", 40, PALETTE)] == [
        ("\u0430", None),
        ("", ""),
    ]


def test_padding_is_folded_with_its_count() -> None:
    assert drawn("git status" + " " * 40 + "; rm x") == ["git status⟨40 spaces⟩; rm x"]
    assert drawn("a" + "\t" * 9 + "b") == ["a⟨9 tabs⟩b"]
    assert drawn("a" + "\n" * 61 + "b") == ["a", "⟨60 blank lines⟩", "b"]
    assert drawn("a" + " \t" * 20 + "b") == ["a⟨40 blanks⟩b"]
    assert drawn("a\n" + " \t\n" * 60 + "b", 60) == [
        "a",
        "⟨60 blank lines with 120 spaces and tabs⟩",
        "b",
    ]


def test_eight_of_them_are_not_folded() -> None:
    assert drawn("a" + " " * 8 + "b") == ["a        b"]
    assert len(drawn("a" + "\n" * 9 + "b")) == 10


def test_where_a_word_goes_on_in_the_next_row_is_said() -> None:
    assert drawn("rm -rf /home/me", 9) == ["rm -rf", "/home/me"]
    assert drawn("rm -rf /home/user/x", 9) == ["rm -rf", "/home/us↩", "er/x"]


@given(TEXTS, st.integers(1, 60))
def test_nothing_is_hidden(text: str, width: int) -> None:
    """All that is left out of the rows is one space where a row ends between words."""
    lines = [
        line for line in marked_lines(text, width, PALETTE) if (line.text, line.joins) != ("", "")
    ]
    shown = "".join(("\n" if line.joins is None else line.joins) + line.text for line in lines)[1:]
    assert shown.rstrip(" ") == "".join(part for part, _ in marked_text(text, PALETTE)).rstrip(" ")
    assert all(line.joins in (None, "", " ") for line in lines)
    assert all(line.strip.text.rstrip("↩") == line.text.rstrip("↩") for line in lines)
    assert all(line.strip.cell_length <= max(width, NARROWEST + 1) for line in lines)


@given(TEXTS)
def test_every_character_is_shown_or_written_as_its_number_or_counted(text: str) -> None:
    shown = "".join(part for part, _ in marked_text(text, PALETTE))
    assert visible(shown) == shown
    for start, end in reversed(emoji_spans(text)):
        text = text[:start] + text[end:]
    for character in set(text) - {" ", "\t", "\n"}:
        is_new = category(character) == "Cn" and character in shown
        seen = is_new or (
            category(character)[0] not in "CZ" and character not in "\u115f\u1160\u3164\uffa0\u2800"
        )
        written = f"\\u{{{ord(character):x}}}"
        assert shown.count(written) + (shown.count(character) if seen else 0) >= text.count(
            character
        )
