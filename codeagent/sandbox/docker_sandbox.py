"""The sandbox of one session: a container that is made when first needed, and made anew in doubt."""

import asyncio
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from codeagent.core.errors import SandboxLost, SandboxUnavailable
from codeagent.core.ports import Command, CommandResult, OnOutput, SandboxInfo
from codeagent.sandbox.background import in_thread, to_the_end
from codeagent.sandbox.container import Container
from codeagent.sandbox.execution import DRAIN_SECONDS, Ending, Execution, Mark, Place, lost
from codeagent.sandbox.pinned import Found, PinnedRoot, refuse_unsuitable
from codeagent.sandbox.quarantine import move_away
from codeagent.sandbox.reach import engine_socket, unanswered
from codeagent.sandbox.selftest import SelfTest, self_test
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.stop import Stopped, stop_call, ticks
from codeagent.sandbox.wire import Wire, WireError

_KILLED_BY_SIGNAL = 137
_ENDING_SECONDS = 1.0


@dataclass
class _Call:
    """One command between its start and its result."""

    mark: str
    began: int
    """In ticks since boot."""
    container: Container | None = None
    starting: asyncio.Task[Execution] | None = None
    notices: list[str] = field(default_factory=list)


class DockerSandbox:
    """`codeagent.core.ports.Sandbox` over a local Docker engine."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._instance = secrets.token_hex(8)
        self._root: PinnedRoot | None = None
        self._wire: Wire | None = None
        self._container: Container | None = None
        self._stale: str | None = None
        """Id of a container that was given up and is removed before the next one is made."""
        self._making: asyncio.Task[Container] | None = None
        self._test = SelfTest((), ())
        self._running: set[str] = set()
        self._left: set[str] = set()
        """Marks of ended calls that left processes behind."""
        self._on_progress: Callable[[str], None] = lambda _: None
        self._closed = False

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        """See the port. Raises SandboxUnavailable."""
        self._on_progress = on_progress
        return self._describe(await self._ready())

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    async def entrance(self) -> tuple[Wire, Place]:
        """Where an interactive shell goes in. Raises SandboxUnavailable."""
        container = await self._ready()
        return self._opened()[1], self._place(container)

    @property
    def tested(self) -> SelfTest:
        """What the self-test of the last start found."""
        return self._test

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """See the port. Being cancelled leaves `Task.cancelling()` as it is, for callers that ask."""
        call = _Call(secrets.token_hex(8), ticks())
        try:
            execution = await self._begin(call, command, on_output)
            ending = await execution.finish()
            return await self._result(call, ending)
        except asyncio.CancelledError:
            return await to_the_end(self._stop(call))
        except SandboxLost:
            self._give_up(call.container)
            raise
        except SandboxUnavailable:
            raise
        except BaseException:
            await to_the_end(self._stop(call))
            raise
        finally:
            self._running.discard(call.mark)
            if call.starting is not None:
                await to_the_end(_close(call.starting))
            if self._spec.per_command and not self._running:
                self._renew()

    async def close(self) -> None:
        self._closed = True
        if self._making is not None:
            self._making.cancel()
        container, self._container = self._container, None
        if container is not None:
            self._stale = container.container_id
            container.let_go()
        if self._stale is not None and self._wire is not None:
            try:
                await self._wire.request("DELETE", f"/containers/{self._stale}?force=1&v=1")
            except WireError:
                pass
            self._stale = None
        if self._root is not None:
            self._root.close()
            self._root = None

    async def _begin(self, call: _Call, command: Command, on_output: OnOutput) -> Execution:
        """Raises SandboxUnavailable where nothing ran, SandboxLost where that is unknown."""
        container = await self._fitting(call)
        _, wire = self._opened()
        for last in (False, True):
            call.container = container
            self._running.add(call.mark)
            starting = Execution.start(wire, self._place(container), command.text, self._mark(call.mark), on_output)
            call.starting = asyncio.create_task(starting)
            try:
                return await asyncio.shield(call.starting)
            except WireError as error:
                call.starting, call.container = None, None
                self._give_up(container)
                if last or error.status not in (404, 409):
                    raise unanswered(wire.socket, error) from error
            call.notices.append("the sandbox was gone and was made anew: background processes and /tmp are lost")
            container = await self._ready()
        raise AssertionError("the second attempt returns or raises")

    async def _fitting(self, call: _Call) -> Container:
        """The container, made anew where what it guards was replaced on this machine. Fails closed."""
        container = await self._ready()
        root, _ = self._opened()
        if not root.unmoved():
            raise SandboxUnavailable(f"the workspace {root.path} was moved or replaced", "start codeagent again there")
        changed = [found.name for found in container.guarded if root.find(found.name) != found]
        known = {found.name for found in container.protected}
        appeared = [found for found in root.protected() if found.name not in known]
        if appeared and self._left:
            call.notices += [self._quarantined(root, found) for found in appeared]
            appeared = []
        if not changed and not appeared:
            return container
        names = ", ".join(changed + [found.name for found in appeared])
        if self._running:
            raise SandboxUnavailable(f"{names} changed while another command runs", "try again when that has ended")
        self._give_up(container)
        call.notices.append(f"the sandbox was made anew because {names} changed outside it; /tmp in it is empty")
        return await self._ready()

    async def _ready(self) -> Container:
        if self._closed:
            raise SandboxUnavailable("the sandbox is closed", "start codeagent again")
        if self._container is not None:
            return self._container
        return await asyncio.shield(self._being_made())

    def _being_made(self) -> asyncio.Task[Container]:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._making

    def _renew(self) -> None:
        """Give the used container up and make the next one ready; what fails there is said by the next command."""
        self._give_up(self._container)
        if not self._closed:
            self._being_made()

    async def _make(self) -> Container:
        spec = self._spec
        if self._root is None:
            self._root, self._wire = _open(spec)
        root, wire = self._opened()
        loop, on_progress, stale = asyncio.get_running_loop(), self._on_progress, self._stale

        def work() -> Container:
            from codeagent.sandbox.launch import launch, remove

            if stale is not None:
                remove(wire.socket, stale)
            return launch(spec, root, wire.socket, self._instance, report)

        def report(text: str) -> None:
            loop.call_soon_threadsafe(on_progress, text)

        container = await in_thread(work, Container.let_go)
        self._stale = None
        self._left.clear()
        try:
            self._test = await self_test(
                wire, self._place(container), root, container.protected, spec.read_only_workspace
            )
        except BaseException as error:
            self._give_up(container)
            if isinstance(error, WireError | SandboxLost):
                raise SandboxUnavailable(f"the sandbox did not start: {error}", "codeagent sandbox test") from error
            raise
        if self._test.failed:
            self._give_up(container)
            raise SandboxUnavailable(
                f"the sandbox failed its self-test: {'; '.join(self._test.failed)}",
                "codeagent sandbox test shows all of it; the engine must run on this machine and see this directory",
            )
        self._container = container
        return container

    async def _result(self, call: _Call, ending: Ending) -> CommandResult:
        out_of_memory = ending.out_of_memory
        if not ending.told:
            out_of_memory = await self._still_there(call, ending)
        if ending.left_running:
            self._left.add(call.mark)
        return CommandResult(
            exit_code=ending.exit_code,
            left_running=ending.left_running,
            out_of_memory=out_of_memory and ending.exit_code != 0,
            notices=self._notices(call),
        )

    async def _still_there(self, call: _Call, ending: Ending) -> bool:
        """Whether memory ran out. Raises SandboxLost where the command ended because its container did."""
        assert call.container is not None
        _, wire = self._opened()
        path = f"/containers/{call.container.container_id}"
        try:
            if await _ends(wire, path):
                raise SandboxLost(lost("its container was stopped"))
            facts = await wire.request("GET", f"{path}/json")
        except WireError as error:
            raise SandboxLost(lost(str(error))) from error
        if not facts["State"]["Running"] or ending.exit_code < 0:
            raise SandboxLost(lost("its container was stopped"))
        return bool(facts["State"]["OOMKilled"]) and ending.exit_code == _KILLED_BY_SIGNAL

    async def _stop(self, call: _Call) -> CommandResult:
        """Raises SandboxLost where the engine is gone."""
        if call.container is None or call.starting is None:
            return CommandResult(exit_code=None, stopped=True, notices=tuple(call.notices))
        _, wire = self._opened()
        try:
            execution = await call.starting
            stopped = await stop_call(wire, self._place(call.container), self._mark(call.mark), call.began)
        except (WireError, SandboxLost) as error:
            self._give_up(call.container)
            raise SandboxLost(lost(str(error))) from error
        if stopped is None or stopped.left:
            await self._kill(call, wire)
            stopped = stopped or Stopped(0, 0, everything=True)
        elif stopped.everything:
            call.notices.append("every process in the sandbox had to be killed, background processes included")
        try:
            await execution.drain(DRAIN_SECONDS)
        except Exception:  # who reads the output is gone; that must not hide the result
            pass
        return CommandResult(exit_code=None, stopped=True, killed=stopped.killed, notices=self._notices(call))

    async def _kill(self, call: _Call, wire: Wire) -> None:
        """The last resort against processes that outrun every signal: the container itself."""
        assert call.container is not None
        self._give_up(call.container)
        call.notices.append("the sandbox itself had to be killed; the next command starts a new one")
        try:
            await wire.request("DELETE", f"/containers/{call.container.container_id}?force=1&v=1")
        except WireError as error:
            raise SandboxLost(lost(str(error))) from error

    def _notices(self, call: _Call) -> tuple[str, ...]:
        """What happened around the command; what it planted is moved away first."""
        assert call.container is not None
        root, _ = self._opened()
        known = {found.name for found in call.container.protected}
        planted = [found for found in root.protected() if found.name not in known]
        return (*call.notices, *(self._quarantined(root, found) for found in planted))

    def _quarantined(self, root: PinnedRoot, planted: Found) -> str:
        try:
            return move_away(root, planted, self._spec.state_dir)
        except OSError as error:
            problem = f"{planted.name} appeared and could not be moved away ({error.strerror})"
            return f"{problem}: look at it before using git"

    def _give_up(self, container: Container | None) -> None:
        if container is None or (container is not self._container and self._container is not None):
            return
        container.let_go()
        self._stale = container.container_id
        self._container = None

    def _place(self, container: Container) -> Place:
        root, _ = self._opened()
        return Place(container.container_id, f"{root.uid}:{root.gid}", str(root.path))

    def _opened(self) -> tuple[PinnedRoot, Wire]:
        if self._root is None or self._wire is None:
            raise SandboxUnavailable("the sandbox is closed", "start codeagent again")
        return self._root, self._wire

    def _mark(self, mark: str) -> Mark:
        others = (self._running | self._left) - {mark}
        return Mark(mark, tuple(sorted(others)), alone=not self._running - {mark})

    def _describe(self, container: Container) -> SandboxInfo:
        root, _ = self._opened()
        missing = self._test.missing_tools
        absent = (f"not in the sandbox: {', '.join(missing)}",) if missing else ()
        return SandboxInfo(
            kind="docker",
            image=container.image,
            image_origin=container.image_origin,
            user="root, no capabilities" if root.uid == 0 else f"{root.uid}:{root.gid}",
            network="none",
            warnings=container.warnings + absent,
        )


async def _ends(wire: Wire, path: str) -> bool:
    """Whether the container ends just now: its processes go first, what the engine says of it follows."""
    try:
        await Wire(wire.socket, timeout=_ENDING_SECONDS).request("POST", f"{path}/wait?condition=not-running")
    except WireError as error:
        return error.status is not None
    return True


def _open(spec: SandboxSpec) -> tuple[PinnedRoot, Wire]:
    """Raises SandboxUnavailable."""
    socket = engine_socket(spec.docker_host)
    path = Path(os.path.realpath(spec.root))
    refuse_unsuitable(path, Path(os.path.realpath(spec.home)), (spec.state_dir, Path(socket)))
    return PinnedRoot(path), Wire(socket)


async def _close(starting: asyncio.Task[Execution]) -> None:
    try:
        execution = await starting
    except (WireError, SandboxLost):
        return
    await execution.close()
