"""A command's 200,000 lines of 75 characters in the container, from Enter until the answer after
it."""

import statistics
from collections.abc import Iterator

from benchmarks.measure import CODEAGENT, Figure, run
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, terminal
from benchmarks.screen_text import LAST

LINES = 200_000


def figures() -> Iterator[Figure]:
    with place() as here:
        source = here.workspace / "long.txt"
        source.write_text("".join(f"{number:06} {'x' * 67}\n" for number in range(LINES)))
        model = here.script(
            {"text": "", "calls": [["bash", {"command": "cat long.txt"}]]}, {"text": LAST}
        )
        quiet = here.script({"text": "", "calls": [["bash", {"command": "true"}]]}, {"text": LAST})
        ours = [_command(model, here) for _ in range(3)]
        nothing = [_command(quiet, here)[0] for _ in range(3)]
        plain = [run(["cat", str(source)]).wall for _ in range(5)]
    wall = statistics.median(item[0] for item in ours) - statistics.median(nothing)
    grown = statistics.median(item[1] for item in ours)
    beside = f"cat {LINES / statistics.median(plain):,.0f} lines/s"
    yield Figure(
        "200,000 lines of tool output",
        f"{LINES / wall:,.0f} lines/s",
        beside,
        None,
        ">= 300,000 lines/s",
    )
    yield Figure("… memory it takes", f"{grown:.0f} MB", "-", None, "bounded")


def _command(model: str, here: BenchEnvironment) -> tuple[float, float]:
    """Seconds from Enter to the last word, and the memory the process grew by."""
    with terminal(
        [*CODEAGENT, "--model", model, "--mode", "auto"], here.workspace, here.env
    ) as screen:
        screen.until(READY)
        screen.until("docker")
        screen.settle(1.0)
        before = screen.memory_mb()
        started = screen.type("go\r")
        wall = screen.until(LAST) - started
        screen.settle(1.0)
        return wall, screen.memory_mb() - before
