"""The engine's socket, spoken to directly: the few requests that every command pays for."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from codeagent.core.errors import SandboxError

READ_SIZE = 256 * 1024
ANSWER_SECONDS = 2.0
_HEADER = 8
_STDERR = 2


class WireError(SandboxError):
    """The engine did not answer, or not with success; `status` is its HTTP status, None for no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Wire:
    """One engine behind a unix socket; every request has a connection of its own."""

    socket: str
    timeout: float = 10.0
    """Seconds until a request that is not a stream counts as unanswered."""

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The decoded answer, None where it is empty. Raises WireError."""
        try:
            async with asyncio.timeout(self.timeout):
                reader, writer = await asyncio.open_unix_connection(self.socket)
                try:
                    writer.write(_request(method, path, body, "HTTP/1.0", ""))
                    status = await _status(reader)
                    answer = await reader.read()
                finally:
                    writer.close()
        except TimeoutError as error:
            raise WireError(f"the engine did not answer within {self.timeout:g} s") from error
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise WireError(f"the engine went away: {error or type(error).__name__}") from error
        if status >= 300:
            raise WireError(_message(answer), status)
        return json.loads(answer) if answer.strip() else None

    async def answers(self) -> bool:
        """Whether the engine answers at all; known within ANSWER_SECONDS."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.socket)
                try:
                    writer.write(_request("GET", "/_ping", None, "HTTP/1.0", ""))
                    await _status(reader)
                finally:
                    writer.close()
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            return False
        return True

    async def stream(self, path: str, body: dict[str, Any]) -> "Stream":
        """Start something whose output comes over the connection itself. Raises WireError."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self.timeout):
                reader, writer = await asyncio.open_unix_connection(self.socket, limit=READ_SIZE)
                writer.write(_request("POST", path, body, "HTTP/1.1", "Connection: Upgrade\r\nUpgrade: tcp\r\n"))
                status = await _status(reader)
            if status in (101, 200):
                return Stream(reader, writer)
            answer = await reader.read(READ_SIZE)
        except BaseException as error:
            if writer is not None:
                writer.close()
            if isinstance(error, TimeoutError | OSError | EOFError):
                raise WireError(f"the engine went away: {error or type(error).__name__}") from error
            raise
        writer.close()
        raise WireError(_message(answer), status)


@dataclass(frozen=True)
class Stream:
    """A hijacked connection: frames of standard output and standard error come in, bytes may be sent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def pieces(self) -> AsyncIterator[tuple[bool, bytes]]:
        """`(is_stderr, bytes)`, at most READ_SIZE at a time however long the frame; ends with the stream.

        Nothing is read from the engine while the caller does not ask for more.
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
        """The bytes as they are, for a terminal, where the engine adds no frames."""
        while chunk := await self._read():
            yield chunk

    async def send(self, data: bytes) -> None:
        """Raises WireError."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise WireError(f"the engine went away: {error}") from error

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
    """The HTTP status; reads to the end of the headers."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(None, 2)[1])


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode("utf-8", "replace")[:200] or "the engine refused without a reason"
