"""Markdown that is still being written."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codeagent.tui.rendering import growing, markdown_parser, table
from codeagent.tui.rendering.growing import GrowingMarkdown
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.palette import Palette
from tests.effort import times

PALETTE = Palette()
LINES = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                "",
                "# head",
                "head",
                "===",
                "---",
                "- a",
                "- b",
                "* c",
                "  - nested",
                "  more",
                "    code",
                "1. one",
                "7) x",
            ),
            *(
                "```",
                "```py",
                "````",
                "~~~",
                "~~~ sh",
                "  ```",
                "- ```",
                "``` a|b",
                "x = 1",
                "> quote",
                "> - q",
                ">",
                "\t- t",
            ),
            *(
                "| a | b |",
                "|---|---|",
                "- a | b",
                "-|-",
                "--|--",
                "| 1 | 2 | 3 |",
                "[a]: http://x",
                "[a] and [b][a]",
                "- ",
            ),
            *(
                "**bold",
                "bold** `code",
                "code` *x",
                "<b>",
                "&amp; \\",
                "two  ",
                "***",
                "- - -",
                "    ",
                "x" * 30,
                "漢字" * 9,
            ),
            *(
                "a_b_c ~~d~~",
                "![i](p)",
                "<http://x.y>",
                "http://x.y/z.",
                "\u202e",
                "\x1b[31m",
                "- [ ] t",
                "word " * 12,
            ),
        ]
    ),
    st.text("ab *`_[]()|-#>~1.\t\\", max_size=12),
)
TEXTS = st.lists(LINES, max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\n\n"]).map(lambda end: end.join(lines))
)


def shown(lines: list[Line] | object) -> list[tuple[str, str, int, str | None]]:
    assert isinstance(lines, list)
    return [(line.strip.text, line.text, line.start, line.joins) for line in lines]


def grown(pieces: list[str], width: int) -> GrowingMarkdown:
    drawing = GrowingMarkdown(width, PALETTE)
    for piece in pieces:
        drawing.append(piece)
        _ = drawing.lines
    drawing.close()
    return drawing


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


@given(TEXTS, st.lists(st.integers(0, 500), max_size=40), st.integers(1, 40))
@example("- x\n- a | b\n--|--\n", list(range(30)), 20)
@example("``` a|b\n-|-\nx", list(range(30)), 20)
@example("word " * 90, list(range(0, 450, 7)), 200)
def test_once_closed_it_is_what_is_drawn_at_once(text: str, places: list[int], width: int) -> None:
    assert shown(grown(cut(text, places), width).lines) == shown(
        render_markdown(text, width, PALETTE)
    )


@given(TEXTS, st.integers(4, 40))
def test_also_when_it_comes_character_by_character(text: str, width: int) -> None:
    assert shown(grown(list(text), width).lines) == shown(render_markdown(text, width, PALETTE))


ROWS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "| 1 | 2 |",
                "| **bo | ld** |",
                "one",
                "| a | b | c |",
                "|",
                "| `x\\|y` | 漢字 | ",
                "w | " * 9,
            ]
        ),
        st.text("ab |*`", max_size=30),
    ),
    max_size=20,
)


@given(
    st.sampled_from(["", "text\n\n", "\n\n"]),
    st.sampled_from(["| a | b |\n|---|---|\n", "a | b\n:-|-:\n", "|head|\n|-|\n"]),
    ROWS,
    st.one_of(st.just(""), LINES),
    st.lists(st.integers(0, 900), max_size=40),
    st.integers(4, 60),
)
def test_also_with_tables_that_come_row_by_row(
    before: str, head: str, rows: list[str], after: str, places: list[int], width: int
) -> None:
    text = before + head + "\n".join([*rows, after])
    assert shown(grown(cut(text, places), width).lines) == shown(
        render_markdown(text, width, PALETTE)
    )


def test_the_rows_of_a_long_table_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parts = table.inline_parts
    monkeypatch.setattr(
        table, "inline_parts", lambda text, *styles: read.append(text) or parts(text, *styles)
    )
    rows = [f"| r{number} | {number} |\n" for number in range(100)]
    drawing = grown(["| a | b |\n|---|---|\n", *rows], 40)
    assert len(drawing.lines) == 102
    assert sum(text.startswith("r") for text in read) == 100


@given(
    TEXTS,
    st.lists(st.integers(0, 900), max_size=40),
    st.integers(4, 40),
    st.integers(2, 20),
    st.integers(0, 3),
)
def test_also_with_long_paragraphs_and_code_blocks(
    text: str, places: list[int], width: int, piece: int, lines: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown_parser, "PIECE", piece)
        patch.setattr(growing, "AT_ONCE", lines)
        drawing = grown(cut(text, places), width)
        assert shown(drawing.lines) == shown(render_markdown(text, width, PALETTE))
        while drawing.work(100):
            pass
        assert drawing.lines == render_markdown(text, width, PALETTE)


@given(TEXTS, st.integers(4, 40), st.integers(2, 20))
def test_stable_lines_never_change(text: str, width: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown_parser, "PIECE", piece)
        patch.setattr(growing, "AT_ONCE", 1)
        drawing = GrowingMarkdown(width, PALETTE)
        before: list[Line] = []
        for character in text:
            drawing.append(character)
            assert list(drawing.lines)[: len(before)] == before
            before = list(drawing.lines)[: drawing.stable]
            drawing.work(0.05)


def test_a_finished_block_is_stable_while_the_next_one_grows() -> None:
    drawing = GrowingMarkdown(40, PALETTE)
    drawing.append("one\n\ntwo\nthree")
    assert [line.text for line in drawing.lines] == ["one", "", "two three"]
    drawing.append("\nfour")
    assert (len(drawing.lines), drawing.stable) == (3, 1)


def test_a_list_is_finished_item_by_item() -> None:
    drawing = GrowingMarkdown(40, PALETTE)
    drawing.append("- one\n- two\n- three\n- fo")
    assert [line.text for line in drawing.lines] == ["- one", "- two", "- three", "- fo"]
    assert drawing.stable == 1


def test_a_long_code_block_waits_for_its_colours_and_keeps_its_lines() -> None:
    drawing = GrowingMarkdown(40, PALETTE)
    drawing.append("```python\n" + "x = 1\n" * 300)
    assert (len(drawing.lines), drawing.needs_work, drawing.stable) == (301, False, 1)
    drawing.append("```\nend\n")
    assert (len(drawing.lines), drawing.needs_work, drawing.stable) == (303, True, 1)
    while drawing.work(1):
        pass
    assert (len(drawing.lines), drawing.stable, drawing.needs_work) == (303, 301, False)


def test_a_closing_fence_is_not_shown_while_it_is_written() -> None:
    drawing = GrowingMarkdown(40, PALETTE)
    drawing.append("```\nx\n``")
    assert [line.text for line in drawing.lines] == ["x"]


@settings(max_examples=times(8))
@given(st.lists(st.text("ab* `\n", min_size=1, max_size=50), min_size=300, max_size=400))
def test_a_very_long_paragraph_is_drawn_in_pieces(pieces: list[str]) -> None:
    text = " ".join(pieces).replace("\n\n", "\n") * 2
    assert shown(grown(cut(text, list(range(0, len(text), 999))), 30).lines) == shown(
        render_markdown(text, 30, PALETTE)
    )
