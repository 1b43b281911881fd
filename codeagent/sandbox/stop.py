"""Stopping one call: everything it started, and nothing else."""

import asyncio
from dataclasses import dataclass

from codeagent.sandbox.execution import Execution, Place, run_script
from codeagent.sandbox.stillness import Stillness
from codeagent.sandbox.wire import Wire, WireError

_SECONDS = 6.0
"""For the whole of scripts/stop.sh: two for TERM, one for KILL, one for the last resort, and reserve."""
_MOST_SECONDS = 15.0
"""For all of stopping, once the engine answers."""


@dataclass(frozen=True)
class Stopped:
    killed: int
    left: int
    everything: bool
    """Whether every process of the sandbox had to be killed, other calls' included."""


async def stop_call(
    wire: Wire, place: Place, number: int, starting: "asyncio.Task[Execution]", stillness: Stillness
) -> tuple[Execution, Stopped | None]:
    """Once it has started and nobody needs stillness; without a Stopped where the container was silent.

    An engine that does not answer is not waited for. Raises WireError, SandboxLost.
    """
    if not await wire.answers():
        raise WireError("the Docker engine does not answer")
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            execution = await asyncio.shield(starting)
            async with stillness.moving():
                return execution, await _stopped(wire, place, number)
    except TimeoutError as error:
        raise WireError(f"the command was not stopped within {_MOST_SECONDS:g} s") from error


async def _stopped(wire: Wire, place: Place, number: int) -> Stopped | None:
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
