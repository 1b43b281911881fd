"""The sandbox of one session: a container in which commands may change the workspace, one in which
they may not, and those whose commands may reach hosts."""

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.core.sandbox import (
    Command,
    CommandResult,
    OnOutput,
    RunningProgram,
    SandboxInfo,
    SandboxSweep,
    StdioProgram,
)
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import probe_socket
from codeagent.sandbox.exec_stream import ExecTarget
from codeagent.sandbox.freeze import FreezeLock
from codeagent.sandbox.guard import SessionResources, move_planted, set_aside
from codeagent.sandbox.image import configured_image, require_image
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.sandbox.packages import PackageCache
from codeagent.sandbox.self_test import SelfTest
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.tasks import (
    LOOK_SECONDS,
    Room,
    all_done,
    finish_left,
    in_thread,
    started,
    within_disk,
)
from codeagent.sandbox.thaw import thaw_left

if TYPE_CHECKING:  # a session may do without
    from codeagent.sandbox.egress.containers import EgressContainers
    from codeagent.sandbox.egress.internet import Internet
    from codeagent.sandbox.programs import ContainerPrograms
    from codeagent.sandbox.trials import Trials, TriedCommand

_SHARE = 8
"""The package cache is trimmed once an eighth of what it may take was written, wherever that
was."""


