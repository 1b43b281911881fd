"""The numbers that must hold, row by row: `make soak` counts the cases of each and says where too few were tried.

`@pytest.mark.soak(tried=12, row="egress")` says that a test tries twelve cases of a row. A test that knows the number
only at its end says it through the fixture `tried`; a property needs only the row, its examples are counted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

AIMS = {
    "container probes": 720,
    "container work": 160,
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
    "API documents": 60,
    "obedient attacker": 60,
    "forged words": 3_000,
    "kills at system calls": 500,
    "kills at random": 1_000,
    "kills of the screen": 200,
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
    "bound questions": 44,
}
"""How many cases of each row at least, at SOAK=20."""


def breaches(failure: BaseException | None) -> int:
    """How many cases a failed test stands for: `for_each` raises them in one group."""
    return len(failure.exceptions) if isinstance(failure, BaseExceptionGroup) else 1


def table(reports: Iterable[pytest.TestReport], seed: int) -> Iterator[str]:
    """A line for each row: what it tried, its aim, what went wrong, and where it falls short."""
    tried: defaultdict[str, int] = defaultdict(int)
    failed: defaultdict[str, int] = defaultdict(int)
    for report in reports:
        told = dict(report.user_properties)
        if (row := told.get("row")) is not None:
            tried[row] += sum(number for name, number in report.user_properties if name == "tried")
            failed[row] += told.get("breaches", 1) if report.failed else 0
    yield f"{'cases':>11} {'aim':>11} {'breaches':>9}  row (seed {seed})"
    for row, aim in AIMS.items():
        short = "" if tried[row] >= aim else "  BELOW ITS AIM" if tried[row] else "  NOT RUN"
        yield f"{tried[row]:>11,} {aim:>11,} {failed[row]:>9,}  {row}{short}"
