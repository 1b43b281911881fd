"""Programs that run beside the calls, such as MCP servers in the sandbox: which of them may write,
and how long.

A program writes in the workspace only if its user said so, and in no moment of plan mode. What one
that may write leaves there is inspected as what commands leave: when it has started, with each
call, and while it lives.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Literal

from codeagent.agent.inspection import Inspection
from codeagent.agent.permissions import Permissions
from codeagent.core.sandbox import RunningProgram, Sandbox, StdioProgram
from codeagent.sandbox.tasks import run_to_end

_PLANNING = "it could write in the workspace, and the mode is plan now"
_WRITES_AGAIN = "the mode has changed from plan, so it may write in the workspace"


class SandboxPrograms:
    """Starts the programs of one conversation (the WritingPrograms of its permissions).

    Made before the agent to which it is connected; until then, and after `close`, none may write.
    """

    def __init__(self) -> None:
        self._permissions: Permissions | None = None
        self._inspection: Inspection | None = None
        self._writing: set[_WritingProgram] = set()
        """Those that may write, from before they start until they have ended."""

    def connected(self, permissions: Permissions, inspection: Inspection) -> "SandboxPrograms":
        """Connect it; return it."""
        self._permissions = permissions
        self._inspection = inspection
        permissions.programs = self
        return self

    def may_write(self) -> bool:
        """Whether a program whose user lets it write may do so now."""
        return self._permissions is not None and self._permissions.mode != "plan"

    @property
    def writing(self) -> bool:
        """Whether a program is running or starting that may write."""
        return bool(self._writing)

    async def start(self, sandbox: Sandbox, program: StdioProgram) -> RunningProgram:
        """Start a program, without the right to write if the mode is plan by then. Raises
        SandboxUnavailable."""
        while program.writes and self.may_write() and self._inspection is not None:
            await self._inspection.before()
            writing = _WritingProgram(self, self._inspection, sandbox, program)
            self._writing.add(writing)
            if not self.may_write():  # since `before` began
                writing.stop()
            if await writing.started():
                return writing
        running = await sandbox.start_program(replace(program, writes=False))
        return _ReadingProgram(running, self) if program.writes else running

    async def confine(self) -> None:
        """If the mode is plan, end every program that may write; return once none of them is
        left."""
        while self._writing and not self.may_write():
            writing = tuple(self._writing)
            for program in writing:
                program.stop()
            await asyncio.gather(*(program.ended() for program in writing))

    def close(self) -> None:
        """Let no further program write: the conversation ends, and what runs ends with the
        sandbox."""
        self._permissions = None

    def forget(self, program: "_WritingProgram") -> None:
        self._writing.discard(program)


class _ReadingProgram(RunningProgram):
    """A program that may write, but was started in plan mode."""

    def __init__(self, inner: RunningProgram, programs: SandboxPrograms) -> None:
        self._inner = inner
        self._programs = programs

    @property
    def writes(self) -> bool:
        return False

    @property
    def unfit(self) -> str:
        return _WRITES_AGAIN if self._programs.may_write() else ""

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        return self._inner.output()

    async def outdated(self) -> str:
        return await self._inner.outdated()

    async def close(self) -> int | None:
        return await self._inner.close()


class _WritingProgram(RunningProgram):
    """A program that may write, from before its start; what it does until `begun` is inspected then
    or at its end."""

    def __init__(
        self,
        programs: SandboxPrograms,
        inspection: Inspection,
        sandbox: Sandbox,
        program: StdioProgram,
    ) -> None:
        """Begins the start; the inspection was told `before`."""
        self._programs = programs
        self._inspection = inspection
        self._starting = asyncio.create_task(sandbox.start_program(program))
        self._owner = program.owner
        self._begun = False
        self._stopped = ""
        self._ending: asyncio.Task[int | None] | None = None

    async def started(self) -> bool:
        """Wait for the start; False if the mode ended it. Raises SandboxUnavailable."""
        try:
            await asyncio.wait({self._starting})
        except asyncio.CancelledError:
            await run_to_end(self.close())
            raise
        if self._stopped or self._starting.cancelled() or self._starting.exception() is not None:
            await self.close()
        if self._stopped:
            return False
        self._starting.result()
        return True

    def stop(self) -> None:
        """Begin to end it, because of the mode; idempotent."""
        self._stopped = _PLANNING
        self._end()

    async def ended(self) -> int | None:
        return await asyncio.shield(self._end())

    @property
    def writes(self) -> bool:
        return True

    @property
    def unfit(self) -> str:
        return self._stopped

    async def begun(self) -> None:
        if not self._begun:
            self._begun = True
            await self._inspection.begun(self._owner)

    async def send(self, data: bytes) -> None:
        await self._starting.result().send(data)

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        return self._starting.result().output()

    async def outdated(self) -> str:
        return await self._starting.result().outdated()

    async def close(self) -> int | None:
        return await self.ended()

    def _end(self) -> "asyncio.Task[int | None]":
        if self._ending is None:
            self._ending = asyncio.create_task(self._to_the_end())
        return self._ending

    async def _to_the_end(self) -> int | None:
        code: int | None = None
        try:
            self._starting.cancel()
            await asyncio.wait({self._starting})
            if not self._starting.cancelled() and self._starting.exception() is None:
                code = await self._starting.result().close()
        finally:
            self._programs.forget(self)
            if not self._begun:
                self._begun = True
                over = asyncio.Event()
                over.set()
                self._inspection.later(over)
        return code
