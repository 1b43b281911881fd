"""The sandbox of one session: a container in which commands may change the workspace, one in which they may not, and
those whose commands may reach hosts."""

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from codeagent.core.ports import Command, CommandResult, OnOutput, SandboxInfo, Swept
from codeagent.sandbox.background import in_thread
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.egress.proxy import EgressProxy
from codeagent.sandbox.execution import Place
from codeagent.sandbox.ground import Ground
from codeagent.sandbox.pinned import PinnedRoot
from codeagent.sandbox.quarantine import move_planted, set_aside
from codeagent.sandbox.selftest import SelfTest
from codeagent.sandbox.session_container import SessionContainer
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.stillness import Stillness
from codeagent.sandbox.stop import LOOK_SECONDS, Room, within_disk
from codeagent.sandbox.thaw import thaw_left
from codeagent.sandbox.way_out import WayOut
from codeagent.sandbox.wire import Wire


class DockerSandbox:
    """`codeagent.core.ports.Sandbox` over a local Docker engine.

    The other containers are made by the first command that needs them; each has a `/tmp` and processes of its own.
    """

    def __init__(self, spec: SandboxSpec, internet: Internet | None = None) -> None:
        """`internet`: how commands reach the hosts they may; None: directly, by this machine's name service."""
        self._spec = spec
        self._ground = Ground(spec)
        self._stillness = Stillness(self._pause, self._resume)
        self._on_progress: Callable[[str], None] = lambda _: None
        instance = secrets.token_hex(8)

        def make(spec: SandboxSpec) -> SessionContainer:
            return SessionContainer(spec, self._ground, instance, self._stillness, self._tell)

        self._usual = make(spec)
        self._read_only = make(replace(spec, read_only_workspace=True))
        self._way_out = WayOut(spec, EgressProxy(spec.state_dir, internet or Internet()), make)
        self._unswept = False
        """A command ran since nothing was seen to live."""
        self._found: tuple[str, ...] = ()
        """What was moved away and nobody was told of yet."""
        self._looking: asyncio.Task[bool] | None = None
        self._closed = False
        self._watching: asyncio.Task[None] | None = None

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        """See the port. Raises SandboxUnavailable."""
        self._on_progress = on_progress
        await in_thread(partial(thaw_left, self._spec.state_dir))
        return await self._usual.start()

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    async def entrance(self) -> tuple[Wire, Place]:
        """Where an interactive shell goes in. Raises SandboxUnavailable."""
        return await self._usual.entrance()

    @property
    def tested(self) -> SelfTest:
        """What the self-test of the last start found."""
        return self._usual.tested

    @property
    def exposed(self) -> str:
        """See the port."""
        return next((why for container in self._containers() if (why := container.exposed)), "")

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """See the port. While the sandbox is frozen nothing starts and nothing is stopped: that waits."""
        if command.read_only:
            return await self._run(command, on_output)
        self._unswept = self._unswept or not self._ground.shut
        try:
            result = await within_disk(self._spec.root, self._run(command, on_output))
        finally:
            self._look_soon()
        if result.left_running and self._watching is None:
            self._watching = asyncio.create_task(self._watch_what_is_left(Room(self._spec.root)))
        return result

    async def _run(self, command: Command, on_output: OnOutput) -> CommandResult:
        if command.hosts:
            return await self._way_out.run(command, on_output)
        where = self._read_only if command.read_only else self._usual
        return await where.run(command.text, on_output)

    async def _watch_what_is_left(self, room: Room) -> None:
        """Ends the container where what commands left running fills the disk."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if why := room.exceeded():
                break
        self._watching = None
        await self._usual.drop(f"background processes were stopped, and /tmp is empty: {why}")

    def frozen(self) -> AbstractAsyncContextManager[None]:
        """See the port. Never wait for a command inside it.

        Background processes are paused, too, and go on afterwards. Where nothing but the containers' own two
        processes live, which the engine says and nobody inside can change, there is nothing to pause.
        """
        return self._stillness.hold()

    async def listening(self) -> frozenset[int]:
        """See the port."""
        places = (self._usual, self._read_only, self._way_out)
        found = await asyncio.gather(*(place.listening() for place in places))
        return frozenset().union(*found)

    async def sweep(self) -> Swept:
        """See the port."""
        if self._ground.shut:
            found, self._found = self._found, ()
            return Swept(found)
        if self._looking is not None:
            await asyncio.wait({self._looking})
        alive = self._unswept and await self._look()
        found, self._found = self._found, ()
        return Swept(found, alive)

    async def set_aside(self, path: str) -> str:
        """See the port."""
        return str(await asyncio.to_thread(self._set_aside, path))

    async def close(self) -> None:
        self._ground.shut = True
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(self._usual.close(), self._read_only.close(), self._way_out.close())
        looking, self._looking = self._looking, None
        if looking is not None:
            await asyncio.wait({looking})
        if self._unswept and not self._closed:
            self._found += self._planted()
        self._closed = True
        self._ground.close()

    def _look_soon(self) -> None:
        """Beside whatever comes next: who is at rest may make a repository of their own, which is not to be moved."""
        if self._ground.shut or (self._looking is not None and not self._looking.done()):
            return
        self._looking = asyncio.create_task(self._look())
        self._looking.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _look(self) -> bool:
        """Moves away what was planted; whether something may still run that could plant more."""
        self._unswept, alive = False, True
        try:
            alive = self._way_out.busy or not await self._usual.is_quiet()
            self._found += self._planted()
            return alive
        finally:
            self._unswept = self._unswept or alive

    def _set_aside(self, path: str) -> Path:
        root = PinnedRoot(Path(os.path.realpath(self._spec.root)))
        try:
            return set_aside(root, path, self._spec.state_dir)
        finally:
            root.close()

    def _planted(self) -> tuple[str, ...]:
        """Moves away what was not at the root, protected by name, when the last container was made."""
        known = self._ground.guarded
        return () if known is None else move_planted(self._ground.opened()[0], known, self._spec.state_dir)

    async def _pause(self) -> None:
        await asyncio.gather(*(container.pause() for container in self._containers()))

    async def _resume(self) -> None:
        await asyncio.gather(*(container.resume() for container in self._containers()))

    def _containers(self) -> tuple[SessionContainer, ...]:
        return self._usual, self._read_only, *self._way_out.containers

    def _tell(self, text: str) -> None:
        self._on_progress(text)
