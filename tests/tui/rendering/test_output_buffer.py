"""What a command prints, within bounds."""

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.rendering.output_buffer import LINE_LIMIT, OutputBuffer
from tests.table import for_each

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    "\r",
                    "\n",
                    "\r\n",
                    "\x1b[31m",
                    "\x1b[0m",
                    "\x1b[2K",
                    "\x1b[1A",
                    "\x1b]0;title\x07",
                    "\x1b]8;;x\x1b\\",
                ),
                *(
                    "\x1bP1;2q",
                    "\x1b\\",
                    "\x9b",
                    "\x9d",
                    "\x1b",
                    "[",
                    "]",
                    "m",
                    "\x07",
                    "\x08",
                    "\x00",
                    "\x85",
                    "\u2028",
                ),
            ]
        ),
        st.text("ab ;1?m\t", max_size=8),
        st.integers(0, 3).map(lambda count: "x" * (count * LINE_LIMIT // 2)),
    ),
    max_size=30,
)


def fed(*pieces: str, head: int = 200, tail: int = 2000) -> OutputBuffer:
    buffer = OutputBuffer(head, tail)
    for piece in pieces:
        buffer.feed(piece)
    return buffer


def test_lines_are_split_wherever_the_pieces_are_cut() -> None:
    assert list(fed("on", "e\ntw", "o\nthr").lines()) == ["one", "two", "thr"]


def test_a_line_end_does_not_begin_another_line() -> None:
    buffer = fed("one\n")
    assert (list(buffer.lines()), buffer.total, len(buffer)) == (["one"], 1, 1)


def test_empty_lines_are_lines() -> None:
    assert list(fed("a\n\n\nb\n").lines()) == ["a", "", "", "b"]


def test_only_a_newline_ends_a_line() -> None:
    assert list(fed("a\u2028b\x0bc\x85d\n").lines()) == ["a\u2028bcd"]


@pytest.mark.parametrize(
    "pieces", [("one\r\ntwo\r\n",), ("one\r", "\ntwo\r", "\n"), ("one\r\r\ntwo\r\n",)]
)
def test_a_carriage_return_before_a_newline_is_a_line_end(pieces: tuple[str, ...]) -> None:
    assert list(fed(*pieces).lines()) == ["one", "two"]


def test_a_progress_bar_stays_one_line() -> None:
    buffer = fed(*(f"\rdone {percent}%" for percent in range(101)), "\nnext\n")
    assert list(buffer.lines()) == ["done 100%", "next"]


def test_a_progress_bar_is_seen_before_its_line_ends() -> None:
    assert fed("10%\r", "\x1b[K", "20%\r").last(1) == ["20%"]


def test_what_is_overwritten_leaves_its_colours() -> None:
    assert list(fed("\x1b[31m10%\r20%\n").lines()) == ["\x1b[31m20%"]
    assert list(fed("\x1b[31m10%\x1b[0m\r20%\n").lines()) == ["\x1b[0m20%"]


def test_colours_stay_in_the_line() -> None:
    assert list(fed("\x1b[1;38:2::1:2:3mred\x1b[m\n").lines()) == ["\x1b[1;38:2::1:2:3mred\x1b[m"]


@for_each(
    "acts",
    [
        *(
            "\x1b[2J",
            "\x1b[1A",
            "\x1b[K",
            "\x1b[?25l",
            "\x1b[>4;2m",
            "\x1b[6n",
            "\x9b31m",
            "\x1b7",
            "\x1bc",
            "\x1b(B",
        ),
        *(
            "\x1b]0;title\x07",
            "\x1b]52;c;aGk=\x1b\\",
            "\x9d8;;http://x\x9c",
            "\x1bP+q544e\x1b\\",
            "\x1b_G\x1b\\",
        ),
        *("\x90q\x9c", "\x85", "\x07", "\x08", "\x00", "\x7f", "\x1b[" + "1" * 100 + "m"),
    ],
)
def test_everything_else_that_acts_on_a_terminal_is_dropped_also_when_cut(acts: str) -> None:
    assert list(fed(f"a{acts}b\n").lines()) == ["ab"]
    assert list(fed(*f"a{acts}b\n").lines()) == ["ab"]


def test_a_sequence_that_is_never_ended_takes_only_the_rest_of_its_line() -> None:
    assert list(fed("a\x1b]0;lost\nb\n").lines()) == ["a", "b"]
    assert list(fed("a\x1bP", "lost" * 1000, "\nb\n").lines()) == ["a", "b"]


def test_head_and_tail_are_kept_and_the_rest_is_counted() -> None:
    buffer = fed("".join(f"{number}\n" for number in range(100)), "100", head=3, tail=2)
    assert list(buffer.lines()) == ["0", "1", "2", "98", "99", "100"]
    assert (buffer.total, buffer.dropped, buffer.gap_at, len(buffer)) == (101, 95, 3, 6)


def test_nothing_dropped_means_no_gap() -> None:
    assert fed("1\n2\n3\n4\n5\n", head=3, tail=2).gap_at is None


def test_the_last_lines_do_not_reach_over_a_gap() -> None:
    assert fed("".join(f"{number}\n" for number in range(9)), head=3, tail=2).last(4) == ["7", "8"]
    assert fed("1\n2\n3\n4\n", head=3, tail=2).last(3) == ["2", "3", "4"]
    assert fed("1\n").last(0) == []


def test_a_line_without_end_is_bounded_and_counted() -> None:
    tracemalloc.start()
    buffer = OutputBuffer()
    piece = "x" * 65_536
    for _ in range(200):
        buffer.feed(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert buffer.last(1) == [
        "x" * LINE_LIMIT + f" … {200 * 65_536 - LINE_LIMIT:,} more characters"
    ]
    assert peak < 1_000_000


def test_a_cut_line_keeps_the_colours_behind_it() -> None:
    buffer = fed("\x1b[31m" + "x" * 2 * LINE_LIMIT + "\x1b[0m\nb\n")
    assert "\x1b[0m" in buffer.lines()[0]
    assert buffer.lines()[1] == "b"


def test_a_long_line_is_bounded_in_the_middle_of_a_piece() -> None:
    first, second, third = fed("a\n" + "x" * (LINE_LIMIT + 1) + "\nb\n").lines()
    assert (first, second, third) == ("a", "x" * LINE_LIMIT + " … 1 more characters", "b")


@given(PIECES, st.integers(0, 3), st.integers(1, 3))
def test_where_pieces_are_cut_changes_nothing(pieces: list[str], head: int, tail: int) -> None:
    whole, cut = fed("".join(pieces), head=head, tail=tail), fed(*pieces, head=head, tail=tail)
    single = fed(*"".join(pieces)[-3000:], head=head, tail=tail)
    assert list(whole.lines()) == list(cut.lines())
    assert list(single.lines()) == list(fed("".join(pieces)[-3000:], head=head, tail=tail).lines())
    assert (whole.total, whole.dropped, whole.gap_at) == (cut.total, cut.dropped, cut.gap_at)
    assert len(whole) == len(whole.lines()) == whole.total - whole.dropped
    assert whole.last(tail) == list(whole.lines())[-tail:]


@given(PIECES)
def test_only_colours_are_left_of_what_acts_on_a_terminal(pieces: list[str]) -> None:
    for line in fed(*pieces).lines():
        assert not re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[0-9;:]*m", "", line))
