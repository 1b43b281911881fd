"""The screen while much arrives: streams, long answers at once, long tool output."""

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.measure import CODEAGENT, Figure, ms, run
from benchmarks.screen_place import Place, place
from benchmarks.screen_pty import READY, Terminal, p95, terminal
from benchmarks.screen_text import LAST, answer_of, fence_of

_FLOOR = [sys.executable, "-m", "benchmarks.screen_floor", "stream"]
_BEGINS = "Step"
"""Every answer of `answer_of` begins with it."""
_LINES = 200_000


def figures() -> Iterator[Figure]:
    yield from _slow_stream()
    yield from _at_once()
    yield from _long_output()


def _slow_stream() -> Iterator[Figure]:
    """100 tokens a second: with an empty history for the CPU, with 2,000 messages for the keys."""
    with place() as here:
        streaming = {"text": answer_of(9000), "delay_ms": 10}
        command = [*CODEAGENT, "--model", here.script(streaming), "--sandbox", "off"]
        used = statistics.median(_streaming(command, here, keys=0)[0] for _ in range(3))
        bare, bare_echoes = _streaming(_FLOOR, here, keys=60)
        session = here.long_session(1000)
        resumed = [*command, "--resume", session]
        echoes = [seconds for _ in range(3) for seconds in _streaming(resumed, here, keys=80)[1]]
    yield Figure(
        "CPU of a 100 tokens/s stream",
        f"{used * 100:.0f} %",
        f"Textual's MarkdownStream {bare * 100:.0f} %",
        used / bare,
        "<= 25 % of a core",
    )
    for name, measure, target in (("median", statistics.median, "<= 10 ms"), ("p95", p95, "<= 60 ms")):
        ours, floor = measure(echoes), measure(bare_echoes)
        where = f"MarkdownStream, no history {ms(floor)}"
        yield Figure(f"key echo, stream and 2,000 messages, {name}", ms(ours), where, ours / floor, target)


def _streaming(command: Sequence[str], here: Place, *, keys: int) -> tuple[float, list[float]]:
    """Processor seconds per second in the middle of a stream, and the echo of that many keys."""
    with terminal(command, here.workspace, here.env) as screen:
        screen.until(READY)
        screen.settle(1.5)
        screen.type("go\r")
        screen.until(_BEGINS)
        screen.drain(3.0)
        before, started = screen.cpu(), time.monotonic()
        screen.drain(8.0)
        used = (screen.cpu() - before) / (time.monotonic() - started)
        return used, screen.echoes(keys)


@dataclass(frozen=True)
class _Answer:
    wall: float
    """Seconds from Enter to the last word."""
    cpu: float
    echoes: list[float]
    """Of keys typed meanwhile."""


def _at_once() -> Iterator[Figure]:
    with place() as here:
        texts = {tokens: here.script({"text": answer_of(tokens)}) for tokens in (20_000, 40_000)}
        runs = {tokens: [_answer(model, here, type_on=False) for _ in range(3)] for tokens, model in texts.items()}
        typed = [seconds for _ in range(3) for seconds in _answer(texts[20_000], here, type_on=True).echoes]
        fence = [_answer(here.script({"text": fence_of(3000)}), here, type_on=False) for _ in range(3)]
        command = [*CODEAGENT, "run", "--model", texts[20_000], "--sandbox", "off", "go"]
        headless = statistics.median(run(command, cwd=here.workspace, env=here.env).wall for _ in range(3))
    wall, cpu = _middle(runs[20_000])
    _, twice = _middle(runs[40_000])
    floor = f"headless, with its start {ms(headless)}"
    yield Figure("20,000 tokens at once, Enter to last line", ms(wall), floor, wall / headless, "<= 1 s")
    yield Figure("… a fence of 3,000 lines", ms(_middle(fence)[0]), floor, None, "<= 1 s")
    yield Figure("… CPU of twice the tokens", f"{twice:.2f} s", f"once {cpu:.2f} s", twice / cpu, "<= 2.2")
    if typed:
        yield Figure("… key echo meanwhile, longest", ms(max(typed)), f"{len(typed)} keys", None, "p95 <= 60 ms")


def _middle(answers: Sequence[_Answer]) -> tuple[float, float]:
    return statistics.median(run.wall for run in answers), statistics.median(run.cpu for run in answers)


def _answer(model: str, here: Place, *, type_on: bool) -> _Answer:
    command = [*CODEAGENT, "--model", model, "--sandbox", "off"]
    with terminal(command, here.workspace, here.env) as screen:
        screen.until(READY)
        screen.settle(1.5)
        before = screen.cpu()
        started = screen.type("go\r")
        if type_on:
            return _Answer(0.0, 0.0, _typed_until_last(screen))
        return _Answer(screen.until(LAST) - started, screen.cpu() - before, [])


def _typed_until_last(screen: Terminal) -> list[float]:
    """Echoes from the first word of the answer until its last one was shown."""
    screen.watch(LAST)
    screen.until(_BEGINS)
    echoes = []
    while not screen.watched:
        echoes.append(screen.echo())
        screen.drain(0.02)
    return echoes


def _long_output() -> Iterator[Figure]:
    """A command's 200,000 lines of 75 characters in the container, from Enter until the answer after it."""
    with place() as here:
        source = here.workspace / "long.txt"
        source.write_text("".join(f"{number:06} {'x' * 67}\n" for number in range(_LINES)))
        calls = [["bash", {"command": "cat long.txt"}]]
        model = here.script({"text": "", "calls": calls}, {"text": LAST})
        quiet = here.script({"text": "", "calls": [["bash", {"command": "true"}]]}, {"text": LAST})
        ours = [_command(model, here) for _ in range(3)]
        nothing = [_command(quiet, here)[0] for _ in range(3)]
        plain = [run(["cat", str(source)]).wall for _ in range(5)]
    wall = statistics.median(item[0] for item in ours) - statistics.median(nothing)
    grown = statistics.median(item[1] for item in ours)
    rate = f"{_LINES / wall:,.0f} lines/s"
    floor = f"cat {_LINES / statistics.median(plain):,.0f} lines/s"
    yield Figure("200,000 lines of tool output", rate, floor, None, ">= 300,000 lines/s")
    yield Figure("… memory it takes", f"{grown:.0f} MB", "-", None, "bounded")


def _command(model: str, here: Place) -> tuple[float, float]:
    """Seconds from Enter to the last word, and the memory the process grew by."""
    with terminal([*CODEAGENT, "--model", model, "--mode", "auto"], here.workspace, here.env) as screen:
        screen.until(READY)
        screen.until("docker")
        screen.settle(1.0)
        before = screen.memory_mb()
        started = screen.type("go\r")
        wall = screen.until(LAST) - started
        screen.settle(1.0)
        return wall, screen.memory_mb() - before
