"""Long sessions: what a turn costs at their end, and what they hold in memory."""

import statistics
from collections.abc import Iterator

from benchmarks.measure import Figure, ms
from benchmarks.place import place
from benchmarks.served import HOST, bash_turns, floor, memory_at, served

WINDOW = 20
"""Turns at either end that are compared."""


def figures() -> Iterator[Figure]:
    """Two hundred turns."""
    yield from _grown(200, "<= 3 s", "<= 1.3")


def thousand() -> Iterator[Figure]:
    """A thousand, which takes minutes: only on request."""
    yield from _grown(1000, "-", "flat")


def _grown(turns: int, target: str, flat: str) -> Iterator[Figure]:
    command = [*HOST, "--max-turns", str(turns + 5), "--max-calls", str(turns + 5)]
    answers = bash_turns(turns)
    with place() as here:
        bare, ours = served(floor(turns), answers, here), served(command, answers, here)
        early, late = memory_at(command, answers, here, 20, turns)
    wall, least = ours.done.wall, bare.done.wall
    yield Figure(
        f"{turns:,} turns on the host", ms(wall), f"bare script {ms(least)}", wall / least, target
    )
    first, last = statistics.median(ours.gaps[2:WINDOW]), statistics.median(ours.gaps[-WINDOW:])
    yield Figure("… the last turns, each", ms(last), f"the first {ms(first)}", last / first, flat)
    beside = f"after twenty turns {early:.0f} MB"
    yield Figure("… memory at the end", f"{late:.0f} MB", beside, late / early, flat)
