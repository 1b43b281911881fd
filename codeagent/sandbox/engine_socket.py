"""The engine's socket: whether it answers, and the few requests that every command pays for, without docker-py."""

import asyncio
import errno
import json
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeagent.core.errors import SandboxError, SandboxUnavailable

USUAL_SOCKET = "/var/run/docker.sock"
_ANSWER_SECONDS = 5
_PING = b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n"
_OFF = "or run commands unconfined with --sandbox off"
READ_SIZE = 256 * 1024
ANSWER_SECONDS = 2.0
_HEADER = 8
_STDERR = 2


def engine_socket(docker_host: str | None) -> str:
    """Return the path of the engine's unix socket. Raises SandboxUnavailable for an engine on another machine."""
    if docker_host is None:
        rootless = f"{os.environ.get('XDG_RUNTIME_DIR', '')}/docker.sock"
        return USUAL_SOCKET if Path(USUAL_SOCKET).exists() or not Path(rootless).exists() else rootless
    if docker_host.startswith("unix://"):
        return docker_host.removeprefix("unix://")
    raise SandboxUnavailable(
        f"DOCKER_HOST is {docker_host}: an engine on another machine does not see this workspace",
        f"unset DOCKER_HOST to use the local engine, {_OFF}",
    )


def probe_socket(path: str) -> None:
    """Ask whether the engine answers, without loading anything heavy. Raises SandboxUnavailable if it does not."""
    probe = socket.socket(socket.AF_UNIX)
    probe.settimeout(_ANSWER_SECONDS)
    try:
        probe.connect(path)
        probe.sendall(_PING)
        if not probe.recv(1):
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection without an answer")
    except OSError as error:
        raise unanswered(path, error) from error
    finally:
        probe.close()


def unanswered(path: str, error: BaseException) -> SandboxUnavailable:
    """Return which of the usual reasons it is, with its remedy."""
    number = _errno(error)
    if number in (errno.ENOENT, errno.ENOTSOCK, errno.ENOTDIR):
        remedy = f"install and start one (Debian, Ubuntu: sudo apt-get install docker.io), {_OFF}"
        return SandboxUnavailable(f"no Docker engine: there is no socket at {path}", remedy)
    if number == errno.ECONNREFUSED:
        remedy = f"start it (sudo systemctl start docker), {_OFF}"
        return SandboxUnavailable(f"the Docker engine is not running: nothing listens at {path}", remedy)
    if number in (errno.EACCES, errno.EPERM):
        remedy = "join its group (sudo usermod -aG docker $USER, then log in again) or use rootless Docker"
        return SandboxUnavailable(f"you may not use the Docker engine: no permission for {path}", remedy)
    if isinstance(error, TimeoutError) or "timed out" in str(error).lower():
        remedy = f"restart it (sudo systemctl restart docker), {_OFF}"
        return SandboxUnavailable(f"the Docker engine at {path} does not answer", remedy)
    return SandboxUnavailable(f"the Docker engine at {path} failed: {error}", "see its log (journalctl -u docker)")


def _errno(error: BaseException) -> int | None:
    """Return the first errno along the chain of causes; libraries wrap the one that matters."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, OSError) and isinstance(current.errno, int):
            return current.errno
        nested = [argument for argument in current.args if isinstance(argument, BaseException)]
        current = current.__cause__ or current.__context__ or (nested[0] if nested else None)
    return None


class EngineError(SandboxError):
    """The engine did not answer, or answered with an error; `status` is its HTTP status, None for no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class EngineSocket:
    """An engine behind a unix socket; every request has a connection of its own."""

    socket_path: str
    timeout: float = 10.0
    """Seconds until a request that is not a stream counts as unanswered."""

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request; return the decoded answer, None if it is empty. Raises EngineError."""
        try:
            async with asyncio.timeout(self.timeout):
                reader, writer = await asyncio.open_unix_connection(self.socket_path)
                try:
                    writer.write(_request(method, path, body, "HTTP/1.0", ""))
                    status = await _status(reader)
                    answer = await reader.read()
                finally:
                    writer.close()
        except TimeoutError as error:
            raise EngineError(f"the engine did not answer within {self.timeout:g} s") from error
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise EngineError(f"the engine went away: {error or type(error).__name__}") from error
        if status >= 300:
            raise EngineError(_message(answer), status)
        return json.loads(answer) if answer.strip() else None

    async def answers(self) -> bool:
        """Tell, within ANSWER_SECONDS, whether the engine answers at all."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.socket_path)
                try:
                    writer.write(_request("GET", "/_ping", None, "HTTP/1.0", ""))
                    await _status(reader)
                finally:
                    writer.close()
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            return False
        return True

    async def stream(self, path: str, body: dict[str, Any]) -> "ExecStream":
        """Start something whose output comes over the connection itself. Raises EngineError."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self.timeout):
                reader, writer = await asyncio.open_unix_connection(self.socket_path, limit=READ_SIZE)
                writer.write(_request("POST", path, body, "HTTP/1.1", "Connection: Upgrade\r\nUpgrade: tcp\r\n"))
                status = await _status(reader)
            if status in (101, 200):
                return ExecStream(reader, writer)
            answer = await reader.read(READ_SIZE)
        except BaseException as error:
            if writer is not None:
                writer.close()
            if isinstance(error, TimeoutError | OSError | EOFError):
                raise EngineError(f"the engine went away: {error or type(error).__name__}") from error
            raise
        writer.close()
        raise EngineError(_message(answer), status)


@dataclass(frozen=True)
class ExecStream:
    """A hijacked connection: frames of standard output and standard error come in, bytes may be sent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def pieces(self) -> AsyncIterator[tuple[bool, bytes]]:
        """Yield `(is_stderr, bytes)`, at most READ_SIZE at a time however long the frame, to the stream's end.

        Nothing is read from the engine until the caller asks for more.
        """
        left, is_stderr, rest = 0, False, b""
        while chunk := await self._read():
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
        while chunk := await self._read():
            yield chunk

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises EngineError."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise EngineError(f"the engine went away: {error}") from error

    def close(self) -> None:
        self.writer.close()

    async def _read(self) -> bytes:
        try:
            return await self.reader.read(READ_SIZE)
        except OSError:
            return b""


def _request(method: str, path: str, body: dict[str, Any] | None, version: str, headers: str) -> bytes:
    payload = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} {version}\r\nHost: engine\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode("ascii") + payload


async def _status(reader: asyncio.StreamReader) -> int:
    """Read the headers to their end; return the HTTP status."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(None, 2)[1])


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode("utf-8", "replace")[:200] or "the engine refused without a reason"
