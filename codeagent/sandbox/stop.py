"""Stopping one call: everything it started, and nothing else."""

import time
from dataclasses import dataclass

from codeagent.sandbox.execution import Mark, Place, run_script
from codeagent.sandbox.wire import Wire, WireError

_SECONDS = 6.0
"""For the whole of scripts/stop.sh: two for TERM, one for KILL, one for the last resort, and reserve."""


@dataclass(frozen=True)
class Stopped:
    killed: int
    left: int
    everything: bool
    """Whether every process of the sandbox had to be killed, other calls' included."""


def ticks() -> int:
    """Hundredths of a second since boot, the clock of process start times; 0 where there is none."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0 if clock is None else int(time.clock_gettime(clock) * 100)


async def stop_call(wire: Wire, place: Place, mark: Mark, began: int) -> Stopped | None:
    """None where the container did not answer in time; `began` is in ticks.

    Raises WireError where the engine is gone.
    """
    arguments = [*mark.arguments(), str(began)]
    for _attempt in range(2):
        try:
            answer = await run_script(wire, place, "stop", arguments, _SECONDS)
        except WireError as error:
            if error.status is not None or "did not answer" not in str(error):
                raise
            return None
        words = answer.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            killed, left, everything = map(int, words)
            return Stopped(killed, left, bool(everything))
    return None
