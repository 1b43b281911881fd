"""The wrapper around a command, started before its command is known: a spare saves a command the
start of an exec.

ADR 17 says who could pose as the spare, and by which rule nobody can.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxError
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.exec_stream import ExecStream, ExecTarget, start_script
from codeagent.sandbox.freeze import KEEPERS, living
from codeagent.sandbox.tasks import started

_WAITING = b"waiting\n"
_PROCESSES = 4
"""Of a wrapper that waits: itself, its two relays, and the one that waits to be told to stop."""
_ANSWER_SECONDS = 1.0
_START_SECONDS = 5.0
"""How long a command waits for a spare that is still starting."""
_MOST_TRIES = 50
_LATER_SECONDS = 0.002
"""The result of the command before this one is passed on first."""


@dataclass
class Wrapper:
    """An exec that runs scripts/run.sh: it waits for one command on its standard input."""

    exec_id: str
    stream: ExecStream
    pieces: AsyncGenerator[tuple[bool, bytes], None]
    """What the stream yields; read by one reader after the other."""
    said: list[tuple[bool, bytes]] = field(default_factory=list)
    """What it printed instead of saying that it waits; empty if it waits."""

    @classmethod
    async def start(
        cls, engine: Engine, target: ExecTarget, variables: tuple[str, ...] = ()
    ) -> "Wrapper":
        """Start one; return once it waits, or has said something else.

        Raises as `start_exec`, and EngineError (409) if it ended without a word: no command was
        given to it.
        """
        exec_id, stream = await start_script(engine, target, "run", [target.path], variables)
        wrapper = cls(exec_id, stream, stream.pieces())
        try:
            if not await wrapper._hear() and not wrapper.said:
                raise EngineError("a process ended before it was given its command", 409)
        except BaseException:
            stream.close()
            raise
        return wrapper

    async def waits(self) -> bool:
        """Ask whether it still waits; after a False it is useless."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self.stream.send(b"\n")
                return await self._hear()
        except (TimeoutError, EngineError):
            return False

    async def _hear(self) -> bool:
        """Read that it waits; False if it says anything else, or ends."""
        heard = b""
        async for piece in self.pieces:
            self.said.append(piece)
            heard += piece[1]
            if heard == _WAITING:
                self.said.clear()
                return True
            if not _WAITING.startswith(heard):
                break
        return False


class Spare:
    """A wrapper for the next command in a container in which nothing else runs."""

    def __init__(self, engine: Engine, target: ExecTarget) -> None:
        """Start it in the background; there will be none if the machine does not show the target's
        processes."""
        self._engine = engine
        self._target = target
        self._expected = frozenset[int]()
        self._starting = started(self._start())

    async def take(self, target: ExecTarget, variables: tuple[str, ...]) -> Wrapper | None:
        """Return the wrapper if it may be used for a command in `target`; otherwise end it. To be
        called only once.

        At the moment of the return, nothing lives in the container but its keepers and the wrapper
        that was started.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                wrapper = await self._starting
            if wrapper is None:
                return None
            fits = target == self._target and not variables and await wrapper.waits()
            if fits and living(self._target.processes) == self._expected:
                return wrapper
        except (SandboxError, TimeoutError):
            return None
        except BaseException:
            self.discard()
            raise
        self.discard()
        return None

    def discard(self) -> None:
        """End it, now or as soon as it has started."""
        self._starting.cancel()
        self._starting.add_done_callback(_end)

    async def _start(self) -> Wrapper | None:
        """Start the wrapper; None if anything is, or was, not as it must be. Raises
        SandboxError."""
        await asyncio.sleep(_LATER_SECONDS)
        keepers = living(self._target.processes)
        if len(keepers) != KEEPERS:
            return None
        wrapper = await Wrapper.start(self._engine, self._target)
        try:
            entry = await self._pid_of(wrapper)
            now = living(self._target.processes)
            ours = now - keepers
            family = all(pid == entry or _parent(pid) == entry for pid in ours)
            if (
                not wrapper.said
                and now > keepers
                and len(ours) == _PROCESSES
                and entry in ours
                and family
            ):
                self._expected = now
                return wrapper
        except BaseException:
            wrapper.stream.close()
            raise
        wrapper.stream.close()
        return None

    async def _pid_of(self, wrapper: Wrapper) -> int:
        """Return its pid on this machine; 0 if the engine does not know it: it may learn of the
        start after us."""
        pid = 0
        for _ in range(_MOST_TRIES):
            facts = await self._engine.ask("GET", f"/exec/{wrapper.exec_id}/json")
            pid = int(facts.get("Pid") or 0)
            if pid:
                break
            await asyncio.sleep(_LATER_SECONDS)
        return pid


def _end(starting: asyncio.Task[Wrapper | None]) -> None:
    with suppress(SandboxError, asyncio.CancelledError):
        if (wrapper := starting.result()) is not None:
            wrapper.stream.close()


def _parent(pid: int) -> int:
    """Return the parent of a process of this machine; -1 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
    except (OSError, IndexError):
        return -1
