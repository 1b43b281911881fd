"""The containers of commands that may reach hosts: one for each list, each with a forwarder to the
proxy's socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import field, replace
from functools import lru_cache

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.core.sandbox import Command, CommandResult, OnOutput
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.egress.grant import Grant
from codeagent.sandbox.egress.proxy import SOCKET, USER, EgressProxy
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.exec_stream import (
    SCRIPTS,
    ExecStream,
    ExecTarget,
    script_command,
    start_exec,
)
from codeagent.sandbox.guard import Container
from codeagent.sandbox.profile import KEEPER, PROXY_FOLDER
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.tasks import all_done, run_to_end

_START_SECONDS = 20.0
_LONGEST_WORD = 4096
_NOT_PROXIED = "localhost,127.0.0.1,::1"
"""Loopback inside is the container's own."""
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_Scope = tuple[frozenset[str], bool, str]
"""Hosts, whether the workspace is read-only, and the one call that it is for; empty: any."""


class Forwarder:
    """Runs inside as the keeper's user, so that no command can end or replace it; ends with the
    container."""

    def __init__(self) -> None:
        self.port = 0
        self._container = ""
        self._watch: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def ready(self, engine: Engine, container_id: str) -> int:
        """Start it unless it runs; return its port. Raises SandboxUnavailable, EngineError,
        SandboxLost."""
        async with self._turn:
            if container_id != self._container or self._watch is None or self._watch.done():
                self.close()
                await self._start(engine, container_id)
            return self.port

    async def variables(self, engine: Engine, container_id: str, grant: Grant) -> tuple[str, ...]:
        """Return the variables in which programs look for the proxy, in both usual spellings. Raises
        as `ready` does."""
        address = f"http://{USER}:{grant.token}@127.0.0.1:{await self.ready(engine, container_id)}"
        values = dict.fromkeys(_VARIABLES, address) | {"NO_PROXY": _NOT_PROXIED}
        return tuple(
            f"{spelled}={value}"
            for name, value in values.items()
            for spelled in (name, name.lower())
        )

    @property
    def processes(self) -> int:
        """How many of the container's processes are its own."""
        return 0 if self._watch is None or self._watch.done() else 1

    def close(self) -> None:
        """Stop watching the forwarder."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = None
        self._container = ""
        self.port = 0

    async def _start(self, engine: Engine, container_id: str) -> None:
        target = ExecTarget(container_id, f"{KEEPER}:{KEEPER}", "/")
        command = script_command(
            "forward", [f"{PROXY_FOLDER}/{SOCKET}", _source("py"), _source("pl")]
        )
        _, stream = await start_exec(engine, target, command)
        try:
            pieces = stream.pieces()
            said = await _first_line(pieces)
        except BaseException:
            stream.close()
            raise
        words = said.split()
        if len(words) != 2 or words[0] != "ready" or not words[1].isdigit():
            stream.close()
            if said.strip() == "none":
                problem = "the sandbox's image has neither python3 nor perl, so commands cannot get network access"
                raise SandboxUnavailable(
                    problem, "choose an image with one of them (codeagent sandbox status)"
                )
            problem = f"network access for the sandbox did not start: {said.strip()[-200:] or 'no answer'}"
            raise SandboxUnavailable(problem, "run the command without network access")
        self.port = int(words[1])
        self._container = container_id
        self._watch = asyncio.create_task(_until_it_ends(stream, pieces))


async def _first_line(pieces: AsyncIterator[tuple[bool, bytes]]) -> str:
    """Return the forwarder's first line on standard output, or its errors if it printed no line.
    Raises EngineError."""
    out = b""
    errors = b""
    try:
        async with asyncio.timeout(_START_SECONDS):
            async for is_stderr, piece in pieces:
                if is_stderr:
                    errors = (errors + piece)[-_LONGEST_WORD:]
                    continue
                out += piece
                if b"\n" in out or len(out) > _LONGEST_WORD:
                    return out.decode("utf-8", "replace")
    except TimeoutError as error:
        raise EngineError(f"the container did not answer within {_START_SECONDS:g} s") from error
    return (out + errors).decode("utf-8", "replace")


async def _until_it_ends(stream: ExecStream, pieces: AsyncIterator[tuple[bool, bytes]]) -> None:
    try:
        async for _ in pieces:
            continue
    finally:
        stream.close()


@lru_cache(maxsize=2)
def _source(language: str) -> str:
    return (SCRIPTS / f"forward.{language}.txt").read_text(encoding="utf-8")


@dataclass
class _EgressContainer:
    """The container of commands that may reach the same hosts."""

    container: SessionContainer
    forwarder: Forwarder = field(default_factory=Forwarder)
    users: int = 0


class EgressContainers:
    """One proxy, and a container of its own for each list of hosts in use.

    So no other command sees the way out or can take it.
    """

    def __init__(
        self, spec: SandboxSpec, proxy: EgressProxy, make: Callable[[SandboxSpec], SessionContainer]
    ) -> None:
        self._spec = spec
        self._proxy = proxy
        self._make = make
        self._containers: dict[_Scope, _EgressContainer] = {}

    @property
    def containers(self) -> tuple[SessionContainer, ...]:
        return tuple(entry.container for entry in self._containers.values())

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """Run a command as `Sandbox.run` does; what it leaves running ends with the last command in
        its container."""
        grant = await self._proxy.opened_for(command.hosts, command.reach, "run")
        entry, unused = self._take(
            (frozenset(command.hosts), command.read_only, command.call_id * command.alone)
        )
        notices: tuple[str, ...] = ()

        async def environment(engine: Engine, container: Container) -> tuple[str, ...]:
            return await entry.forwarder.variables(engine, container.container_id, grant)

        try:
            for other in unused:
                await run_to_end(self._drop(other))
            try:
                result = await entry.container.run(command, on_output, environment)
            finally:
                self._proxy.end(grant)
            # A process left running could wait for the next command's credential; the command
            # itself may lie about it.
            if entry.users == 1 and not await entry.container.is_empty(
                beside=entry.forwarder.processes
            ):
                await run_to_end(self._drop(entry))
                notices = (
                    "what the command left running was stopped: nothing keeps network access",
                )
                result = replace(result, left_running=0)
        finally:
            entry.users -= 1
        return replace(result, notices=(*result.notices, grant.notice(), *notices))

    @property
    def busy(self) -> bool:
        """Whether a command runs; none leaves anything running."""
        return any(entry.users for entry in self._containers.values())

    async def listening(self) -> frozenset[int]:
        """As `Sandbox.listening`."""
        found: set[int] = set()
        for entry in tuple(self._containers.values()):
            found |= await entry.container.listening() - {entry.forwarder.port}
        return frozenset(found)

    async def close(self) -> None:
        """Close; the session's resources are shut before, and closed after this."""
        await all_done(
            self._proxy.close(), *(self._drop(entry) for entry in tuple(self._containers.values()))
        )

    def _take(self, scope: _Scope) -> tuple[_EgressContainer, list[_EgressContainer]]:
        """Return the container of this scope, and those to drop first: a new one replaces all that
        nobody uses.

        What nobody uses holds no process of an earlier command, so another scope with the same
        hosts can have it.
        """
        idle = (
            other
            for other, entry in self._containers.items()
            if other[:2] == scope[:2] and not entry.users
        )
        known = scope if scope in self._containers else next(idle, None)
        if known is not None:
            entry = self._containers[scope] = self._containers.pop(known)
            entry.users += 1
            return entry, []
        spec = replace(
            self._spec,
            access="read-only" if scope[1] else "writable",
            egress_folder=self._proxy.folder,
        )
        unused = [entry for entry in self._containers.values() if not entry.users]
        entry = self._containers[scope] = _EgressContainer(self._make(spec), users=1)
        return entry, unused

    async def _drop(self, entry: _EgressContainer) -> None:
        self._containers = {
            scope: other for scope, other in self._containers.items() if other is not entry
        }
        entry.forwarder.close()
        await entry.container.close()