class DockerSandbox:
    """Implements `codeagent.core.sandbox.Sandbox` with a local Docker engine.

    The other containers are made by the first command that needs them; each has its own `/tmp` and
    processes.
    """

    def __init__(self, spec: SandboxSpec, internet: "Callable[[], Internet] | None" = None) -> None:
        """`internet` says how commands reach their hosts, once one may; None: directly, with this
        machine's name service."""
        self.spec = spec
        self._internet = internet
        self._resources = SessionResources(spec)
        self._freeze_lock = FreezeLock(self._pause, self._resume)
        self._on_progress: Callable[[str], None] = lambda _: None
        self._instance = secrets.token_hex(8)
        self._default = self._make(spec)
        self._read_only = self._make(replace(spec, access="read-only"))
        self._egress: EgressContainers | None = None
        self._programs: ContainerPrograms | None = None
        """Both are made for the first command that may reach hosts, or the first program."""
        self._resources.may_plant = lambda: bool(self._writing) or self._default.busy
        self._trials: Trials | None = None
        self.untried = "it is not known yet whether a view of the workspace can be made"
        """See the port."""
        self.tried_read_only = ""
        """See the port."""
        self._unswept = False
        """Something that could plant has run since it was last seen that nothing was running."""
        self._found: tuple[str, ...] = ()
        """Sentences about what was moved away, not yet reported."""
        self._looking: asyncio.Task[bool] | None = None
        self._closed = False
        self._watching: asyncio.Task[None] | None = None
        self._untrimmed = Room(*self.spec.written)
        """Since the package cache was last trimmed."""
        self._trimming: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """See in a moment that the workspace suits, the engine answers and a configured image is
        there.

        Raises SandboxUnavailable.
        """
        _, engine = self._resources.open()
        await in_thread(partial(probe_socket, engine.socket_path))
        require_image(self.spec)
        if self.spec.image.reference is not None:
            await in_thread(partial(configured_image, engine, self.spec.image.reference))

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        """Start the sandbox, see the port. Raises SandboxUnavailable."""
        self._on_progress = on_progress
        await in_thread(partial(thaw_left, self.spec.state_dir))
        return await self._default.start()

    async def entrance(self) -> tuple[Engine, ExecTarget]:
        """Return where an interactive shell enters. Raises SandboxUnavailable."""
        return await self._default.entrance()

    @property
    def tested(self) -> SelfTest:
        """The result of the last start's self-test."""
        return self._default.tested

    @property
    def is_ready(self) -> bool:
        """See the port."""
        return self._default.is_ready

    async def ready(self) -> None:
        """See the port; costs nothing while there is a container."""
        await self._default.start()

    @property
    def exposed(self) -> str:
        """See the port."""
        return next((why for container in self._containers() if (why := container.exposed)), "")

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """Run a command, see the port. While the sandbox is frozen, starting and stopping wait."""
        if command.read_only:
            return await self._run(command, on_output)
        self._unswept = self._unswept or not self._resources.shut
        try:
            result = await within_disk(self._run(command, on_output), *self.spec.written)
        finally:
            self._look_soon()
            self._trim_soon(command)
        if result.left_running and self._watching is None:
            self._watching = asyncio.create_task(self._watch_what_is_left(Room(*self.spec.written)))
        return result

    async def finish_landings(self) -> tuple[str, ...]:
        """See the port."""
        return await finish_left(self.spec.state_dir, self.spec.root)

    async def try_out(self, command: Command, on_output: OnOutput) -> "TriedCommand":
        """See the port."""
        try:
            return await self._views().run(command, on_output)
        finally:
            self._trim_soon(command)

    async def prepare_trials(self) -> None:
        """See the port."""
        self.untried = await self._views().impossible()
        self.tried_read_only = self._views().read_only
        await self._views().ready()

    def _views(self) -> "Trials":
        if self._trials is None:
            from codeagent.sandbox.trials import Trials  # not before the first trial

            self._trials = Trials(self.spec, self._resources, self._make, self._default)
        return self._trials

    async def start_program(self, program: StdioProgram) -> RunningProgram:
        """Start a program in a container of its own, see `StartProgram`."""
        self._unswept = self._unswept or (program.writes and not self._resources.shut)
        _, programs = self._others()
        return await programs.start(program)

    async def _run(self, command: Command, on_output: OnOutput) -> CommandResult:
        if command.hosts:
            egress, _ = self._others()
            return await egress.run(command, on_output)
        where = self._read_only if command.read_only else self._default
        return await where.run(command, on_output)

    async def _watch_what_is_left(self, room: Room) -> None:
        """End the container if processes that commands left running fill the disk."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if why := room.exceeded():
                break
        self._watching = None
        await self._default.drop(f"background processes were stopped, and /tmp is empty: {why}")

    def frozen(self) -> AbstractAsyncContextManager[None]:
        """Freeze the sandbox, see the port. Never wait for a command inside the block.

        Background processes are paused too, and resumed afterwards. If only a container's own two
        processes are alive, by a list that nobody inside can change, there is nothing to pause.
        """
        return self._freeze_lock.hold()

    async def listening(self) -> frozenset[int]:
        """See the port."""
        found = await asyncio.gather(*(place.listening() for place in self._places))
        return frozenset().union(*found)

    async def sweep(self) -> SandboxSweep:
        """See the port."""
        if self._resources.shut:
            found = self._found
            self._found = ()
            return SandboxSweep(found)
        if self._looking is not None:
            await asyncio.wait({self._looking})
        alive = self._unswept and await self._look()
        found = self._found
        self._found = ()
        return SandboxSweep(found, alive, self._moment)

    async def set_aside(self, path: str) -> str:
        """See the port."""

        def move() -> str:
            with closing(PinnedRoot(Path(os.path.realpath(self.spec.root)))) as root:
                return str(set_aside(root, path, self.spec.state_dir))

        return await asyncio.to_thread(move)

    async def close(self) -> None:
        if self._closed:
            return
        self._resources.shut = True
        for task in (self._watching, self._trimming):
            if task is not None:
                task.cancel()
        try:
            if self._programs is not None:
                await self._programs.close()
        finally:
            views = () if self._trials is None else (self._trials,)
            await all_done(*(place.close() for place in (*views, *self._places)))
            await in_thread(
                self._resources.settled
            )  # the end of this process would end what creates a container
        looking = self._looking
        self._looking = None
        if looking is not None:
            await asyncio.wait({looking})
        if self._unswept:
            self._found += self._planted(self._resources.guarded)
        self._closed = True
        self._resources.close()

    def _trim_soon(self, command: Command) -> None:
        """Trim the package cache, beside what comes next: after a command that could install, or
        that wrote much."""
        cache = self.spec.packages
        most = self.spec.limits.package_bytes
        if (
            cache is None
            or self._resources.shut
            or (self._trimming is not None and not self._trimming.done())
        ):
            return
        if command.hosts or self._untrimmed.taken() > most // _SHARE:
            self._trimming = started(self._trim(cache, most))

    async def _trim(self, cache: PackageCache, most: int) -> None:
        await in_thread(partial(cache.trim, most))
        self._untrimmed = Room(*self.spec.written)

    def _look_soon(self) -> None:
        """Look now, in parallel with what comes next: a repository that the user makes later must
        not be moved."""
        if self._resources.shut or (self._looking is not None and not self._looking.done()):
            return
        self._looking = started(self._look())

    async def _look(self) -> bool:
        """Move away what was planted; return whether something may still run that could plant more.

        While the sandbox closes, nobody knows what still runs: then this look is never the last
        one.
        """
        known = self._resources.guarded
        alive = True
        self._unswept = False
        try:
            quiet = await self._default.is_quiet()
            reaching = self._egress is not None and self._egress.busy
            alive = not quiet or reaching or bool(self._writing)
            self._found += self._planted(known)
            return alive
        finally:
            self._unswept = self._unswept or alive or self._resources.shut

    def _planted(self, known: frozenset[str] | None) -> tuple[str, ...]:
        """Move away what is protected by name and not known, see `SessionResources.guarded`."""
        return (
            ()
            if known is None
            else move_planted(self._resources.opened()[0], known, self.spec.state_dir)
        )

    @property
    def _moment(self) -> object:
        """What has run where the workspace can be changed, see `SandboxSweep`."""
        places = (self._default, *self._reaching, *self._writing)
        moments = tuple(container.moment for container in places)
        return None if None in moments else moments

    async def _pause(self) -> None:
        """Pause all; if one fails, the others are waited for first, so that resuming comes after
        every pause."""
        await all_done(*(container.pause() for container in self._containers()))

    async def _resume(self) -> None:
        await asyncio.gather(*(container.resume() for container in self._containers()))

    def _containers(self) -> tuple[SessionContainer, ...]:
        own = () if self._programs is None else self._programs.containers
        return self._default, self._read_only, *self._reaching, *own

    @property
    def _places(self) -> "tuple[SessionContainer | EgressContainers, ...]":
        """Where commands run."""
        own = (self._default, self._read_only)
        return own if self._egress is None else (*own, self._egress)

    @property
    def _reaching(self) -> tuple[SessionContainer, ...]:
        """The containers of commands that may reach hosts."""
        return () if self._egress is None else self._egress.containers

    @property
    def _writing(self) -> tuple[SessionContainer, ...]:
        """The containers of programs that may write in the workspace."""
        return () if self._programs is None else tuple(self._programs.writing)

    def _others(self) -> "tuple[EgressContainers, ContainerPrograms]":
        """Return what makes the containers of commands that may reach hosts, and of programs."""
        if self._egress is None or self._programs is None:
            from codeagent.sandbox.egress.containers import EgressContainers  # rarely needed
            from codeagent.sandbox.egress.internet import Internet
            from codeagent.sandbox.egress.proxy import EgressProxy
            from codeagent.sandbox.programs import ContainerPrograms

            spec, internet = self.spec, (self._internet or Internet)()
            proxy = EgressProxy(spec.state_dir, internet, spec.limits.network_bytes)
            self._egress = EgressContainers(spec, proxy, self._make)
            self._programs = ContainerPrograms(
                spec, self._resources, proxy, self._make, self._freeze_lock
            )
        return self._egress, self._programs

    def _make(self, spec: SandboxSpec) -> SessionContainer:
        def tell(text: str) -> None:
            if spec.view is None:  # views are mostly made while nobody waits for them
                self._on_progress(text)

        return SessionContainer(spec, self._resources, self._instance, self._freeze_lock, tell)
