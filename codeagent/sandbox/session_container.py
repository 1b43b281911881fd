"""One container of a session: made when first needed, made anew in doubt, and paused on request."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

from codeagent.core.errors import SandboxError, SandboxLost, SandboxUnavailable
from codeagent.core.ports import CommandResult, OnOutput, SandboxInfo
from codeagent.sandbox.background import in_thread, telling, to_the_end
from codeagent.sandbox.container import Container
from codeagent.sandbox.execution import DRAIN_SECONDS, Ending, Execution, Mark, Place, lost
from codeagent.sandbox.ground import Ground
from codeagent.sandbox.guard import Guard
from codeagent.sandbox.listening import listening_ports
from codeagent.sandbox.pausing import end, ends, is_idle, not_held, pause, resume
from codeagent.sandbox.reach import probe_socket, unanswered
from codeagent.sandbox.selftest import SelfTest, self_test
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.stillness import Stillness
from codeagent.sandbox.stop import Stopped, stop_call
from codeagent.sandbox.wire import Wire, WireError

Environment = Callable[[Wire, Container], Awaitable[tuple[str, ...]]]
"""Variables for one command, once the container is known it starts in: `NAME=value`."""
_KILLED_BY_SIGNAL = 137


@dataclass
class _Call:
    """One command between its start and its result."""

    mark: Mark
    environment: Environment
    container: Container | None = None
    starting: asyncio.Task[Execution] | None = None
    notices: list[str] = field(default_factory=list)


class SessionContainer:
    """Runs commands like `codeagent.core.ports.Sandbox`, over a local Docker engine; all of them see one workspace."""

    def __init__(
        self, spec: SandboxSpec, ground: Ground, instance: str, stillness: Stillness, on_progress: Callable[[str], None]
    ) -> None:
        """`stillness` is asked before anything starts inside; who holds it calls `pause` and `resume`."""
        self._spec = spec
        self._ground = ground
        self._instance = instance
        self._stillness = stillness
        self._on_progress = on_progress
        self._container: Container | None = None
        self._stale: str | None = None
        """Id of a container that was given up and is removed before the next one is made."""
        self._making: asyncio.Task[Container] | None = None
        self._test = SelfTest((), ())
        self._numbers = count(1)
        self._running: set[int] = set()
        """Numbers of calls."""
        self._left = False
        """Whether an ended call left processes behind."""
        self._guard = Guard(ground, spec.state_dir)
        self._idle = False
        """Nothing lives inside but the keepers, and nothing was started there since that was seen."""
        self._paused: str | None = None
        self._to_say: list[str] = []
        """Notices for the next command."""

    async def start(self) -> SandboxInfo:
        """Raises SandboxUnavailable."""
        return self._describe(await self._ready())

    async def entrance(self) -> tuple[Wire, Place]:
        """Where an interactive shell goes in. Raises SandboxUnavailable."""
        container = await self._ready()
        self._idle = False
        return self._ground.opened()[1], self._place(container)

    @property
    def exposed(self) -> str:
        """See Guard."""
        return self._guard.exposed

    @property
    def tested(self) -> SelfTest:
        """What the self-test of the last start found."""
        return self._test

    async def run(self, text: str, on_output: OnOutput, environment: Environment | None = None) -> CommandResult:
        """See the port. Being cancelled leaves `Task.cancelling()` as it is, for callers that ask."""
        call = _Call(Mark(secrets.token_hex(8), next(self._numbers)), environment or _nothing_more)
        try:
            execution = await self._begin(call, text, on_output)
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
            self._running.discard(call.mark.number)
            if call.starting is not None:
                await to_the_end(_close(call.starting))
            if self._spec.per_command and not self._running:
                self._renew()

    async def listening(self) -> frozenset[int]:
        """TCP ports listened on inside; empty where that cannot be known. Waits while the sandbox is frozen."""
        try:
            async with self._stillness.moving():
                if self._container is None or self._idle or self._ground.shut:
                    return frozenset()
                return await listening_ports(self._ground.opened()[1], self._place(self._container))
        except (SandboxLost, SandboxUnavailable, WireError):
            return frozenset()

    async def is_empty(self, beside: int) -> bool:
        """Whether nothing lives inside but the keepers and `beside` processes of ours. Raises SandboxUnavailable."""
        container = self._container
        return container is None or await is_idle(self._ground.opened()[1], container.container_id, beside)

    async def is_quiet(self) -> bool:
        """Whether nothing that a command started may still run."""
        idle = not self._running and (self._container is None or self._idle)
        if self._running or self._ground.shut or (idle and self._stale is None):
            return idle
        wire = self._ground.opened()[1]
        if not await wire.answers() or (self._stale is not None and not await end(wire, self._stale)):
            return False
        return idle or await self.is_empty(0)

    async def pause(self) -> None:
        """Nothing runs inside afterwards; free where nothing does. Raises SandboxLost where that cannot be said."""
        stale, container = self._stale, self._container
        nothing_runs = container is None or (self._idle and not self._running and not self._left)
        if stale is None and nothing_runs:
            return
        _, wire = self._ground.opened()
        if not await wire.answers():
            raise not_held("the Docker engine does not answer")
        if stale is not None and not await end(wire, stale):
            raise not_held("one that was given up cannot be removed")
        if container is None or nothing_runs:
            return
        if not self._running and not self._left:
            self._idle = await is_idle(wire, container.container_id)
            if self._idle:
                return
        self._paused = container.container_id
        await pause(wire, container.container_id, self._ground.frozen)

    async def resume(self) -> None:
        """Ends a pause; a container that cannot be resumed is killed, which its commands learn as a loss."""
        paused, self._paused = self._paused, None
        if paused is None or self._ground.shut:
            return
        _, wire = self._ground.opened()
        container = self._container
        if await resume(wire, paused, self._ground.frozen):
            return
        if container is not None and container.container_id == paused:
            self._give_up(container)
            self._to_say.append("the sandbox did not go on after a pause: background processes and /tmp are lost")

    async def drop(self, why: str) -> None:
        """End what runs inside; `why` is said with the next command, which starts a new container."""
        self._to_say.append(why)
        await self.close()

    async def close(self) -> None:
        """The ground is shut before, and closed after this."""
        if self._making is not None:
            self._making.cancel()
        self._give_up(self._container)
        if self._stale is not None:
            if await self._ground.opened()[1].answers():
                await end(self._ground.opened()[1], self._stale)
            self._stale = None

    async def _begin(self, call: _Call, text: str, on_output: OnOutput) -> Execution:
        """Raises SandboxUnavailable where nothing ran, SandboxLost where that is unknown."""
        replaced = False
        while True:
            await self._stillness.over()
            container = await self._fitting(call)
            if self._stillness.held:
                continue
            call.starting = self._start(call, container, text, on_output)
            try:
                return await asyncio.shield(call.starting)
            except WireError as error:
                call.starting, call.container = None, None
                self._give_up(container)
                if replaced or error.status not in (404, 409):
                    raise unanswered(self._ground.opened()[1].socket, error) from error
            call.notices.append("the sandbox was gone and was made anew: background processes and /tmp are lost")
            replaced = True

    def _start(self, call: _Call, container: Container, text: str, on_output: OnOutput) -> asyncio.Task[Execution]:
        """Begins at once, so that who wants stillness from now on waits until it has started."""
        call.container = container
        call.notices += self._to_say
        self._to_say.clear()
        self._running.add(call.mark.number)
        self._idle = False
        moved = self._stillness.move()
        _, wire = self._ground.opened()
        place = self._place(container)

        async def begin() -> Execution:
            variables = await call.environment(wire, container)
            return await Execution.start(wire, place, text, call.mark, on_output, variables)

        task = asyncio.create_task(begin())
        task.add_done_callback(lambda _: moved())
        return task

    async def _fitting(self, call: _Call) -> Container:
        """The container, made anew where what it guards was replaced on this machine. Fails closed."""
        container = await self._ready()
        if self._left and not await self.is_quiet():
            call.notices += self._guard.quarantined(container)
        names = ", ".join(await self._guard.outdated(container, busy=bool(self._running)))
        if not names:
            return container
        if self._running:
            raise SandboxUnavailable(f"{names} changed while another command runs", "try again when that has ended")
        lost = "background processes and /tmp are lost" if self._left else "/tmp in it is empty"
        self._give_up(container)
        call.notices.append(f"the sandbox was made anew because {names} changed outside it; {lost}")
        return await self._ready()

    async def _ready(self) -> Container:
        self._ground.open()
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
        if not self._ground.shut:
            self._being_made()

    async def _make(self) -> Container:
        spec = self._spec
        root, wire = self._ground.open()
        loop, on_progress, stale = asyncio.get_running_loop(), self._on_progress, self._stale

        def work() -> Container:
            from codeagent.sandbox.launch import launch, remove

            probe_socket(wire.socket)
            if stale is not None:
                remove(wire.socket, stale)
            return launch(spec, self._ground, wire.socket, self._instance, report)

        def report(text: str) -> None:
            loop.call_soon_threadsafe(on_progress, text)

        async with telling(f"waiting for the Docker engine at {wire.socket}", on_progress):
            container = await in_thread(work, Container.let_go)
        self._stale = None
        self._left = False
        self._guard.begin(container)
        try:
            async with self._stillness.moving():
                place, read_only = self._place(container), spec.read_only_workspace
                self._test = await self_test(wire, place, root, container.guarded, read_only)
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
        self._ground.guarded = frozenset(found.name for found in container.protected)
        self._idle = True
        return container

    async def _result(self, call: _Call, ending: Ending) -> CommandResult:
        out_of_memory = ending.out_of_memory
        if not ending.told:
            out_of_memory = await self._still_there(call, ending)
        self._left = self._left or ending.left_running > 0
        return CommandResult(
            exit_code=ending.exit_code,
            left_running=ending.left_running,
            out_of_memory=out_of_memory and ending.exit_code != 0,
            notices=self._notices(call),
        )

    async def _still_there(self, call: _Call, ending: Ending) -> bool:
        """Whether memory ran out. Raises SandboxLost where the command ended because its container did."""
        assert call.container is not None
        _, wire = self._ground.opened()
        path = f"/containers/{call.container.container_id}"
        try:
            if await ends(wire, path):
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
        _, wire = self._ground.opened()
        place = self._place(call.container)
        try:
            execution, stopped = await stop_call(wire, place, call.mark.number, call.starting, self._stillness)
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
        if self._spec.read_only_workspace:
            return tuple(call.notices)
        return (*call.notices, *self._guard.quarantined(call.container))

    def _give_up(self, container: Container | None) -> None:
        if container is None or (container is not self._container and self._container is not None):
            return
        container.let_go()
        self._stale = container.container_id
        self._container = None

    def _place(self, container: Container) -> Place:
        root, _ = self._ground.opened()
        return Place(container.container_id, f"{root.uid}:{root.gid}", str(root.path))

    def _describe(self, container: Container) -> SandboxInfo:
        root, _ = self._ground.opened()
        absent = (f"not in the sandbox: {', '.join(missing)}",) if (missing := self._test.missing_tools) else ()
        return SandboxInfo(
            kind="docker",
            image=container.image,
            image_origin=container.image_origin,
            user="root, no capabilities" if root.uid == 0 else f"{root.uid}:{root.gid}",
            network="none",
            warnings=container.warnings + absent,
            narrowed=self._ground.around.warnings,
        )


async def _nothing_more(wire: Wire, container: Container) -> tuple[str, ...]:
    return ()


async def _close(starting: asyncio.Task[Execution]) -> None:
    starting.cancel()
    try:
        execution = await starting
    except (SandboxError, asyncio.CancelledError):
        return
    await execution.close()
