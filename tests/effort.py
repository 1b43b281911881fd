"""How much a test tries: a representative part in `make test`, as much as there is time for in
`make soak`.

It is the same test with larger numbers. `make soak` sets CODEAGENT_SOAK, the factor, runs the tests
that are marked `soak`, properties among them, and prints how much each tried.
"""

import os
import random
import time
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")
FACTOR = int(os.environ.get("CODEAGENT_SOAK", "0"))
"""How many times the usual effort; 0 outside of `make soak`."""
ENDS = time.monotonic() + 60 * float(os.environ.get("CODEAGENT_SOAK_MINUTES", "60"))
"""When no further test of a soak begins, on the clock of `time.monotonic`."""
SEED = int(os.environ.get("CODEAGENT_SEED", "1"))
"""What chance begins with; `make soak` prints it and takes it from SEED."""


def chance(what: object) -> random.Random:
    """The same numbers for the same seed, and others for another test."""
    return random.Random(f"{SEED} {what}")


def up_to(usual: int, aim: int) -> int:
    """`usual` in `make test`, `aim` at the soak's usual factor of 20, and in proportion at
    others."""
    return max(usual, aim * FACTOR // 20)


def times(usual: int) -> int:
    """How often a test does what it does `usual` times in `make test`."""
    return usual * max(1, FACTOR)


def part(cases: Sequence[Case], usual: int) -> list[Case]:
    """`usual` of the cases, spread evenly; all of them in `make soak`."""
    if FACTOR or len(cases) <= usual:
        return [*cases]
    return [cases[number * len(cases) // usual] for number in range(usual)]
