"""The screen at its prompt: starting, keys, memory and idling; beside a bare Textual app."""

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.measure import CODEAGENT, Figure, model_server, ms
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, p95, terminal

BARE = [sys.executable, "-m", "benchmarks.screen_floor", "input"]
UNTYPED = 10.0
"""Seconds of a screen at which nobody types."""


def figures() -> Iterator[Figure]:
    with place() as here, model_server([{"text": "done"}]) as server:
        command = [*CODEAGENT, "--model", "openai/bench", "--api-base", server.base_url]
        yield from _typed(command, here)
        yield from _untouched(command, here)


@dataclass(frozen=True)
class _Typed:
    """One start, and then a prompt at which little happens; seconds."""

    start: float
    echo: float
    echo_p95: float
    idle: float
    """Processor seconds per second."""


def _typed(command: Sequence[str], here: BenchEnvironment) -> Iterator[Figure]:
    ours = _median([_type_at([*command, "--sandbox", "off"], here) for _ in range(5)])
    bare = _median([_type_at(BARE, here) for _ in range(5)])
    yield _beside("start to a typed character on screen", ours.start, bare.start, "<= 1.3")
    yield _beside("key echo, idle, median", ours.echo, bare.echo, "<= 1.5")
    yield _beside("key echo, idle, p95", ours.echo_p95, bare.echo_p95, "<= 1.5")
    used, least = f"{ours.idle * 1000:.2f} ms/s", f"bare Textual app {bare.idle * 1000:.2f} ms/s"
    yield Figure("idle CPU at the prompt", used, least, None, "<= 1 ms/s")


def _type_at(command: Sequence[str], here: BenchEnvironment) -> _Typed:
    started = time.monotonic()
    with terminal(command, here.workspace, here.env) as screen:
        screen.until(READY)
        screen.echo()
        start = time.monotonic() - started
        screen.settle(2.0)
        echoes = screen.echoes(80)
        screen.settle(1.0)
        before = screen.cpu()
        screen.drain(3.0)
        return _Typed(start, statistics.median(echoes), p95(echoes), (screen.cpu() - before) / 3)


def _median(runs: Sequence[_Typed]) -> _Typed:
    return _Typed(*(statistics.median(column) for column in zip(*map(_values, runs), strict=True)))


def _values(run: _Typed) -> tuple[float, ...]:
    return run.start, run.echo, run.echo_p95, run.idle


def _beside(name: str, ours: float, bare: float, target: str) -> Figure:
    return Figure(name, ms(ours), f"bare Textual app {ms(bare)}", ours / bare, target)


def _untouched(command: Sequence[str], here: BenchEnvironment) -> Iterator[Figure]:
    """Ten seconds from the start; with the container, and a model behind HTTP that is not asked."""
    memory, cpu = (
        statistics.median(column)
        for column in zip(*(_leave(command, here) for _ in range(3)), strict=True)
    )
    bare_memory, bare_cpu = _leave(BARE, here)
    for name, used, least, target in (
        (
            "memory of an idle screen after ten seconds",
            f"{memory:.0f} MB",
            f"{bare_memory:.0f} MB",
            "<= 70 MB",
        ),
        ("CPU of its first ten seconds", ms(cpu), ms(bare_cpu), "<= 600 ms"),
    ):
        yield Figure(name, used, f"bare Textual app {least}", None, target)


def _leave(command: Sequence[str], here: BenchEnvironment) -> tuple[float, float]:
    with terminal(command, here.workspace, here.env) as screen:
        screen.drain(UNTYPED)
        return screen.memory_mb(), screen.cpu()
