"""Stopping one call: everything it started, and nothing else; also where it fills the disk."""

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codeagent.core.ports import CommandResult
from codeagent.sandbox.execution import Execution, Place, run_script
from codeagent.sandbox.spec import GIB
from codeagent.sandbox.stillness import Stillness
from codeagent.sandbox.wire import Wire, WireError

_SECONDS = 6.0
"""For the whole of scripts/stop.sh: two for TERM, one for KILL, one for the last resort, and reserve."""
_MOST_SECONDS = 15.0
"""For all of stopping, once the engine answers."""
LOOK_SECONDS = 0.5
_MUST_STAY_FREE = GIB
_MOST_TAKEN = 5 * GIB
_ALWAYS_TAKEN = GIB // 64
"""What a command may take even where less than `_MUST_STAY_FREE` was left before it."""


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


class Room:
    """Room on the file system of one folder, from now on: how much of it may go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = free_bytes(folder)

    def exceeded(self) -> str:
        """Why what runs must be stopped, as a phrase; empty while it need not."""
        free = free_bytes(self._folder)
        taken = self._before - free
        if taken > _MOST_TAKEN:
            return f"{taken / GIB:.1f} GiB of the disk were filled while it ran, and {_MOST_TAKEN // GIB} are the most"
        if free < _MUST_STAY_FREE and taken > _ALWAYS_TAKEN:
            return f"the disk has only {free / GIB:.1f} GiB left, and {_MUST_STAY_FREE // GIB} must stay free"
        return ""


def free_bytes(folder: Path) -> int:
    """For this user, on the file system of the folder; endless where that cannot be known."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 2**63
    return found.f_bavail * found.f_frsize


async def within_disk(folder: Path, work: Coroutine[Any, Any, CommandResult]) -> CommandResult:
    """The result of a `Sandbox.run`, which is cancelled where it fills the disk. A cancel is passed on to it."""
    task, room, why = asyncio.ensure_future(work), Room(folder), ""
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            continue
        if not why and not task.done() and (why := room.exceeded()):
            task.cancel()
    if task.cancelled():
        return CommandResult(exit_code=None, stopped=True)
    result = task.result()
    return replace(result, notices=(*result.notices, f"it was stopped: {why}")) if why and result.stopped else result


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
