"""The inner end of the way out: a port of loopback in one container, passed on to the proxy's socket."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from importlib import resources

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.egress.proxy import SOCKET
from codeagent.sandbox.execution import Place, exec_body, start_exec
from codeagent.sandbox.profile import KEEPER
from codeagent.sandbox.wire import Stream, Wire, WireError

FOLDER = "/run/codeagent"
"""Where the socket's folder is seen inside."""
_START_SECONDS = 20.0
_LONGEST_WORD = 4096


class Forwarder:
    """Runs inside as the keeper's user, so that no command can end it or take its place; ends with the container."""

    def __init__(self) -> None:
        self.port = 0
        self._container = ""
        self._watch: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def ready(self, wire: Wire, container_id: str) -> int:
        """Its port, started where it does not run. Raises SandboxUnavailable, WireError, SandboxLost."""
        async with self._turn:
            if container_id != self._container or self._watch is None or self._watch.done():
                self.close()
                await self._start(wire, container_id)
            return self.port

    @property
    def processes(self) -> int:
        """How many of the container's processes it is."""
        return 0 if self._watch is None or self._watch.done() else 1

    def close(self) -> None:
        """Stop watching it."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch, self._container, self.port = None, "", 0

    async def _start(self, wire: Wire, container_id: str) -> None:
        place = Place(container_id, f"{KEEPER}:{KEEPER}", "/")
        body = exec_body(place, "forward", [f"{FOLDER}/{SOCKET}", _source("py"), _source("pl")])
        _, stream = await start_exec(wire, place, body)
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
                problem = "the sandbox's image has neither python3 nor perl, so nothing can be let out of it"
                raise SandboxUnavailable(problem, "choose an image with one of them (codeagent sandbox status)")
            problem = f"the way out of the sandbox did not start: {said.strip()[-200:] or 'no answer'}"
            raise SandboxUnavailable(problem, "run the command without network access")
        self.port, self._container = int(words[1]), container_id
        self._watch = asyncio.create_task(_until_it_ends(stream, pieces))


async def _first_line(pieces: AsyncIterator[tuple[bool, bytes]]) -> str:
    """What it says first on standard output; with what it says of errors where that is all. Raises WireError."""
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
        raise WireError(f"the container did not answer within {_START_SECONDS:g} s") from error
    return (out + errors).decode("utf-8", "replace")


async def _until_it_ends(stream: Stream, pieces: AsyncIterator[tuple[bool, bytes]]) -> None:
    try:
        async for _ in pieces:
            continue
    finally:
        stream.close()


@lru_cache(maxsize=2)
def _source(language: str) -> str:
    name = f"forward.{language}.txt"
    return resources.files("codeagent.sandbox").joinpath("scripts", name).read_text(encoding="utf-8")
