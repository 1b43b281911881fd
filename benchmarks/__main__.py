"""`python -m benchmarks [NAME …]`: print each figure beside its floor; without names, all but those
on request."""

import importlib
import sys
from collections.abc import Iterator

from benchmarks.measure import Figure

GROUPS = {
    "startup": "startup:figures",
    "configured": "configured:figures",
    "turns": "turns:figures",
    "early": "early_reads:figures",
    "growth": "growth:figures",
    "context": "context:figures",
    "definitions": "definitions:figures",
    "prompt": "screen_prompt:figures",
    "answers": "screen_answers:figures",
    "stream": "screen_stream:figures",
    "pace": "screen_pace:figures",
    "output": "screen_output:figures",
    "ends": "ends:figures",
    "resume": "screen_resume:figures",
    "commands": "commands:figures",
    "search": "search:figures",
    "usage": "usage:figures",
    "checkpoints": "checkpoints:figures",
    "landing": "landing:figures",
    "trials": "trials:figures",
    "jobs": "jobs:figures",
    "roads": "roads:figures",
    "batch": "batch:figures",
}
ON_REQUEST = {"thousand": "growth:thousand", "batch-thousand": "batch:thousand"}
"""What takes many minutes."""


def main(names: list[str]) -> int:
    known = GROUPS | ON_REQUEST
    unknown = set(names) - set(known)
    if unknown:
        print(
            f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    print(f"{'figure':44} {'ours':>12} {'ratio':>7}  {'target':22} floor")
    for group in names or GROUPS:
        for figure in _figures(known[group]):
            print(_row(figure), flush=True)
    return 0


def _figures(where: str) -> Iterator[Figure]:
    module, _, function = where.partition(":")
    figures: Iterator[Figure] = getattr(importlib.import_module(f"benchmarks.{module}"), function)()
    return figures


def _row(figure: Figure) -> str:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    return f"{figure.name:44} {figure.ours:>12} {ratio:>7}  {figure.target:22} {figure.floor}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
