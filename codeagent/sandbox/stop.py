"""Stopping one call: everything it started, and nothing else."""

from dataclasses import dataclass

from codeagent.sandbox.execution import Place, run_script
from codeagent.sandbox.wire import Wire, WireError

_SECONDS = 6.0
"""For the whole of scripts/stop.sh: two for TERM, one for KILL, one for the last resort, and reserve."""


@dataclass(frozen=True)
class Stopped:
    killed: int
    left: int
    everything: bool
    """Whether every process of the sandbox had to be killed, other calls' included."""


async def stop_call(wire: Wire, place: Place, number: int) -> Stopped | None:
    """None where the container did not answer in time. Raises WireError where the engine is gone."""
    for _attempt in range(2):
        try:
            answer = await run_script(wire, place, "stop", [str(number)], _SECONDS)
        except WireError as error:
            if error.status is not None or "did not answer" not in str(error):
                raise
            return None
        words = answer.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            killed, left, everything = map(int, words)
            return Stopped(killed, left, bool(everything))
    return None
