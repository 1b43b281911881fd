"""Which TCP ports processes in a container listen on."""

from codeagent.sandbox.execution import Place, run_script
from codeagent.sandbox.wire import Wire

_SECONDS = 3.0
_HIGHEST = 65_535


async def listening_ports(wire: Wire, place: Place) -> frozenset[int]:
    """As the kernel says inside, IPv4 and IPv6 alike. Raises WireError, SandboxLost."""
    return ports_in(await run_script(wire, place, "listening", [], _SECONDS))


def ports_in(answer: bytes) -> frozenset[int]:
    """What scripts/listening.sh printed; empty where it was cut short or is something else."""
    words = answer.decode("ascii", "replace").split()
    if words[-1:] != ["done"]:
        return frozenset()
    try:
        ports = frozenset(int(word, 16) for word in words[:-1])
    except ValueError:
        return frozenset()
    return ports if all(0 < port <= _HIGHEST for port in ports) else frozenset()
