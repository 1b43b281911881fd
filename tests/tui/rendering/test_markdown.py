"""Markdown as lines."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it.ruler import Ruler
from rich.style import Style

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.lines import NARROWEST, Line
from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.markdown_parser import _parser
from codeagent.tui.rendering.palette import Palette

PALETTE = Palette()
MARKS = st.text(
    st.sampled_from("ab *_`~[]()!<>&|-#>+.:1\\\n\t 漢é\u0301👍\u202e\x1b") | st.characters(),
    max_size=120,
)
WORDS = st.lists(st.text("abcdefgh漢字é—’", min_size=1, max_size=30), min_size=1, max_size=40)


def drawn(text: str, width: int = 40) -> list[str]:
    return [line.strip.text for line in render_markdown(text, width, PALETTE)]


def copied(lines: list[Line]) -> str:
    return "".join(
        line.text
        if line.joins is not None and not number
        else ("\n" if line.joins is None else line.joins) + line.text
        for number, line in enumerate(lines)
    ).removeprefix("\n")


def style_of(text: str, part: str) -> Style:
    for line in render_markdown(text, 80, PALETTE):
        for piece in line.strip:
            if part in piece.text:
                assert piece.style is not None
                return piece.style
    raise AssertionError(f"{part} is not drawn")


def test_a_parser_that_two_threads_may_use_at_once_has_nothing_left_to_prepare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _parser.cache_clear()
    _parser()
    prepared: list[Ruler[object]] = []
    monkeypatch.setattr(Ruler, "__compile__", prepared.append)
    assert drawn("# One\n\n- *two* ~~three~~") == ["One", "", "• two three"]
    assert prepared == []


def test_headings_are_bold_and_have_no_marks() -> None:
    assert drawn("# One\n\nTwo\n===") == ["One", "", "Two"]
    assert style_of("### One", "One").bold


def test_paragraphs_wrap_by_words_and_are_copied_whole() -> None:
    lines = render_markdown("one two\nthree four\n\nfive", 10, PALETTE)
    assert [line.strip.text for line in lines] == ["one two", "three four", "", "five"]
    assert copied(lines) == "one two three four\n\nfive"


def test_running_text_stays_narrow_on_a_wide_screen_and_code_does_not() -> None:
    text = f"# {'word ' * 40}\n\n- {'word ' * 40}\n\n```\n{'x' * 180}\n```"
    heading, item, code = (drawn(text, 200)[at] for at in (0, 3, 6))
    assert [len(row) for row in (heading, item)] == [119, 121]
    assert code.endswith("x" * 180)


def test_hard_breaks_stay() -> None:
    assert copied(render_markdown("one  \ntwo\\\nthree", 40, PALETTE)) == "one\ntwo\nthree"


def test_lists_hang_and_are_copied_as_markdown() -> None:
    text = "- one two three\n  - four\n9. nine\n10. ten"
    lines = render_markdown(text, 12, PALETTE)
    assert [line.strip.text for line in lines] == [
        "• one two",
        "  three",
        "  • four",
        "",
        "9. nine",
        "10. ten",
    ]
    assert copied(lines) == "- one two three\n  - four\n\n9. nine\n10. ten"


def test_blank_rows_between_items_are_those_of_the_source() -> None:
    assert drawn("- a\n- b\n\n- c") == ["• a", "• b", "", "• c"]


def test_tasks_keep_their_boxes() -> None:
    assert drawn("- [ ] open\n- [x] done") == ["• [ ] open", "• [x] done"]


def test_quotes_have_a_bar_that_is_not_copied() -> None:
    lines = render_markdown("> one two\n>\n> - three", 8, PALETTE)
    assert [line.strip.text for line in lines] == ["▎ one", "▎ two", "▎ ", "▎ • thre", "▎   e"]
    assert copied(lines) == "one two\n\n- three"


def test_quoted_text_looks_quoted() -> None:
    assert style_of("> one", "one") == PALETTE.prose.quote
    assert style_of("> - one", "one") == PALETTE.prose.quote


def test_code_is_copied_exactly() -> None:
    code = "def f():\n\treturn '" + "x" * 60 + "'  \n\n    # end"
    for text in (
        f"```python\n{code}\n```",
        f"> ~~~\n> {code}\n".replace("\n", "\n> "),
        f"- ```\n  {code}".replace("\n", "\n  "),
    ):
        assert copied(render_markdown(text, 20, PALETTE)).rstrip("\n").endswith(code)
    assert copied(render_markdown(f"```python\n{code}\n```", 20, PALETTE)) == code


def test_code_says_its_language() -> None:
    assert drawn("```{.Python title=x}\n1\n```") == ["│ python", "│ 1"]
    assert drawn("```\n1\n```") == ["│ 1"]


def test_tables_are_aligned_and_copied_as_markdown() -> None:
    lines = render_markdown("| a | bb |\n|:-:|---:|\n| one | 2 |", 40, PALETTE)
    assert [line.strip.text for line in lines] == [" a  │ bb", "────┼───", "one │  2"]
    assert copied(lines).splitlines()[1] == "----|---"


def test_a_table_without_room_wraps_its_cells_and_then_becomes_a_list() -> None:
    table = "| name | text |\n|---|---|\n| x | one two three |"
    assert drawn(table, 15) == ["name │ text", "─────┼─────────", "x    │ one two", "     │ three"]
    assert drawn(table, 9) == ["name: x", "text: one", "two three"]


def test_cells_that_a_row_has_too_many_of_are_shown_in_its_last_one() -> None:
    assert drawn("|a|b|\n|-|-|\n|1|x|y|\n|2|", 20) == ["a │ b", "──┼──────", "1 │ x | y", "2 │ "]


def test_links_show_their_address_where_it_is_not_their_text() -> None:
    assert drawn("[docs](https://a.b/c)") == ["docs (https://a.b/c)"]
    assert drawn("<https://a.b/c> <me@a.b>") == ["https://a.b/c me@a.b"]
    assert drawn("[ref][1]\n\n[1]: https://a.b") == ["[ref][1]", "", "[1]: https://a.b"]


def test_links_that_may_be_opened_are_in_the_style_and_never_a_sequence_of_the_terminals() -> None:
    for url in ("https://a.b/c", "mailto:me@a.b", "src/a.py", "/tmp/x"):
        style = style_of(f"[docs]({url})", "docs")
        assert (style.meta, style.link) == ({"link": url}, None)
    assert style_of("see https://a.b/c.", "https://a.b/c").meta == {"link": "https://a.b/c"}
    for url in ("ssh://a.b", "vscode:x", "//a.b/c"):
        assert style_of(f"[docs]({url})", "docs").meta == {}
    assert drawn("[x](javascript:alert)") == ["[x](javascript:alert)"]


def test_images_are_their_text_and_path() -> None:
    assert drawn("![a plan](plan.png)") == ["a plan (plan.png)"]


def test_html_is_text() -> None:
    assert drawn("<b>x</b> <!-- y -->") == ["<b>x</b> <!-- y -->"]


def test_rules_are_lines() -> None:
    lines = render_markdown("a\n\n---\n\nb", 10, PALETTE)
    assert lines[2].strip.text == "─" * 10
    assert copied(lines) == "a\n\n---\n\nb"


def test_what_is_nested_too_deep_is_shown_as_it_is_written() -> None:
    text = "> " * 60 + "deep"
    assert "deep" in copied(render_markdown(text, 400, PALETTE))
    assert render_markdown(">" * 20_000, 80, PALETTE)


@given(MARKS, st.integers(1, 60))
def test_it_never_fails_and_no_line_is_too_wide_or_acts_on_a_terminal(
    text: str, width: int
) -> None:
    for line in render_markdown(text, width, PALETTE):
        assert line.strip.cell_length <= max(width, NARROWEST)
        assert visible(line.strip.text) == line.strip.text
        assert visible(line.text) == line.text


@given(WORDS, st.integers(4, 60))
def test_every_word_of_a_paragraph_is_copied(words: list[str], width: int) -> None:
    assert copied(render_markdown(" ".join(words), width, PALETTE)) == " ".join(words)


@given(st.lists(st.text("ab漢 \t'#{}\\", max_size=30), min_size=1, max_size=8), st.integers(4, 30))
def test_every_code_is_copied_exactly(lines: list[str], width: int) -> None:
    code = "\n".join(lines)
    assert copied(render_markdown(f"```python\n{code}\n```", width, PALETTE)) == code


@given(MARKS, st.integers(4, 60))
def test_letters_are_never_lost(text: str, width: int) -> None:
    text = re.sub(r"[&\[\]<>|!`~:\\]", " ", text)
    shown = copied(render_markdown(text, width, PALETTE))
    for letter in "ab漢👍":
        assert shown.count(letter) >= text.count(letter)
