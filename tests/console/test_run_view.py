"""What a run shows on a terminal without a screen."""

import re
from unittest.mock import patch

import pytest

from codeagent.console import answer
from codeagent.console.answer import GrowingAnswer
from codeagent.console.markdown import drawn
from codeagent.console.run_view import Channel, RunView
from codeagent.core.events import TextDelta
from codeagent.core.redact import Redactor
from tests.tui.scripts import Recording

STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """Keeps what is printed on each channel."""

    def __init__(self, *, secrets: dict[str, str] | None = None, live: bool = False) -> None:
        self.printed: list[tuple[Channel, str]] = []
        clean = Redactor(secrets or {}).clean
        self.view = RunView(self._draw, clean, live=live, answers=True)

    def _draw(self, text: str, channel: Channel) -> None:
        self.printed.append((channel, STYLE.sub("", text)))

    def stream(self, *pieces: str) -> None:
        for piece in pieces:
            for event in Recording().stream(piece).events:
                if isinstance(event, TextDelta):
                    self.view.take(event)

    @property
    def out(self) -> str:
        return "".join(text for channel, text in self.printed if channel == "out")


def test_a_block_is_printed_once_it_is_complete_and_the_rest_with_the_answer() -> None:
    terminal = Terminal()
    terminal.stream("# One\n", "\nsome **te", "xt**\n")
    assert terminal.out == "One\n"
    terminal.view.answer("# One\n\nsome **text**\n\n- last")
    assert terminal.out == "One\n\nsome text\n\n • last\n"


def test_only_what_ends_a_line_in_markdown_ends_one_of_an_answer() -> None:
    terminal, text = Terminal(), "```\na" + "\u2028" * 8 + "b\r\nc\n```\n\nrest\n\nmore"
    terminal.stream(text[:-2], "\n")
    terminal.view.answer(text)
    assert terminal.out == "  a" + "\\u2028" * 8 + "b\n  c\n\nrest\n\nmore\n"


def test_an_address_at_the_end_of_an_answer_is_printed() -> None:
    terminal, text = Terminal(), "see [docs][1]\n\nand\n\n[1]: https://a.example\n"
    terminal.stream(text)
    terminal.view.answer(text)
    assert terminal.out == "see [docs][1]\n\nand\n\n[1]: https://a.example\n"


def test_an_answer_that_begins_again_is_printed_as_a_whole() -> None:
    terminal = Terminal()
    terminal.stream("first\n\nattem")
    terminal.view.answer("another answer")
    assert terminal.out == "first\n\nanother answer\n"


def test_an_answer_that_the_end_of_the_run_cut_off_is_printed_as_far_as_it_came() -> None:
    terminal = Terminal()
    terminal.stream("first\n\nsec")
    for event in Recording().run("hi").finish("interrupted").events:
        terminal.view.take(event)
    assert terminal.out == "first\n\nsec\n"


def test_a_secret_is_masked_in_every_part_of_an_answer() -> None:
    terminal = Terminal(secrets={"MY_TOKEN": "abcdefgh\n\nijklmnop"})
    terminal.stream("it is abcdefgh\n", "\nijklmnop and\n", "\nmore")
    terminal.view.answer("it is abcdefgh\n\nijklmnop and\n\nmore")
    assert "abcdefgh" not in terminal.out and "ijklmnop" not in terminal.out
    assert terminal.out.count("[secret MY_TOKEN]") == 2


async def test_the_last_block_is_shown_while_it_grows_and_gone_when_it_is_printed() -> None:
    terminal = Terminal(live=True)
    for event in Recording().run("hi").events:
        terminal.view.take(event)
    terminal.stream("a **grow", "ing** block")
    assert terminal.view._live is not None
    terminal.view._live.redraw()
    assert terminal.printed[-1][1].partition("\n")[0].endswith("a growing block")
    terminal.view.answer("a **growing** block")
    assert terminal.printed[-2:] == [("err", "\r\x1b[1A\x1b[J"), ("out", "a growing block\n")]
    terminal.view.close()


def test_messages_are_set_apart_from_an_answer_and_wrap_at_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codeagent.console.run_view._size", lambda fd: (20, 10))

    async def go() -> list[tuple[Channel, str]]:
        terminal = Terminal(live=True)
        terminal.view.answer("Hello.")
        terminal.view.say("✓ read a.py")
        terminal.view.say("done · session 20261120-120000")
        terminal.view.say("twenty cells, and so on")
        terminal.view.close()
        return terminal.printed

    import asyncio

    assert asyncio.run(go()) == [
        ("out", "Hello.\n"),
        ("err", "\n✓ read a.py\n"),
        ("err", "done · session\n  20261120-120000\n"),
        ("err", "twenty cells, and so\n  on\n"),
    ]


MARKDOWN = {
    "see [docs](https://a.example/b)": ["see docs (https://a.example/b)"],
    "```\nx\n\n\ny\n```": ["  x", "", "", "  y"],
    "&#27;]0;owned&#7; &#x202e;b \x1b[2J": [r"�]0;owned� \u202eb \x1b[2J"],
    "| a | b |\n|---|---|\n| 1 | 2 |\n\nend": ["a  b", "────", "1  2", "", "end"],
    "![picture](x.png)": ["picture (x.png)"],
    "a Vec<String>, <b>bold</b> <!-- c -->": ["a Vec<String>, <b>bold</b> <!-- c -->"],
    "<details>\nfound\n</details>\n\nend": ["<details> found </details>", "", "end"],
    f"| a | b |\n|---|---|\n| {'x' * 70} | y |": [
        f"a{' ' * 58}b",
        "─" * 60,
        f"{'x' * 57}  y",
        "x" * 13,
    ],
}


def test_markdown_is_drawn_without_hiding_anything_and_nothing_in_it_acts() -> None:
    for text, lines in MARKDOWN.items():
        assert [STYLE.sub("", line) for line in drawn(text, 60, colours=True)] == lines


def test_without_colours_emphasis_stays() -> None:
    assert drawn("**a** `b`", 60, colours=False) == ["\x1b[1ma\x1b[0m b"]


def test_code_is_readable_on_a_light_ground_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")
    dark = drawn("```python\ndef f(): pass\n```", 60, colours=True)
    monkeypatch.setenv("COLORFGBG", "0;15")
    light = drawn("```python\ndef f(): pass\n```", 60, colours=True)
    assert "\x1b[94mdef" in dark[0] and "\x1b[34mdef" in light[0]


def test_a_long_block_is_not_read_again_with_each_line() -> None:
    """The event loop would stand still for minutes: a list is one block until it ends."""
    read: list[int] = []

    def finds(text: str) -> int:
        read.append(len(text))
        return 0

    growing = GrowingAnswer(str, lambda: 80, colours=False)
    lines = [f"- item {number}\n" for number in range(20_000)]
    with patch.object(answer, "finished", finds):
        for each in lines:
            growing.add(each)
            assert growing.complete() == ""
    assert len(lines) > len(read) and sum(read) < 60 * len("".join(lines))


def test_a_block_that_ends_behind_a_long_one_is_still_printed_for_good() -> None:
    terminal = Terminal()
    terminal.stream(*(f"- item {number}\n" for number in range(1500)))
    assert terminal.out == ""
    terminal.stream("\n", *["Words of a paragraph.\n"] * 400, "\nThe end")
    assert "item 1499" in terminal.out and "The end" not in terminal.out
