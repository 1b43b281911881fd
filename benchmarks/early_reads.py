"""A read of one second whose block closes a second before its answer ends: when its result is
there, early and not."""

import json
from collections.abc import Iterator

from benchmarks.measure import CODEAGENT, Figure, model_server, ms, run
from benchmarks.place import BenchEnvironment, place

LOOK = '''
import time

from codeagent import register_tool


@register_tool(approval="auto", effect="nothing")
def look(number: int) -> str:
    """Look around, slowly.

    Args:
        number: Which.
    """
    time.sleep(1)
    return "seen"
'''
TURNS = [
    {"calls": [["look", {"number": 1}], ["look", {"number": 2}]], "pace": 0.3},
    {"text": "done"},
]
"""The second call, which closes the first, comes at 0.9 s, and the answer ends at 2.1 s."""


def figures() -> Iterator[Figure]:
    with place() as here:
        tools = here.home / "XDG_CONFIG_HOME/codeagent/tools"
        tools.mkdir(parents=True)
        (tools / "look.py").write_text(LOOK)
        late = _first_result(here, early=False)
        early = _first_result(here, early=True)
        beside = f"not early {ms(late)}"
        yield Figure(
            "a read of 1 s in an answer of 2.1 s", ms(early), beside, early / late, "<= 0.7"
        )


def _first_result(here: BenchEnvironment, *, early: bool) -> float:
    """Return the seconds from the request to the first result."""
    (here.home / "XDG_CONFIG_HOME/codeagent/config.toml").write_text(
        f"early_reads = {str(early).lower()}\n"
    )
    with model_server(TURNS) as server:
        model = ["--model", "openai/bench", "--api-base", server.base_url, "--sandbox", "off"]
        done = run(
            [*CODEAGENT, "run", *model, "--output", "jsonl", "look"],
            cwd=here.workspace,
            env=here.env,
        )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    times = {event["type"]: event["ts"] for event in reversed(events)}
    return float(times["tool.result"] - times["turn.started"])
