"""A long answer through HTTP, as fast as it comes: a chunk's cost, and the way of 20,000 tokens to
the screen."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import CODEAGENT, Figure, model_server, ms
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, Terminal, terminal
from benchmarks.screen_text import LAST, answer_of, fence_of
from benchmarks.served import HOST, floor, served

TOKENS = 20_000
BEGINS = "Step"
"""Every answer of `answer_of` begins with it."""


def figures() -> Iterator[Figure]:
    with place() as here:
        yield _chunk(here)
        yield from _to_the_screen(here)


def _long(tokens: int) -> dict[str, Any]:
    """A token a chunk."""
    return {"text": answer_of(tokens), "chunks": tokens}


def _chunk(here: BenchEnvironment) -> Figure:
    """What a long answer costs more than a short one, for each of its chunks."""

    def cost(command: Sequence[str]) -> float:
        long, short = (
            statistics.median(served(command, [turn], here).done.cpu for _ in range(5))
            for turn in (_long(TOKENS), _long(1))
        )
        return (long - short) / TOKENS

    ours, bare = cost(HOST), cost(floor())
    used, least = (f"{seconds * 1e6:.0f} µs" for seconds in (ours, bare))
    return Figure(
        "CPU per chunk of a stream", used, f"bare script {least}", ours / bare, "<= 50 µs"
    )


@dataclass(frozen=True)
class _Answer:
    wall: float
    """Seconds from Enter to the last word."""
    cpu: float
    echoes: list[float]
    """Of keys typed meanwhile."""


def _to_the_screen(here: BenchEnvironment) -> Iterator[Figure]:
    bare = statistics.median(served(floor(), [_long(TOKENS)], here).done.wall for _ in range(3))
    once, twice = (
        _middle([_answer(_long(tokens), here) for _ in range(3)]) for tokens in (TOKENS, 2 * TOKENS)
    )
    typed = [
        seconds for _ in range(3) for seconds in _answer(_long(TOKENS), here, type_on=True).echoes
    ]
    fence = _middle([_answer({"text": fence_of(3000), "chunks": TOKENS}, here) for _ in range(3)])
    beside = f"bare script, with its start {ms(bare)}"
    yield Figure(
        "20,000 tokens, Enter to last line", ms(once.wall), beside, once.wall / bare, "<= 900 ms"
    )
    yield Figure(
        "… longest key echo meanwhile", ms(max(typed)), f"{len(typed)} keys", None, "<= 60 ms"
    )
    yield Figure(
        "… in a fence of 3,000 lines", ms(fence.wall), beside, fence.wall / bare, "<= 900 ms"
    )
    yield Figure(
        "… CPU of twice the tokens",
        ms(twice.cpu),
        f"once {ms(once.cpu)}",
        twice.cpu / once.cpu,
        "<= 2.2",
    )


def _middle(answers: Sequence[_Answer]) -> _Answer:
    wall, cpu = (
        statistics.median(column)
        for column in zip(*((a.wall, a.cpu) for a in answers), strict=True)
    )
    return _Answer(wall, cpu, [])


def _answer(turn: dict[str, Any], here: BenchEnvironment, *, type_on: bool = False) -> _Answer:
    """The second answer of a conversation: what the first one loads is measured elsewhere."""
    with model_server([{"text": "the-first"}, turn]) as server:
        command = [
            *CODEAGENT,
            "--model",
            "openai/bench",
            "--api-base",
            server.base_url,
            "--sandbox",
            "off",
        ]
        with terminal(command, here.workspace, here.env) as screen:
            screen.until(READY)
            screen.type("hello\r")
            screen.until("the-first")
            screen.settle(1.0)
            before = screen.cpu()
            started = screen.type("go\r")
            if type_on:
                return _Answer(0.0, 0.0, _typed_until_last(screen))
            return _Answer(screen.until(LAST) - started, screen.cpu() - before, [])


def _typed_until_last(screen: Terminal) -> list[float]:
    """Echoes from the first word of the answer until its last one was shown."""
    screen.watch(LAST)
    screen.until(BEGINS)
    echoes = []
    while not screen.watched:
        echoes.append(screen.echo())
        screen.drain(0.02)
    return echoes
