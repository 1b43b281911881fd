"""Repetition: found in every text that loops, and in nothing that is meant (both sides of the
line)."""

import base64
import random

import pytest

from codeagent.agent.repetition import Part, Repetition, RepetitionWatch
from tests.table import for_each

MOST = 500
PROSE = (
    "The scheduler keeps one queue for each priority and takes the oldest job of the highest one. A job that fails "
    "is put back with a delay, which doubles each time up to an hour, so that a broken service is not asked at once. "
)
ROWS = [
    f"| {number} | {number * 37 % 1000} | ok | `tests/test_{number}.py` |" for number in range(400)
]
RANDOM = random.Random(3).randbytes(30_000)
ZEROS = base64.b64encode(bytes(512)).decode()


def said(text: str, part: Part = "text", size: int = 7, most: int = MOST) -> str | None:
    """What is said of a text that comes in pieces of that size."""
    watch = RepetitionWatch(most)
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    return next(filter(None, (watch.add(part, piece) for piece in pieces)), None)


LOOPS = {
    "digits and a stroke": "1/" * 1500,
    "one word": "the " * 1500,
    "a line of code": "    return self.value\n" * 300,
    "a sentence": "I will now look at the file again to be sure. " * 200,
    "a paragraph": PROSE * 40,
    "a paragraph with an inner repetition": ("ha " * 100 + PROSE) * 40,
    "one character": "A" * 30_000,
    "empty lines": "\n" * 30_000,
    "blanks": " " * 30_000,
    "signs of another script": "这是同一句话。" * 400,
    "emoji": "😀" * 1500,
    "a loop after a good beginning": PROSE + "\n".join(ROWS) + "\nno, no, " * 500,
    "an identical row of a table": "| 0 | 0 | 0 |\n" * 300,
}
MEANT = {
    "prose": "".join(PROSE.replace("hour", f"hour {number}") for number in range(60)),
    "a table": "\n".join(["| n | x | state | file |", "| --- | --- | --- | --- |", *ROWS]),
    "a table with equal rows here and there": "\n".join(
        (row + "\n| - | - | - | - |") for row in ROWS
    ),
    "separators": "\n".join(f"{'-' * 120}\nPart {number}\n{'=' * 120}" for number in range(80)),
    "one long separator": "-" * 2000,
    "a wide table of signs": "|" + "---|" * 150 + "\n" + "|" + "   |" * 150,
    "base64": base64.b64encode(RANDOM).decode(),
    "base64 in lines": base64.encodebytes(RANDOM).decode(),
    "base64 with zeros in it": base64.b64encode(RANDOM[:300]).decode()
    + ZEROS * 4
    + base64.b64encode(RANDOM).decode(),
    "hexadecimal": RANDOM.hex(" "),
    "a file that is there three times": PROSE * 3,
    "an indented list": "\n".join(f"{' ' * 40}- item {number}: done" for number in range(300)),
    "numbers that count up": " ".join(map(str, range(5000))),
    "a matrix": "\n".join(
        ", ".join(str((row * column) % 97) for column in range(20)) for row in range(100)
    ),
    "twenty equal lines": "    pass\n" * 20,
}


@for_each("name", LOOPS)
def test_a_loop_is_found_however_it_comes(name: str) -> None:
    for size in (1, 7, 300, 50_000):
        assert said(LOOPS[name], size=size) is not None, size


@for_each("name", MEANT)
def test_what_is_meant_is_left_alone(name: str) -> None:
    for part in ("text", "thinking", "arguments"):
        assert said(MEANT[name], part) is None, part


def test_the_span_and_the_length_are_said() -> None:
    words = said("1/" * 1500)
    assert words == "the answer repeats “1/”, so far for about 512 tokens"
    assert said("\n" * 30_000) == "the answer repeats “blanks”, so far for about 512 tokens"


def test_a_span_cannot_write_to_the_terminal() -> None:
    words = said("\x1b[31mred\n" * 500)
    assert words is not None and "\x1b" not in words and "\n" not in words


def test_it_is_found_soon_after_the_threshold() -> None:
    for most in (300, 1000):
        assert said("1/" * (most // 2 - 50), most=most) is None
        assert said("1/" * (most // 2 + 512), most=most) is not None


def test_the_arguments_of_a_call_may_repeat_longer_because_a_file_may_hold_a_table_of_zeros() -> (
    None
):
    zeros = "0, " * 600
    assert said(zeros) is not None
    assert said(zeros, "arguments") is None
    assert said(zeros * 10, "arguments") is not None


def test_what_the_model_thinks_does_not_count_for_what_it_says() -> None:
    watch = RepetitionWatch(MOST)
    assert [watch.add(part, "1/" * 220) for part in ("thinking", "text", "thinking", "text")] == [
        None
    ] * 4


def test_a_loop_that_ended_does_not_count_any_more() -> None:
    assert said("\n".join("1/" * 200 + f"and {number} more" for number in range(20))) is None
    assert (
        said("\n".join("1/" * 200 + f"and {number} more" for number in range(20)) + "1/" * 1000)
        is not None
    )


def test_each_character_is_read_once_and_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    look = Repetition._look
    monkeypatch.setattr(
        Repetition, "_look", lambda self, chunk: (looked.append(len(chunk)), look(self, chunk))
    )
    for size in (1, 100_000):
        looked.clear()
        reads = Repetition()
        for at in range(0, len(MEANT["base64"]), size):
            assert not reads.add(MEANT["base64"][at : at + size], MOST)
        assert sum(looked) <= len(MEANT["base64"]) < sum(looked) + 256
        assert set(looked) == {256} and len(reads._before) <= 1280
