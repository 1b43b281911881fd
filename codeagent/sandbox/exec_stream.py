"""Starts processes in a running container, and takes over the connection that carries their
streams.

docker-py has no part in that connection: it drops the bytes that arrive together with the answer's
headers (ADR 13).
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from functools import lru_cache
from pathlib import Path, PurePath

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxLost
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import reason
from codeagent.sandbox.profile import HOME

READ_SIZE = 256 * 1024
SCRIPTS = Path(__file__).with_name("scripts")
_HEADER = 8
_STDERR = 2


@dataclass(frozen=True)
class ExecTarget:
    """Where something runs: container, user and directory."""

    container_id: str
    user: str
    """`uid:gid`."""
    directory: str
    processes: Path | None = None
    """The file with the kernel's list of the container's processes; None if this machine does not
    show it."""
    path: str = ""
    """PATH of commands; empty: the container's own, for our scripts as well."""

    @property
    def safe_path(self) -> str:
        """PATH without the folders that commands can write to: what our own scripts run must not
        come from them."""
        tops = (self.directory, HOME, "/tmp", "/dev", "/proc")
        folders = (
            os.path.normpath(folder) for folder in self.path.split(":") if folder.startswith("/")
        )
        return ":".join(
            each for each in folders if not any(PurePath(each).is_relative_to(top) for top in tops)
        )


@dataclass(frozen=True)
class ExecStream:
    """A hijacked connection: frames of standard output and standard error come in, bytes may be
    sent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, engine: Engine, exec_id: str, tty: bool) -> "ExecStream":
        """Start an exec that was created. Raises EngineError."""
        body = json.dumps({"Detach": False, "Tty": tty}).encode()
        head = (
            f"POST /exec/{exec_id}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(engine.seconds):
                reader, writer = await asyncio.open_unix_connection(
                    engine.socket_path, limit=READ_SIZE
                )
                writer.write(head.encode("ascii") + body)
                status = int((await reader.readuntil(b"\r\n\r\n")).split(None, 2)[1])
                if status in (101, 200):
                    return cls(reader, writer)
                raise EngineError(reason(await reader.read(READ_SIZE)), status)
        except BaseException as error:
            if writer is not None:
                writer.close()
            if isinstance(error, TimeoutError | OSError | EOFError):
                raise EngineError(
                    f"the engine went away: {error or type(error).__name__}"
                ) from error
            raise

    async def pieces(self) -> AsyncGenerator[tuple[bool, bytes], None]:
        """Yield `(is_stderr, bytes)`, at most READ_SIZE at a time however long the frame, to the
        stream's end.

        Nothing is read from the engine until the caller asks for more.
        """
        left = 0
        is_stderr = False
        rest = b""
        async for chunk in self.raw():
            rest += chunk
            at = 0
            while True:
                if left == 0:
                    if len(rest) - at < _HEADER:
                        break
                    is_stderr = rest[at] == _STDERR
                    left = int.from_bytes(rest[at + 4 : at + _HEADER], "big")
                    at += _HEADER
                    continue
                piece = rest[at : at + left]
                if not piece:
                    break
                at += len(piece)
                left -= len(piece)
                yield is_stderr, piece
            rest = rest[at:]

    async def raw(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they are: with a terminal, the engine adds no frames."""
        try:
            while chunk := await self.reader.read(READ_SIZE):
                yield chunk
        except OSError:
            return

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises EngineError."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise EngineError(f"the engine went away: {error}") from error

    def close(self) -> None:
        self.writer.close()


async def start_exec(
    engine: Engine,
    target: ExecTarget,
    command: list[str],
    variables: tuple[str, ...] = (),
    tty: bool = False,
) -> tuple[str, ExecStream]:
    """Create and start an exec; return its id and its streams.

    Raises EngineError if nothing was started, SandboxLost if that is unknown.
    """
    body = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": tty,
        "Cmd": command,
        "User": target.user,
        "Env": variables,
        "WorkingDir": target.directory,
    }
    made = await engine.ask("POST", f"/containers/{target.container_id}/exec", body=body)
    exec_id = str(made["Id"])
    try:
        return exec_id, await ExecStream.open(engine, exec_id, tty)
    except EngineError as error:
        if error.status is None:
            raise SandboxLost(lost(str(error))) from error
        raise


async def run_script(
    engine: Engine, target: ExecTarget, name: str, arguments: list[str], seconds: float
) -> bytes:
    """Run one of our own scripts; return its standard output. Raises EngineError, also when the
    time is up."""
    answer = b""
    stream = None
    try:
        async with asyncio.timeout(seconds):
            _, stream = await start_script(engine, target, name, arguments)
            async for is_stderr, piece in stream.pieces():
                if not is_stderr and len(answer) < 64 * 1024:
                    answer += piece
    except TimeoutError as error:
        raise EngineError(f"the container did not answer within {seconds:g} s") from error
    finally:
        if stream is not None:
            stream.close()
    return answer


async def start_script(
    engine: Engine,
    target: ExecTarget,
    name: str,
    arguments: list[str],
    variables: tuple[str, ...] = (),
) -> tuple[str, ExecStream]:
    """Start one of our own scripts as `start_exec` starts a command, with programs that no command
    can replace."""
    path = (f"PATH={target.safe_path}",) if target.path else ()
    return await start_exec(engine, target, script_command(name, arguments), (*path, *variables))


def script_command(name: str, arguments: list[str]) -> list[str]:
    """Return the command line of one of the scripts beside this module."""
    return ["bash", "--norc", "-c", script_text(name), "codeagent", *arguments]


@lru_cache(maxsize=8)
def script_text(name: str) -> str:
    """Return a script with the functions that all scripts share, without its comments."""
    texts = ((SCRIPTS / f"{part}.sh").read_text(encoding="utf-8") for part in ("processes", name))
    lines = (line for text in texts for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("# "))


def lost(reason: str) -> str:
    """Return the one line for a command whose end nobody saw."""
    return (
        f"the sandbox was lost while the command ran ({reason}): whether it took effect is unknown; "
        "files in the workspace are as it left them, and the next command starts a new sandbox"
    )
