"""Sessions that are continued on the screen: until the last answer can be read."""

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import CODEAGENT, Figure, ms
from benchmarks.place import LAST_ANSWER, BenchEnvironment, place
from benchmarks.screen_pty import READY, terminal

FIRST_FRAME = b"hat would you like to do?"
"""The composer's placeholder, without the letter under the cursor."""


def figures() -> Iterator[Figure]:
    with place() as here:
        screen = [*CODEAGENT, "--model", here.script({"text": "done"}), "--sandbox", "off"]
        yield from _resumed(screen, here)
        yield from _chosen(screen, here)


def _resumed(screen: Sequence[str], here: BenchEnvironment) -> Iterator[Figure]:
    command = [*screen, "--resume", here.long_session(1000)]
    empty, empty_memory = _middle([_until_shown(screen, here, FIRST_FRAME) for _ in range(5)])
    full, memory = _middle([_until_shown(command, here, LAST_ANSWER.encode()) for _ in range(5)])
    beside = f"first frame of an empty session {ms(empty)}"
    yield Figure(
        "resume of 2,000 messages, to the last answer", ms(full), beside, full / empty, "<= 600 ms"
    )
    yield Figure(
        "… memory",
        f"{memory:.0f} MB",
        f"empty session {empty_memory:.0f} MB",
        memory / empty_memory,
        "+ <= 60 MB",
    )


def _until_shown(
    command: Sequence[str], here: BenchEnvironment, text: bytes
) -> tuple[float, float]:
    """Seconds until the text is on screen, and the memory after things came to rest."""
    started = time.monotonic()
    with terminal(command, here.workspace, here.env) as screen:
        shown = screen.until(text) - started
        screen.settle(2.0)
        return shown, screen.memory_mb()


def _middle(runs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    shown, memory = (statistics.median(column) for column in zip(*runs, strict=True))
    return shown, memory


def _chosen(screen: Sequence[str], here: BenchEnvironment) -> Iterator[Figure]:
    """`/resume` of a log in which each turn says and reads some 40 KB."""
    session = here.long_session(700, size=40_000)
    log = max(
        (here.home / "XDG_STATE_HOME").glob(f"codeagent/sessions/{session}/*.jsonl"), key=_size
    )
    times = []
    for _ in range(3):
        with terminal(screen, here.workspace, here.env) as running:
            running.until(READY)
            running.settle(2.0)
            running.type(f"/resume {session}")
            running.settle(0.5)
            entered = running.type("\r")
            times.append(running.until(LAST_ANSWER) - entered)
    name = f"/resume of a log of {_size(log) / 1e6:.0f} MB"
    yield Figure(name, ms(statistics.median(times)), "-", None, "<= 1 s")


def _size(path: Path) -> int:
    return path.stat().st_size
