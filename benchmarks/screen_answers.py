"""The screen and its model: from Enter to the request, and from the response to the words on the
screen."""

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.measure import CODEAGENT, Figure, model_server, ms
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, terminal

ANSWERS = 6
PROMPT = "say something"


def figures() -> Iterator[Figure]:
    with place() as here:
        for where, sandbox in (("host", "off"), ("container", "docker")):
            leaves, shown = _at_once(sandbox, here)
            yield Figure(
                f"Enter at once after the start to request, {where}",
                ms(leaves),
                "-",
                None,
                "<= 500 ms",
            )
        yield Figure("response to the first answer on screen", ms(shown), "-", None, "<= 40 ms")
        yield from _warm(here)


def _command(server: str, sandbox: str) -> Sequence[str]:
    return [*CODEAGENT, "--model", "openai/bench", "--api-base", server, "--sandbox", sandbox]


def _at_once(sandbox: str, here: BenchEnvironment) -> tuple[float, float]:
    """Medians: from Enter, pressed as soon as keys are read, to the request; from its response to
    the words."""
    leaves, shown = [], []
    for _ in range(5):
        with model_server([{"text": "the-answer"}]) as server:
            with terminal(_command(server.base_url, sandbox), here.workspace, here.env) as screen:
                screen.until(READY)
                entered = screen.type(f"{PROMPT}\r")
                seen = screen.until("the-answer")
                entry = server.log()[0]
            leaves.append(entry["arrived"] - entered)
            shown.append(seen - entry["began"])
    return statistics.median(leaves), statistics.median(shown)


def _warm(here: BenchEnvironment) -> Iterator[Figure]:
    """With the first request behind it."""
    with model_server([{"text": f"the-answer-{number}"} for number in range(ANSWERS)]) as server:
        with terminal(_command(server.base_url, "off"), here.workspace, here.env) as screen:
            screen.until(READY)
            screen.settle(2.0)
            entered, seen = [], []
            for number in range(ANSWERS):
                screen.type(f"{PROMPT} {number}")
                screen.settle(0.3)
                entered.append(screen.type("\r"))
                seen.append(screen.until(f"the-answer-{number}"))
                screen.settle(1.0)
        log = server.log()
    leaves = statistics.median(
        entry["arrived"] - at for entry, at in zip(log[1:], entered[1:], strict=True)
    )
    shown = statistics.median(
        at - entry["began"] for entry, at in zip(log[1:], seen[1:], strict=True)
    )
    yield Figure("Enter to request, warm", ms(leaves), "-", None, "<= 40 ms")
    yield Figure("response to a later answer on screen", ms(shown), "-", None, "-")
