"""Stopping all that runs in a container at once: for a while, by the kernel's freezer, or for good."""

from codeagent.core.errors import SandboxLost
from codeagent.sandbox.thaw import Frozen
from codeagent.sandbox.wire import Wire, WireError

_KEEPERS = 2
"""Processes of a container in which nothing runs: the engine's init and the keeper."""
_ENDING_SECONDS = 1.0
_TRIES = 3


async def pause(wire: Wire, container_id: str, frozen: Frozen) -> None:
    """Afterwards nothing runs in it, also where it is gone. Raises SandboxLost where that cannot be said."""
    path = f"/containers/{container_id}"
    try:
        frozen.add(containers=[(wire.socket, container_id)])
    except OSError as error:
        raise not_held(f"it cannot be written down: {error.strerror}") from error
    for left in reversed(range(_TRIES)):
        try:
            await _pause(wire, path)
            return
        except WireError as error:
            if error.status is None or not left:
                raise not_held(str(error)) from error


async def _pause(wire: Wire, path: str) -> None:
    """Raises WireError where it runs on; on a busy machine the kernel's freezer gives up now and then."""
    try:
        await wire.request("POST", f"{path}/pause")
    except WireError as error:
        if error.status != 404 and (error.status is None or await _runs(wire, path)):
            raise


def not_held(reason: str) -> SandboxLost:
    """The one line where processes may go on changing the workspace."""
    return SandboxLost(f"the sandbox could not be paused ({reason}), so what needed a pause was not done; try again")


async def resume(wire: Wire, container_id: str, frozen: Frozen) -> bool:
    """Whether it goes on, or was gone before; else it is removed, by the next start at the latest."""
    goes_on, answers = True, await wire.answers()
    try:
        if answers:
            await wire.request("POST", f"/containers/{container_id}/unpause")
    except WireError as error:
        goes_on = error.status in (404, 409)
    if (answers and goes_on) or (answers and await end(wire, container_id)):
        frozen.remove(containers=[(wire.socket, container_id)])
    return answers and goes_on


async def is_idle(wire: Wire, container_id: str, beside: int = 0) -> bool:
    """Whether only its keepers and `beside` others live in it, by the engine's own list; the dead are not counted.

    False in every doubt. What a command says of itself is not asked: it may lie.
    """
    try:
        listed = await wire.request("GET", f"/containers/{container_id}/top?ps_args=-eo%20pid,stat")
    except WireError as error:
        return error.status == 404
    living = [state for *_, state in listed["Processes"] if not state.startswith(("Z", "X"))]
    return 0 < len(living) <= _KEEPERS + beside


async def end(wire: Wire, container_id: str) -> bool:
    """Kill and remove it; whether it is gone."""
    path = f"/containers/{container_id}"
    try:
        await wire.request("DELETE", f"{path}?force=1&v=1")
    except WireError as error:
        return error.status == 404 or (error.status == 409 and await _goes(wire, path))
    return True


async def ends(wire: Wire, path: str) -> bool:
    """Whether the container ends just now: its processes go first, what the engine says of it follows."""
    try:
        await Wire(wire.socket, timeout=_ENDING_SECONDS).request("POST", f"{path}/wait?condition=not-running")
    except WireError as error:
        return error.status is not None
    return True


async def _goes(wire: Wire, path: str) -> bool:
    """Somebody else removes it already: whether that comes to its end."""
    try:
        await wire.request("POST", f"{path}/wait?condition=removed")
    except WireError as error:
        return error.status == 404
    return True


async def _runs(wire: Wire, path: str) -> bool:
    try:
        state = (await wire.request("GET", f"{path}/json"))["State"]
    except WireError as error:
        return error.status != 404
    return bool(state["Running"]) and not state["Paused"]
