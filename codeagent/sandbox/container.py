"""One container of a session: made when first needed, replaced when in doubt, and paused on
request."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import Command, CommandResult, OnOutput, SandboxInfo
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import unanswered
from codeagent.sandbox.exec import (
    CallMark,
    CommandEnd,
    Execution,
    Stopped,
    close_started,
    listening_ports,
    ran_out_of_memory,
    stop_call,
)
from codeagent.sandbox.exec_stream import ExecTarget, lost
from codeagent.sandbox.freeze import FreezeLock, ended, is_idle, kill, not_paused, pause, resume
from codeagent.sandbox.guard import Container, ContainerGuard, SessionResources
from codeagent.sandbox.launch import discard, launch
from codeagent.sandbox.self_test import SelfTest, describe, remedy_of, self_test
from codeagent.sandbox.spare import Spare
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.tasks import DRAIN_SECONDS, in_thread, report_waiting, run_to_end, started

if TYPE_CHECKING:
    from codeagent.sandbox.layers import Layer  # only for views

CommandVariables = Callable[[Engine, Container], Awaitable[tuple[str, ...]]]
"""Makes the variables (`NAME=value`) of one command, once it is known which container it starts
in."""


@dataclass
class _RunningCall:
    """One command between its start and its result."""

    mark: CallMark
    environment: CommandVariables | None
    container: Container | None = None
    starting: asyncio.Task[Execution] | None = None
    started: int = 0
    """How many commands and shells the container had seen with this one."""
    nothing_lives: bool = False
    """It has ended, and only the container's keepers were left."""
    notices: list[str] = field(default_factory=list)


