"""The sandbox of one session: a container in which commands may change the workspace, and one in which they may not."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from codeagent.core.ports import Command, CommandResult, OnOutput, SandboxInfo
from codeagent.sandbox.execution import Place
from codeagent.sandbox.ground import Ground
from codeagent.sandbox.selftest import SelfTest
from codeagent.sandbox.session_container import SessionContainer
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.stillness import Stillness
from codeagent.sandbox.wire import Wire


class DockerSandbox:
    """`codeagent.core.ports.Sandbox` over a local Docker engine.

    The second container is made by the first command that needs it; it has a `/tmp` and processes of its own.
    """

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._ground = Ground(spec)
        self._stillness = Stillness(self._pause, self._resume)
        self._on_progress: Callable[[str], None] = lambda _: None
        instance = secrets.token_hex(8)
        self._usual = SessionContainer(spec, self._ground, instance, self._stillness, self._tell)
        guarded = replace(spec, read_only_workspace=True)
        self._read_only = SessionContainer(guarded, self._ground, instance, self._stillness, self._tell)

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        """See the port. Raises SandboxUnavailable."""
        self._on_progress = on_progress
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

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """See the port. While the sandbox is frozen nothing starts and nothing is stopped: that waits."""
        where = self._read_only if command.read_only else self._usual
        return await where.run(command.text, on_output)

    def frozen(self) -> AbstractAsyncContextManager[None]:
        """See the port. Never wait for a command inside it.

        Background processes are paused, too, and go on afterwards. Where nothing but the containers' own two
        processes live, which the engine says and nobody inside can change, there is nothing to pause.
        """
        return self._stillness.hold()

    async def listening(self) -> frozenset[int]:
        """See the port."""
        found = await asyncio.gather(*(container.listening() for container in self._containers()))
        return frozenset().union(*found)

    async def close(self) -> None:
        self._ground.shut = True
        await asyncio.gather(*(container.close() for container in self._containers()))
        self._ground.close()

    async def _pause(self) -> None:
        await asyncio.gather(*(container.pause() for container in self._containers()))

    async def _resume(self) -> None:
        await asyncio.gather(*(container.resume() for container in self._containers()))

    def _containers(self) -> tuple[SessionContainer, SessionContainer]:
        return self._usual, self._read_only

    def _tell(self, text: str) -> None:
        self._on_progress(text)
