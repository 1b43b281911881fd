"""Output in bounded memory, readable for a model."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tools.shell.run import CommandOutput, readable
from tests.fakes import FakeOutputs
from tests.table import for_each


def run(
    *pieces: tuple[str, bytes], head: int = 16_000, tail: int = 16_000
) -> tuple[str, CommandOutput, FakeOutputs]:
    outputs = FakeOutputs()
    output = CommandOutput(lambda: outputs.create("c"), head, tail)
    for stream, data in pieces:
        output.feed(stream, data)  # type: ignore[arg-type]  # literals
    return output.finish(), output, outputs


@for_each(
    ("raw", "shown"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("50%\r", "50%"),
        (
            "\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;http://u\x1b\\link\x1b]8;;\x1b\\",
            "red xlink",
        ),
        ("a\x1b[2K\rb", "b"),
        ("abc\b\b\bxyz", "xyz"),
        ("bell\x07 nul\x00 tab\t", "bell nul tab\t"),
        ("\x1b(Bplain\x1b=\x1b>", "plain"),
    ],
)
def test_terminal_tricks_are_taken_out(raw: str, shown: str) -> None:
    assert readable(raw) == shown


@given(st.text(alphabet="a\r\n\b\x1b[]0m;\x07é", max_size=60))
def test_no_control_character_is_left(raw: str) -> None:
    assert not [char for char in readable(raw) if char < " " and char not in "\n\t"]


def test_broken_utf8_is_shown_and_characters_split_between_chunks_are_whole() -> None:
    text, _, _ = run(("stdout", b"caf\xc3"), ("stdout", b"\xa9 \xff\xfe end\xe2\x82"))
    assert text == "café \\xff\\xfe end\\xe2\\x82"


def test_lines_of_the_two_streams_are_not_mixed_within_a_line() -> None:
    text, _, _ = run(("stdout", b"one "), ("stderr", b"warn\n"), ("stdout", b"two\n"))
    assert text == "warn\none two\n"


def test_output_that_was_not_told_apart_is_in_the_order_of_its_bytes() -> None:
    text, _, _ = run(("output", b"one "), ("output", b"warn\ntwo\n"))
    assert text == "one warn\ntwo\n"


def test_short_output_is_whole_and_leaves_nothing_in_the_store() -> None:
    text, output, outputs = run(("stdout", b"x\n" * 100))
    assert text == "x\n" * 100
    assert not output.truncated
    assert outputs.texts == {}


@given(
    st.lists(
        st.tuples(st.sampled_from(["output", "stdout", "stderr"]), st.binary(max_size=40)),
        max_size=30,
    )
)
def test_nothing_is_lost_whatever_the_chunks(pieces: list[tuple[str, bytes]]) -> None:
    text, output, outputs = run(*pieces, head=20, tail=20)
    assert output.bytes == sum(len(data) for _, data in pieces)
    if output.truncated:
        [kept] = outputs.texts.values()
        assert len(kept) == output.characters
        assert str(output.handle) in text
    else:
        assert len(text) <= 40


def test_a_flood_keeps_head_and_tail_in_bounded_memory() -> None:
    class Null:
        handle = "h"

        def write(self, text: str) -> None: ...

        def close(self) -> None: ...

    output = CommandOutput(Null)
    chunk = b"0123456789abcde\n" * 4096
    tracemalloc.start()
    output.feed("stdout", b"first\n")
    for _ in range(1024):
        output.feed("stdout", chunk)
    output.feed("stderr", b"last\n")
    text = output.finish()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert output.bytes == 64 * 1024 * 1024 + 11
    assert peak < 4 << 20
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert "4194306 lines in all" in text


@for_each(
    ("printed", "left_out"),
    [
        ("x\n" * 100, 0),
        ("line\n" * 100_000, 93_601),
        ("line\n" * 100_000 + "no newline", 93_603),
        ("x" * 65_536, 0),
    ],
)
def test_the_lines_that_the_model_is_not_shown_are_counted(printed: str, left_out: int) -> None:
    text, output, _ = run(("stdout", printed.encode()))
    assert output.lines_left_out == left_out
    assert text.count("\n") - output.truncated == printed.count("\n") - left_out


def test_one_endless_line_is_bounded_too() -> None:
    text, output, _ = run(*[("stdout", b"x" * 65536)] * 64)
    assert output.truncated
    assert len(text) < 33_000
