"""From the command to an answer, and to the first request."""

import sys
from collections.abc import Iterator

from benchmarks.measure import SCRIPT, Figure, median_of, ms, run
from benchmarks.place import BenchEnvironment, place
from benchmarks.served import CONTAINER, HOST, floor, served

ANSWER = [{"text": "done"}]


def figures() -> Iterator[Figure]:
    yield from _answers_without_work()
    with place() as here:
        yield from _first_request(here)


def _answers_without_work() -> Iterator[Figure]:
    bare = median_of(15, lambda: run([sys.executable, "-c", "pass"]).wall)
    for option in ("--version", "--help"):
        ours = median_of(15, lambda option=option: run([*SCRIPT, option]).wall)  # type: ignore[misc]  # bound per loop
        yield Figure(
            f"codeagent {option}", ms(ours), f"python -c pass {ms(bare)}", ours / bare, "<= 3"
        )


def _first_request(here: BenchEnvironment) -> Iterator[Figure]:
    bare = median_of(9, lambda: served(floor(), ANSWER, here).to_first_request)
    for where, command in (("in the container", CONTAINER), ("on the host", HOST)):
        runs = [served(command, ANSWER, here) for _ in range(6)][1:]
        first = sorted(run.to_first_request for run in runs)[2]
        beside = f"bare script {ms(bare)}"
        yield Figure(
            f"start to first request, {where}", ms(first), beside, first / bare, "<= 150 ms, <= 1.5"
        )
        cpu = sorted(run.done.cpu for run in runs)[2]
        yield Figure("… processor time of the whole run", ms(cpu), "-", None, "-")
        entry = runs[0].log[0]
        prefix = f"system prompt and tools {entry['prefix_bytes'] / 1024:.2f} KB"
        yield Figure("… its bytes", f"{entry['bytes'] / 1024:.2f} KB", prefix, None, "<= 7.5 KB")
