"""Twenty turns with a command each: the whole run, our part of a turn, the end, the memory."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.measure import Figure, ms
from benchmarks.place import BenchEnvironment, place
from benchmarks.served import CONTAINER, HOST, Served, bash_turns, floor, memory_at, served

TURNS = 20
RUNS = 5


def figures() -> Iterator[Figure]:
    with place() as here:
        (here.workspace / "notes.txt").write_text("a line of text\n" * 20)
        bare = _runs(floor(TURNS), bash_turns(TURNS), here)
        host = _runs(HOST, bash_turns(TURNS), here)
        reading = _runs(HOST, _read_turns(TURNS), here)
        container = _runs(CONTAINER, bash_turns(TURNS), here)
        yield _beside("twenty turns, host, whole run", host, bare, _wall, "<= 700 ms")
        yield _beside("twenty turns, container, whole run", container, bare, _wall, "<= 1000 ms")
        yield _beside("our part of a turn besides the tool", reading, bare, _gap, "<= 4 ms")
        yield _beside("… with a command on the host", host, bare, _gap, "-")
        yield _beside("… with a command in the container", container, bare, _gap, "-")
        yield _beside("last response to exit, host", host, bare, _exit, "<= 60 ms")
        yield _beside("last response to exit, container", container, bare, _exit, "<= 60 ms")
        least = memory_at(floor(TURNS), bash_turns(TURNS), here, TURNS)[0]
        for where, command in (("host", HOST), ("container", CONTAINER)):
            memory = memory_at(command, bash_turns(TURNS), here, TURNS)[0]
            beside = f"bare script {least:.0f} MB"
            yield Figure(
                f"memory of the run, {where}",
                f"{memory:.0f} MB",
                beside,
                memory / least,
                "<= 60 MB",
            )


def _runs(
    command: Sequence[str], turns: list[dict[str, Any]], here: BenchEnvironment
) -> list[Served]:
    """After one that is not counted."""
    return [served(command, turns, here) for _ in range(RUNS + 1)][1:]


def _read_turns(count: int) -> list[dict[str, Any]]:
    calls = [["read", {"path": "notes.txt", "offset": turn + 1}] for turn in range(count)]
    return [{"calls": [call]} for call in calls] + [{"text": "done"}]


def _wall(run: Served) -> float:
    return run.done.wall


def _gap(run: Served) -> float:
    """Without the first two turns, which load what later ones have."""
    return statistics.median(run.gaps[2:])


def _exit(run: Served) -> float:
    return run.to_exit


def _beside(
    name: str,
    ours: Sequence[Served],
    bare: Sequence[Served],
    measure: Callable[[Served], float],
    target: str,
) -> Figure:
    figure, least = (statistics.median(map(measure, runs)) for runs in (ours, bare))
    return Figure(name, ms(figure), f"bare script {ms(least)}", figure / least, target)
