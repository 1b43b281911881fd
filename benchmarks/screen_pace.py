"""A hundred tokens a second: with an empty history for the CPU, with 2,000 messages for the
keys."""

import statistics
import sys
from collections.abc import Iterator, Sequence

from benchmarks.measure import CODEAGENT, Figure, model_server, ms
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, p95, terminal
from benchmarks.screen_stream import BEGINS
from benchmarks.screen_text import answer_of

FLOOR = [sys.executable, "-m", "benchmarks.screen_floor", "stream"]
TOKENS = 9_000


def figures() -> Iterator[Figure]:
    with (
        place() as here,
        model_server([{"text": answer_of(TOKENS), "chunks": TOKENS, "pace": 0.01}]) as server,
    ):
        command = [
            *CODEAGENT,
            "--model",
            "openai/bench",
            "--api-base",
            server.base_url,
            "--sandbox",
            "off",
        ]
        used = statistics.median(_streaming(command, here, keys=0)[0] for _ in range(3))
        bare, bare_echoes = _streaming(FLOOR, here, keys=60)
        resumed = [*command, "--resume", here.long_session(1000)]
        echoes = [seconds for _ in range(2) for seconds in _streaming(resumed, here, keys=100)[1]]
    beside = f"Textual's MarkdownStream {bare * 100:.0f} %"
    yield Figure(
        "CPU of a 100 tokens/s stream",
        f"{used * 100:.0f} %",
        beside,
        used / bare,
        "<= 25 % of a core",
    )
    for name, measure, target in (
        ("median", statistics.median, "<= 10 ms"),
        ("p95", p95, "<= 60 ms"),
    ):
        ours, floor = measure(echoes), measure(bare_echoes)
        beside = f"MarkdownStream, no history {ms(floor)}"
        yield Figure(
            f"key echo, stream and 2,000 messages, {name}", ms(ours), beside, ours / floor, target
        )


def _streaming(
    command: Sequence[str], here: BenchEnvironment, *, keys: int
) -> tuple[float, list[float]]:
    """Processor seconds per second in the middle of a stream, and the echo of that many keys."""
    seconds = 6.0
    with terminal(command, here.workspace, here.env) as screen:
        screen.until(READY)
        screen.settle(1.5)
        screen.type("go\r")
        screen.until(BEGINS)
        screen.drain(2.0)
        before = screen.cpu()
        screen.drain(seconds)
        used = (screen.cpu() - before) / seconds
        return used, screen.echoes(keys)
