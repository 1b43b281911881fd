"""What a program coloured."""

from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.ansi import ansi_line
from tests.table import for_each

BASE = Style(italic=True)


def style_after(*sequences: str) -> Style:
    line = ansi_line("".join(f"\x1b[{each}m" for each in sequences) + "x", Style())
    (part,) = line.strip
    return part.style or Style()


def test_plain_text_is_in_the_base_style() -> None:
    line = ansi_line("plain", BASE)
    assert [(part.text, part.style) for part in line.strip] == [("plain", BASE)]


def test_colours_apply_from_where_they_are_and_are_not_copied() -> None:
    line = ansi_line("a\x1b[31mb\x1b[0mc", BASE)
    assert [(part.text, part.style) for part in line.strip] == [
        *(("a", BASE), ("b", BASE + Style(color=Color.from_ansi(1))), ("c", BASE))
    ]
    assert line.text == "abc"


@for_each(
    ("sequence", "style"),
    [
        ("31", Style(color=Color.from_ansi(1))),
        ("97", Style(color=Color.from_ansi(15))),
        ("42", Style(bgcolor=Color.from_ansi(2))),
        ("104", Style(bgcolor=Color.from_ansi(12))),
        ("38;5;208", Style(color=Color.from_ansi(208))),
        ("48;2;1;2;3", Style(bgcolor=Color.from_rgb(1, 2, 3))),
        ("38:2::1:2:3", Style(color=Color.from_rgb(1, 2, 3))),
        ("38:2:1:2:3", Style(color=Color.from_rgb(1, 2, 3))),
        ("38:5:9;1", Style(color=Color.from_ansi(9), bold=True)),
        (
            "1;2;3;4;7;9",
            Style(bold=True, dim=True, italic=True, underline=True, reverse=True, strike=True),
        ),
        ("4:3", Style(underline=True)),
        *(
            ("4;4:0", Style()),
            ("8", Style()),
            ("5", Style()),
            ("38;5;999", Style()),
            ("38", Style()),
            ("38;7;1", Style(bold=True)),
        ),
        *(
            ("1;22", Style()),
            ("31;39", Style()),
            ("3;4;7;9;23;24;27;29", Style()),
            ("41;49", Style()),
            ("31;", Style()),
        ),
    ],
)
def test_every_attribute_has_its_style(sequence: str, style: Style) -> None:
    assert style_after(sequence) == style


def test_a_reset_ends_everything() -> None:
    assert style_after("1;31;42", "") == Style()


@given(
    st.text(
        st.sampled_from("ab\x1b[]0123456789;:mK\x07\x9b\u202e\t") | st.characters(), max_size=60
    )
)
def test_whatever_is_printed_nothing_acts_on_the_terminal(raw: str) -> None:
    line = ansi_line(raw, BASE)
    assert visible(line.strip.text) == line.strip.text
    assert all(part.style is None or part.style.link is None for part in line.strip)