class SessionContainer:
    """Runs commands as `codeagent.core.sandbox.Sandbox` does, in one container at a time."""

    def __init__(
        self,
        spec: SandboxSpec,
        resources: SessionResources,
        instance: str,
        freeze_lock: FreezeLock,
        on_progress: Callable[[str], None],
    ) -> None:
        """`freeze_lock` is asked before anything starts inside; its holder calls `pause` and
        `resume`."""
        self._spec = spec
        self._resources = resources
        self._instance = instance
        self._freeze_lock = freeze_lock
        self._on_progress = on_progress
        self._container: Container | None = None
        self._stale: str | None = None
        """Id of a container that was given up; it is removed before the next one is made."""
        self._making: asyncio.Task[Container] | None = None
        self.tested = SelfTest((), ())
        """The result of the last start's self-test."""
        self._numbers = count(1)
        self._running: set[int] = set()
        """Numbers of calls."""
        self._left = False
        """Whether an ended call left processes behind."""
        self._guard = ContainerGuard(resources, spec.state_dir)
        self._spare: Spare | None = None
        """Only while the container is idle: whatever starts inside takes it, or throws it away."""
        self._idle = False
        """Only the keepers live inside, and nothing was started there since that was seen."""
        self._started = 0  # commands and shells, ever
        self._why_root = ""
        """Why the self-test failed with mapped ids; empty if it did not."""
        self._paused: str | None = None
        self.layers: list[Layer] = []
        """The layers of its containers, the current one last."""
        self._to_say: list[str] = []
        """Notices for the next command."""

    async def start(self) -> SandboxInfo:
        """Make the container and describe the sandbox. Raises SandboxUnavailable."""
        container = await self._ready()
        return describe(container, self.tested)

    async def entrance(self) -> tuple[Engine, ExecTarget]:
        """Return where an interactive shell enters. Raises SandboxUnavailable."""
        container = await self._ready()
        if (spare := self._starts()) is not None:
            spare.discard()
        return self._engine, self._target(container)

    @property
    def is_ready(self) -> bool:
        """Whether there is a container to run commands in."""
        return self._container is not None and not self._resources.shut

    async def id(self) -> str:
        """Return the id of the container, which is made if there is none. Raises
        SandboxUnavailable."""
        return (await self._ready()).container_id

    @property
    def busy(self) -> bool:
        """Whether a command runs, or has left processes behind."""
        return bool(self._running) or self._left

    @property
    def exposed(self) -> str:
        """Why commands may come across secrets; see ContainerGuard."""
        return self._guard.exposed

    async def run(
        self, command: Command, on_output: OnOutput, environment: CommandVariables | None = None
    ) -> CommandResult:
        """Run a command, see the port. Being cancelled leaves `Task.cancelling()` as it is, for
        callers that ask."""
        call = _RunningCall(CallMark(secrets.token_hex(8), next(self._numbers)), environment)
        try:
            execution = await self._begin(call, command, on_output)
            ending = await execution.finish()
            call.nothing_lives = ending.nothing_lives
            return await self._result(call, ending)
        except asyncio.CancelledError:
            return await run_to_end(self._stop(call))
        except SandboxLost:
            self._give_up(call.container)
            raise
        except SandboxUnavailable:
            raise
        except BaseException:
            await run_to_end(self._stop(call))
            raise
        finally:
            self._running.discard(call.mark.number)
            if call.starting is not None:
                await run_to_end(close_started(call.starting))
            if (
                call.nothing_lives
                and call.container is self._container
                and call.started == self._started
            ):
                self._is_idle()
            if self._spec.per_command and not self._running:
                self._give_up(self._container)
                if not self._resources.shut:
                    self._being_made()  # the next command reports what fails there

    async def listening(self) -> frozenset[int]:
        """Return the TCP ports listened on inside; empty if they are unknown. Waits while the
        sandbox is frozen."""
        try:
            async with self._freeze_lock.activity():
                if self._container is None or self._idle or self._resources.shut:
                    return frozenset()
                return await listening_ports(self._engine, self._target(self._container))
        except (SandboxLost, SandboxUnavailable, EngineError):
            return frozenset()

    @property
    def moment(self) -> object:
        """Equal to an earlier one if nothing has run inside in between; None if that is not
        known."""
        return None if self._stale else () if self._container is None else self._container.moment

    async def is_empty(self, beside: int = 0) -> bool:
        """Tell whether only the keepers and `beside` processes of ours live inside. Raises
        SandboxUnavailable."""
        container = self._container
        seen = self._started
        nothing_starts = not self._running
        empty = container is None or await is_idle(
            self._engine, container.container_id, container.processes, beside
        )
        same = (container, seen) == (self._container, self._started)
        if empty and not beside and nothing_starts and same:
            self._is_idle()
        else:
            self._idle = False
        return empty

    async def is_quiet(self) -> bool:
        """Tell whether nothing that a command started can still be running."""
        idle = not self._running and (self._container is None or self._idle)
        if self._running or self._resources.shut or (idle and self._stale is None):
            return idle
        engine = self._engine
        if not await engine.answers() or (
            self._stale is not None and not await kill(engine, self._stale)
        ):
            return False
        return idle or await self.is_empty()

    async def pause(self) -> None:
        """Pause everything inside; costs nothing if nothing runs. Raises SandboxLost if that is not
        certain."""
        stale = self._stale
        container = self._container
        nothing_runs = container is None or (self._idle and not self._running and not self._left)
        if stale is None and nothing_runs:
            return
        engine = self._engine
        if not await engine.answers():
            raise not_paused("the Docker engine does not answer")
        if stale is not None and not await kill(engine, stale):
            raise not_paused("a discarded container cannot be removed")
        if container is None or nothing_runs:
            return
        if not self._running and not self._left and await self.is_empty():
            return
        self._paused = container.container_id
        await pause(engine, container.container_id, self._resources.frozen)

    async def resume(self) -> None:
        """End a pause; a container that cannot be resumed is killed, and its commands see it as
        lost."""
        paused = self._paused
        self._paused = None
        if paused is None or self._resources.shut:
            return
        container = self._container
        if await resume(self._engine, paused, self._resources.frozen):
            return
        if container is not None and container.container_id == paused:
            self._give_up(container)
            self._to_say.append(
                "the sandbox could not be resumed after a pause: background processes and /tmp are lost"
            )

    async def drop(self, why: str) -> None:
        """End what runs inside; the next command, which starts a new container, says `why`."""
        self._to_say.append(why)
        await self.close()

    async def close(self) -> bool:
        """Close, and tell whether it is certain that nothing lives inside any longer; the session's
        resources are shut before, and closed after this."""
        if self._making is not None:
            self._making.cancel()
        gone = True
        container = self._container
        self._give_up(container)
        if self._stale is not None and not (
            container is not None and await ended(container.processes)
        ):
            engine = self._engine
            gone = await engine.answers() and await kill(engine, self._stale)
        self._stale = None
        return gone

    async def _begin(self, call: _RunningCall, command: Command, on_output: OnOutput) -> Execution:
        """Start the command. Raises SandboxUnavailable if nothing ran, SandboxLost if that is
        unknown."""
        replaced = False
        while True:
            await self._freeze_lock.released()
            container = await self._fitting(call)
            if self._freeze_lock.held:
                continue
            call.starting = self._start(call, container, command, on_output)
            try:
                return await asyncio.shield(call.starting)
            except EngineError as error:
                call.starting = None
                call.container = None
                self._give_up(container)
                if replaced or error.status not in (404, 409):
                    raise unanswered(self._engine.socket_path, error) from error
            call.notices.append(
                "the sandbox had ended and was replaced: background processes and /tmp are lost"
            )
            replaced = True

    def _start(
        self, call: _RunningCall, container: Container, command: Command, on_output: OnOutput
    ) -> asyncio.Task[Execution]:
        """Begin at once, so that a freeze from now on waits until the command has started."""
        call.container = container
        call.notices += self._to_say
        self._to_say.clear()
        self._running.add(call.mark.number)
        spare = self._starts()
        call.started = self._started
        moved = self._freeze_lock.begin_activity()
        engine = self._engine
        target = self._target(container)

        async def begin() -> Execution:
            variables = (
                () if call.environment is None else await call.environment(engine, container)
            )
            return await Execution.start(
                engine, target, command, call.mark, on_output, variables=variables, spare=spare
            )

        task = asyncio.create_task(begin())
        task.add_done_callback(lambda _: moved())
        return task

    async def _fitting(self, call: _RunningCall) -> Container:
        """Return the container, replaced if what it guards was replaced on this machine. Fails
        closed."""
        container = await self._ready()
        if self._left and not await self.is_quiet():
            call.notices += self._guard.quarantined(container)
        names = ", ".join(await self._guard.outdated(container, busy=bool(self._running)))
        if not names:
            return container
        if self._running:
            raise SandboxUnavailable(
                f"{names} changed while another command runs", "try again when that has ended"
            )
        lost = "background processes and /tmp are lost" if self._left else "/tmp in it is empty"
        self._give_up(container)
        call.notices.append(f"the sandbox was replaced because {names} changed outside it; {lost}")
        return await self._ready()

    async def _ready(self) -> Container:
        self._resources.open()
        return (
            await asyncio.shield(self._being_made()) if self._container is None else self._container
        )

    def _being_made(self) -> asyncio.Task[Container]:
        if self._making is None or self._making.done():
            self._making = started(self._make())
        return self._making

    async def _make(self) -> Container:
        spec = self._spec
        root, engine = self._resources.open()
        waiting = f"waiting for the Docker engine at {engine.socket_path}"
        async with report_waiting(waiting, self._on_progress) as report:
            work = partial(
                launch,
                spec,
                self._resources,
                self._instance,
                report,
                stale=self._stale,
                why_root=self._why_root,
            )
            container: Container = await in_thread(work, partial(discard, self._resources))
        self._resources.taken()
        self._stale = None
        self._left = False
        self._guard.begin(container)
        if container.layer is not None:
            self.layers.append(container.layer)
        try:
            async with self._freeze_lock.activity():
                target = self._target(container)
                self.tested = await self_test(
                    engine, target, root, container, read_only=spec.read_only
                )
        except BaseException as error:
            self._give_up(container)
            if isinstance(error, EngineError | SandboxLost):
                raise SandboxUnavailable(
                    f"the sandbox did not start: {error}", "codeagent sandbox test"
                ) from error
            raise
        if self.tested.failed:
            self._give_up(container)
            if container.user.mapped:
                self._why_root = (
                    f"with mapped ids, the self-test failed: {'; '.join(self.tested.failed)}"
                )
                return await self._make()
            problem = f"the sandbox failed its self-test: {'; '.join(self.tested.failed)}"
            raise SandboxUnavailable(problem, remedy_of(self.tested, engine))
        self._container = container
        names = frozenset(found.name for found in container.protected)
        before = self._resources.guarded
        self._resources.guarded = (
            names & before if before is not None and self._resources.may_plant() else names
        )
        self._is_idle()
        return container

    async def _result(self, call: _RunningCall, ending: CommandEnd) -> CommandResult:
        out_of_memory = ending.out_of_memory
        if not ending.reported:
            assert call.container is not None
            out_of_memory = await ran_out_of_memory(
                self._engine, call.container.container_id, ending.exit_code
            )
        self._left = self._left or ending.left_running > 0
        return CommandResult(
            exit_code=ending.exit_code,
            left_running=ending.left_running,
            out_of_memory=out_of_memory and ending.exit_code != 0,
            notices=self._notices(call),
        )

    async def _stop(self, call: _RunningCall) -> CommandResult:
        """Stop the call. Raises SandboxLost if the engine is gone."""
        if call.container is None or call.starting is None:
            return CommandResult(exit_code=None, stopped=True, notices=tuple(call.notices))
        engine = self._engine
        target = self._target(call.container)
        try:
            execution, stopped = await stop_call(
                engine, target, call.mark.number, call.starting, self._freeze_lock
            )
        except (EngineError, SandboxLost) as error:
            self._give_up(call.container)
            raise SandboxLost(lost(str(error))) from error
        if stopped is None or stopped.left:
            await self._kill(call, engine)
            stopped = stopped or Stopped(0, 0, everything=True)
        elif stopped.everything:
            call.notices.append(
                "every process in the sandbox had to be killed, background processes included"
            )
        try:
            await execution.drain(DRAIN_SECONDS)
        except Exception:  # the reader of the output is gone; that must not hide the result
            pass
        return CommandResult(
            exit_code=None, stopped=True, killed=stopped.killed, notices=self._notices(call)
        )

    async def _kill(self, call: _RunningCall, engine: Engine) -> None:
        """Kill the container itself, the last resort against processes that outrun every signal."""
        assert call.container is not None
        self._give_up(call.container)
        call.notices.append(
            "the sandbox itself had to be killed; the next command starts a new one"
        )
        if not await kill(engine, call.container.container_id):
            raise SandboxLost(lost("its container could not be removed"))

    def _notices(self, call: _RunningCall) -> tuple[str, ...]:
        """Return what happened around the command; what it planted is moved away first."""
        assert call.container is not None
        if self._spec.access != "writable":  # nothing can be planted; what appeared is the user's
            return tuple(call.notices)
        return (*call.notices, *self._guard.quarantined(call.container))

    def _is_idle(self) -> None:
        """Note that only the keepers live inside, and start a spare for the next command."""
        self._idle = not self._running
        self._left = False
        hosts = self._spec.egress_folder is not None
        if (
            self._idle
            and self._container
            and not self._spare
            and not hosts
            and not self._resources.shut
        ):
            self._spare = Spare(self._engine, self._target(self._container))

    def _starts(self) -> Spare | None:
        """Note that something starts inside; return the spare, which is the caller's."""
        self._started += 1
        self._idle = False
        spare = self._spare
        self._spare = None
        return spare

    def _give_up(self, container: Container | None) -> None:
        if container is None or (container is not self._container and self._container is not None):
            return
        if (spare := self._starts()) is not None:
            spare.discard()
        container.disconnect()
        self._stale = container.container_id
        self._container = None

    @property
    def _engine(self) -> Engine:
        return self._resources.opened()[1]

    def _target(self, container: Container) -> ExecTarget:
        return container.target(self._resources.opened()[0])
