"""The numbers that must hold, row by row: `make soak` counts the cases of each and says where too
few were tried.

`@pytest.mark.soak(tried=12, row="egress")` says that a test tries twelve cases of a row. A test
that knows the number only at its end says it through the fixture `tried`; a property needs only the
row, its examples are counted.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import pytest

AIMS = {
    "container probes": 1_440,
    "container work": 360,
    "crafted paths": 2_400,
    "path race": 300_000,
    "git vectors": 360,
    "protected paths": 900,
    "before trust": 25,
    "image builds": 120,
    "hostile commands": 500,
    "everyday commands": 200,
    "deny rules": 9_000,
    "fuzzed commands": 1_000_000,
    "terminal payloads": 5_000,
    "fuzzed terminal": 100_000,
    "hidden tails": 1_000,
    "egress": 190,
    "secrets": 240,
    "MCP servers": 40,
    "user tool values": 10_000,
    "API documents": 500,
    "obedient attacker": 60,
    "forged words": 3_000,
    "kills at system calls": 500,
    "kills at random": 1_000,
    "kills of the screen": 200,
    "kills of batches": 100,
    "networks of batches": 20,
    "kills of trials": 1_200,
    "kills of a cluster": 50,
    "commands tried out": 60,
    "landing races": 2_400,
    "I/O faults": 300,
    "provider scripts": 180,
    "stream cuts": 1_500,
    "tool arguments": 100_000,
    "edited files": 20_000,
    "terminal restore": 9,
    "orphans": 20,
    "host programs": 120,
    "floods": 12,
    "advisories": 35,
    "bound questions": 46,
}
"""How many cases of each row at least, at SOAK=20."""
ONLY = os.environ.get("CODEAGENT_ROW", "")
"""The row that `make soak ROW=...` picks; empty for all."""
OUT_OF_TIME = "the time of this soak is up"
"""Why a test of a soak was skipped after its MINUTES."""


def breaches(failure: BaseException | None) -> int:
    """How many cases a failed test stands for: `for_each` raises them in one group."""
    return len(failure.exceptions) if isinstance(failure, BaseExceptionGroup) else 1


def aims(factor: int, only: str = "") -> dict[str, int]:
    """The aim of each row that a soak runs; below the usual factor of 20 it is in proportion."""
    rows = {row: aim for row, aim in AIMS.items() if only in ("", row)}
    return {row: max(1, aim * min(factor, 20) // 20) for row, aim in rows.items()}


def table(
    reports: Iterable[pytest.TestReport], seed: int, wanted: Mapping[str, int]
) -> Iterator[str]:
    """A line for each row: what it tried, its aim, what went wrong, and where it falls short."""
    tried, failed = _counted(reports)
    yield f"{'cases':>11} {'aim':>11} {'breaches':>9}  row (seed {seed})"
    for row, aim in wanted.items():
        short = "" if tried[row] >= aim else "  BELOW ITS AIM" if tried[row] else "  NOT RUN"
        yield f"{tried[row]:>11,} {aim:>11,} {failed[row]:>9,}  {row}{short}"


def shortfall(reports: Iterable[pytest.TestReport], wanted: Mapping[str, int]) -> str:
    """Name the rows that were not run or are below their aim, in one line; empty if there are
    none."""
    tried, _ = _counted(reports)
    short = {
        row: "below its aim" if tried[row] else "not run"
        for row, aim in wanted.items()
        if tried[row] < aim
    }
    named = ", ".join(f"{row} ({why})" for row, why in short.items())
    return f"this soak falls short in {len(short)} of {len(wanted)} rows: {named}" if short else ""


def _counted(
    reports: Iterable[pytest.TestReport],
) -> tuple[defaultdict[str, int], defaultdict[str, int]]:
    """Count the cases and the breaches of each row."""
    tried: defaultdict[str, int] = defaultdict(int)
    failed: defaultdict[str, int] = defaultdict(int)
    for report in reports:
        told = dict(report.user_properties)
        if (row := told.get("row")) is not None:
            tried[row] += sum(number for name, number in report.user_properties if name == "tried")
            failed[row] += told.get("breaches", 1) if report.failed else 0
    return tried, failed
