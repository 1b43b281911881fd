"""Commands that may reach hosts: in containers of their own, so that no other command sees the way out or takes it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.hosts import HostRule
from codeagent.core.ports import Command, CommandResult, OnOutput
from codeagent.sandbox.background import to_the_end
from codeagent.sandbox.container import Container
from codeagent.sandbox.egress.forwarder import Forwarder
from codeagent.sandbox.egress.grant import Grant
from codeagent.sandbox.egress.proxy import EgressProxy
from codeagent.sandbox.egress.request import USER
from codeagent.sandbox.session_container import SessionContainer
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.wire import Wire

_NOT_PROXIED = "localhost,127.0.0.1,::1"
"""Loopback inside is the container's own."""
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_Scope = tuple[frozenset[str], bool]
"""Hosts, and whether the workspace is read-only."""


@dataclass
class _Lane:
    """The container of the commands that may reach the same hosts."""

    container: SessionContainer
    forwarder: Forwarder = field(default_factory=Forwarder)
    users: int = 0


class WayOut:
    """One proxy, and a container for each list of hosts that is in use."""

    def __init__(self, spec: SandboxSpec, proxy: EgressProxy, make: Callable[[SandboxSpec], SessionContainer]) -> None:
        self._spec = spec
        self._proxy = proxy
        self._make = make
        self._lanes: dict[_Scope, _Lane] = {}

    @property
    def containers(self) -> tuple[SessionContainer, ...]:
        return tuple(lane.container for lane in self._lanes.values())

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """As `Sandbox.run`. What the command leaves running is ended with the last command beside it."""
        rules = _rules(command.hosts)
        await self._proxy.open()
        lane = await self._lane((frozenset(command.hosts), command.read_only))
        grant = self._proxy.grant(rules)

        async def environment(wire: Wire, container: Container) -> tuple[str, ...]:
            return proxy_variables(await lane.forwarder.ready(wire, container.container_id), grant)

        lane.users += 1
        try:
            result = await lane.container.run(command.text, on_output, environment)
        finally:
            self._proxy.end(grant)
            lane.users -= 1
        notices = (*result.notices, grant.notice())
        # What lives on could wait for the next command's credential; the command itself may lie about it.
        if not lane.users and not await lane.container.is_empty(beside=lane.forwarder.processes):
            await to_the_end(self._drop(lane))
            notices += ("what the command left running was stopped: nothing keeps network access",)
            result = replace(result, left_running=0)
        return replace(result, notices=notices)

    @property
    def busy(self) -> bool:
        """A command runs; none leaves anything running."""
        return any(lane.users for lane in self._lanes.values())

    async def listening(self) -> frozenset[int]:
        """As `Sandbox.listening`."""
        found: set[int] = set()
        for lane in tuple(self._lanes.values()):
            found |= await lane.container.listening() - {lane.forwarder.port}
        return frozenset(found)

    async def close(self) -> None:
        """The ground is shut before, and closed after this."""
        await self._proxy.close()
        await asyncio.gather(*(self._drop(lane) for lane in tuple(self._lanes.values())))

    async def _lane(self, scope: _Scope) -> _Lane:
        """The one of this scope; those of others that nobody uses are given up for a new one."""
        if scope in self._lanes:
            return self._lanes[scope]
        spec = replace(self._spec, read_only_workspace=scope[1], egress_folder=self._proxy.folder)
        unused = [lane for lane in self._lanes.values() if not lane.users]
        lane = self._lanes[scope] = _Lane(self._make(spec))
        for other in unused:
            await to_the_end(self._drop(other))
        return lane

    async def _drop(self, lane: _Lane) -> None:
        self._lanes = {scope: other for scope, other in self._lanes.items() if other is not lane}
        lane.forwarder.close()
        await lane.container.close()


def proxy_variables(port: int, grant: Grant) -> tuple[str, ...]:
    """What programs read to find the proxy, in both of the usual spellings."""
    address = f"http://{USER}:{grant.token}@127.0.0.1:{port}"
    values = dict.fromkeys(_VARIABLES, address) | {"NO_PROXY": _NOT_PROXIED}
    return tuple(f"{spelled}={value}" for name, value in values.items() for spelled in (name, name.lower()))


def _rules(hosts: tuple[str, ...]) -> tuple[HostRule, ...]:
    try:
        return tuple(map(HostRule.parse, hosts))
    except ValueError as error:
        raise SandboxUnavailable(f"nothing was run: {error}", "correct the list of hosts") from error
