"""The inner end of egress: a loopback port in one container, forwarded to the proxy's socket."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from importlib import resources

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.egress.proxy import SOCKET
from codeagent.sandbox.engine import Engine, EngineError
from codeagent.sandbox.exec_stream import ExecStream, ExecTarget, script_command, start_exec
from codeagent.sandbox.profile import KEEPER

FOLDER = "/run/codeagent"
"""Where the socket's folder is mounted."""
_START_SECONDS = 20.0
_LONGEST_WORD = 4096


class Forwarder:
    """Runs inside as the keeper's user, so that no command can end or replace it; ends with the container."""

    def __init__(self) -> None:
        self.port = 0
        self._container = ""
        self._watch: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def ready(self, engine: Engine, container_id: str) -> int:
        """Start it unless it runs; return its port. Raises SandboxUnavailable, EngineError, SandboxLost."""
        async with self._turn:
            if container_id != self._container or self._watch is None or self._watch.done():
                self.close()
                await self._start(engine, container_id)
            return self.port

    @property
    def processes(self) -> int:
        """How many of the container's processes are its own."""
        return 0 if self._watch is None or self._watch.done() else 1

    def close(self) -> None:
        """Stop watching it."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch, self._container, self.port = None, "", 0

    async def _start(self, engine: Engine, container_id: str) -> None:
        target = ExecTarget(container_id, f"{KEEPER}:{KEEPER}", "/")
        command = script_command("forward", [f"{FOLDER}/{SOCKET}", _source("py"), _source("pl")])
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
                raise SandboxUnavailable(problem, "choose an image with one of them (codeagent sandbox status)")
            problem = f"network access for the sandbox did not start: {said.strip()[-200:] or 'no answer'}"
            raise SandboxUnavailable(problem, "run the command without network access")
        self.port, self._container = int(words[1]), container_id
        self._watch = asyncio.create_task(_until_it_ends(stream, pieces))


async def _first_line(pieces: AsyncIterator[tuple[bool, bytes]]) -> str:
    """Return its first line on standard output, or its errors if there is nothing else. Raises EngineError."""
    out, errors = b"", b""
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
    name = f"forward.{language}.txt"
    return resources.files("codeagent.sandbox").joinpath("scripts", name).read_text(encoding="utf-8")
