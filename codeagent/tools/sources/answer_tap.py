"""Takes one line out of what a command prints: the answer that stands behind a marker nobody else knows."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

from codeagent.core.ports import Command, CommandResult, OnOutput, Sandbox, SandboxInfo, Swept

LARGEST_ANSWER = 16 << 20
"""Bytes."""


class AnswerTap:
    """A sandbox that is another one, but for that line; `answer` is it, without the marker, once `run` has ended."""

    def __init__(self, sandbox: Sandbox, marker: bytes) -> None:
        self.answer: bytes | None = None
        self.too_large = False
        self._sandbox = sandbox
        self._marker = marker
        self._held = b""
        self._inside = False

    @property
    def exposed(self) -> str:
        return self._sandbox.exposed

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        async def take(stream: Literal["stdout", "stderr"], data: bytes) -> None:
            passed = data if stream == "stderr" else self._without_answer(data)
            if passed:
                await on_output(stream, passed)

        result = await self._sandbox.run(command, take)
        if self._held and not self._inside:
            await on_output("stdout", self._held)
        return result

    def _without_answer(self, data: bytes) -> bytes:
        """What may be passed on; the start of what may become the marker waits."""
        self._held += data
        before = b""
        if not self._inside:
            at = self._held.find(self._marker)
            if at < 0:
                return self._all_but_a_beginning()
            before, self._held = self._held[:at], self._held[at + len(self._marker) :]
            self._inside = True
        end = self._held.find(b"\n")
        if end < 0:
            self._bound()
            return before
        answer, after = self._held[:end], self._held[end + 1 :]
        self.answer = None if self.too_large else answer
        self._held, self._inside = b"", False
        return before + after

    def _all_but_a_beginning(self) -> bytes:
        for size in range(min(len(self._marker) - 1, len(self._held)), 0, -1):
            if self._marker.startswith(self._held[-size:]):
                passed, self._held = self._held[:-size], self._held[-size:]
                return passed
        passed, self._held = self._held, b""
        return passed

    def _bound(self) -> None:
        if len(self._held) > LARGEST_ANSWER:
            self.too_large, self._held = True, b""

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        return await self._sandbox.start(on_progress)

    def frozen(self) -> AbstractAsyncContextManager[None]:
        return self._sandbox.frozen()

    async def listening(self) -> frozenset[int]:
        return await self._sandbox.listening()

    async def sweep(self) -> Swept:
        return await self._sandbox.sweep()

    async def set_aside(self, path: str) -> str:
        return await self._sandbox.set_aside(path)

    async def close(self) -> None:
        await self._sandbox.close()
