"""Source code in colours."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from codeagent.tui.rendering import code
from codeagent.tui.rendering.code import Highlighter, highlight
from codeagent.tui.rendering.palette import CodeStyles
from tests.table import for_each

COLOURS = CodeStyles(
    text=Style(dim=True),
    tokens={
        name: Style(color=color)
        for name, color in (("keyword", "red"), ("string", "green"), ("comment", "blue"))
    },
)


def texts(lines: list[list[tuple[str, Style]]]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def colour(lines: list[list[tuple[str, Style]]], part: str) -> str | None:
    (style,) = [style for line in lines for text, style in line if part in text]
    return None if style.color is None else style.color.name


def test_tokens_have_the_colours_of_the_palette_over_its_code() -> None:
    lines = highlight("def f():\n    return 'x'  # why", "python", COLOURS)
    assert (colour(lines, "return"), colour(lines, "why")) == ("red", "blue")
    assert all(style.dim for line in lines for _, style in line)


@for_each("language", ["python", "src/app.py", "/x/y.rs", "Dockerfile", "JSON", "c++", "diff"])
def test_a_language_is_known_by_its_name_or_a_file_of_it(language: str) -> None:
    assert texts(highlight("x = 1", language, COLOURS)) == "x = 1"


@for_each("language", ["", "no-such-language", "file.nosuch", "..", "/", "\x00"])
def test_what_is_not_known_is_plain(language: str) -> None:
    assert highlight("return 1\n", language, COLOURS) == [[("return 1", COLOURS.text)], []]


def test_code_with_very_long_lines_is_plain() -> None:
    assert highlight("return " + "x" * 5_000, "python", COLOURS) == [
        [("return " + "x" * 5_000, COLOURS.text)]
    ]


def test_slices_give_the_same_as_all_at_once() -> None:
    source = "def f(a):\n    return 'x' + a\n" * 200
    highlighter = Highlighter(source, "python", COLOURS)
    slices = 1
    while highlighter.work(0.1):
        slices += 1
    assert (highlighter.lines, highlighter.done) == (highlight(source, "python", COLOURS), True)
    assert slices > 1


class _Broken:
    def get_tokens_unprocessed(self, text: str) -> Any:
        yield 0, "Token.Keyword", text[:2]
        yield 1, "Token.Keyword", text[1:4]
        yield 6, "Token.Keyword", text[6:8]
        raise ValueError("a lexer's mistake")


def test_a_lexer_that_fails_or_skips_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "_lexer", lambda language: _Broken())
    assert texts(highlight("abcdefghijk\nl", "broken", COLOURS)) == "abcdefghijk\nl"


@given(
    st.text(st.sampled_from("ab'\"#/*{}()\\\n\t \r<>&;:=") | st.characters(), max_size=100),
    st.sampled_from(
        [
            "python",
            "javascript",
            "html",
            "bash",
            "yaml",
            "json",
            "diff",
            "console",
            "markdown",
            "php",
            "c",
        ]
    ),
)
def test_no_character_is_ever_lost(source: str, language: str) -> None:
    assert texts(highlight(source, language, COLOURS)) == source
