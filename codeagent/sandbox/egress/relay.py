"""Passes bytes through the proxy: bodies with a known end, and tunnels whose TLS server name is
checked.

The server name is in the ClientHello (RFC 8446 4.1.2, RFC 6066 3), which is read before any of it
is passed on.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import HostRule, host_name
from codeagent.core.lazy_regex import lazy_regex
from codeagent.sandbox.egress.grant import Grant, RequestRefused

IDLE_SECONDS = 300.0
_HELLO_SECONDS = 30.0
_PIECE = 64 * 1024
_TLS = b"\x16"
_CHUNK = lazy_regex(rb"([0-9a-fA-F]{1,8})(?:[ \t]*;[\t -~]*)?\r\n")
_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_ENCRYPTED_HELLO = 0xFE0D
_LONGEST = 64 * 1024
_LONGEST_RECORD = 2**14


class Relay:
    """Passes on one connection of a grant; IDLE_SECONDS without a byte end it."""

    def __init__(
        self, grant: Grant, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        self._grant = grant
        self._client = client
        self._to_client = to_client
        self._deadline = asyncio.timeout(IDLE_SECONDS)

    async def tunnel(
        self,
        name: str,
        port: int,
        rule: HostRule,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        """Pass bytes both ways, to both ends. Raises RequestRefused before the first byte for
        another host.

        Only a rule that names its port lets something other than TLS through.
        """

        async def up() -> None:
            first = await self._first_bytes(name, rule)
            self._grant.allowed(name, port)
            await self._pass(first, to_server)
            await self._pump(self._client, to_server)

        await self._both(up(), self._pump(server, self._to_client), until=asyncio.ALL_COMPLETED)

    async def exchange(
        self,
        head: bytes,
        size: int | None,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        """Pass on one request and its answer, and nothing the client sends after it. `size`: see
        Request.body_size."""

        async def up() -> None:
            await self._pass(head, to_server)
            await (self._chunks(to_server) if size is None else self._counted(size, to_server))
            if await self._client.read(1):
                await asyncio.Event().wait()

        await self._both(up(), self._pump(server, self._to_client), until=asyncio.FIRST_COMPLETED)

    async def _both(
        self, up: Coroutine[Any, Any, None], down: Coroutine[Any, Any, None], *, until: str
    ) -> None:
        tasks = {asyncio.create_task(up), asyncio.create_task(down)}
        when = asyncio.FIRST_EXCEPTION if until == asyncio.ALL_COMPLETED else until
        try:
            async with self._deadline:
                done, _ = await asyncio.wait(tasks, return_when=when)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _first_bytes(self, name: str, rule: HostRule) -> bytes:
        data = b""
        async with asyncio.timeout(None if rule.port is not None else _HELLO_SECONDS):
            while piece := await self._client.read(_PIECE):
                data += piece
                if rule.port is not None and not data.startswith(_TLS):
                    return data
                try:
                    hello = read_client_hello(data)
                except NoClientHello as error:
                    raise RequestRefused("a tunnel is for TLS") from error
                if hello is None:
                    continue
                if hello.server_name is not None and host_name(hello.server_name) != name:
                    raise RequestRefused("TLS names another host")
                if hello.hides_name and not rule.is_any:
                    raise RequestRefused("the name in TLS may be hidden")
                return data
        if data:
            raise RequestRefused("a tunnel is for TLS")
        return b""

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_PIECE):
            await self._pass(data, writer)
        if writer.can_write_eof():
            writer.write_eof()

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        self._grant.spend(len(data))
        writer.write(data)
        await writer.drain()
        self._deadline.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)

    async def _counted(self, size: int, writer: asyncio.StreamWriter) -> None:
        while size:
            data = await self._client.read(min(size, _PIECE))
            if not data:
                raise EOFError
            size -= len(data)
            await self._pass(data, writer)

    async def _chunks(self, writer: asyncio.StreamWriter) -> None:
        """Write each chunk again, without extensions; trailers are dropped."""
        while True:
            line = await self._client.readuntil(b"\r\n")
            match = _CHUNK.fullmatch(line)
            if match is None:
                raise RequestRefused("a body whose end is not clear", 400)
            size = int(match[1], 16)
            if size == 0:
                break
            await self._pass(b"%x\r\n" % size, writer)
            await self._counted(size, writer)
            if await self._client.readexactly(2) != b"\r\n":
                raise RequestRefused("a body whose end is not clear", 400)
            await self._pass(b"\r\n", writer)
        while await self._client.readuntil(b"\r\n") != b"\r\n":
            continue
        await self._pass(b"0\r\n\r\n", writer)


class NoClientHello(Exception):
    """The bytes are not a ClientHello as any client sends it."""


@dataclass(frozen=True)
class ClientHello:
    server_name: str | None
    """As it was sent; None if there is none."""
    hides_name: bool
    """The hello may carry another, encrypted name."""


def read_client_hello(data: bytes) -> ClientHello | None:
    """Read a ClientHello; None if there is more to come. Raises NoClientHello."""
    message = _message(data)
    if message is None:
        return None
    try:
        return _hello(_Bytes(message))
    except IndexError as error:
        raise NoClientHello from error


def _message(data: bytes) -> bytes | None:
    """Return the first handshake message, from as many records as it takes, without its head."""
    message = b""
    at = 0
    while True:
        if len(message) >= 4:
            size = int.from_bytes(message[1:4], "big")
            if message[0] != _CLIENT_HELLO or size > _LONGEST:
                raise NoClientHello
            if len(message) >= 4 + size:
                return message[4 : 4 + size]
        head = data[at : at + 5]
        if head and (head[0] != _HANDSHAKE or head[1:2] not in (b"", b"\x03")):
            raise NoClientHello
        if len(head) < 5:
            return None
        size = int.from_bytes(head[3:5], "big")
        if not 0 < size <= _LONGEST_RECORD:
            raise NoClientHello
        if len(data) < at + 5 + size:
            return None
        message += data[at + 5 : at + 5 + size]
        at += 5 + size


def _hello(hello: "_Bytes") -> ClientHello:
    hello.take(2 + 32)
    hello.vector(1)
    hello.vector(2)
    hello.vector(1)
    if not hello.more():
        return ClientHello(None, hides_name=False)
    extensions = hello.vector(2)
    if hello.more():
        raise NoClientHello
    name: str | None = None
    seen: set[int] = set()
    while extensions.more():
        kind = extensions.number(2)
        content = extensions.vector(2)
        if kind in seen:
            raise NoClientHello
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(content)
    return ClientHello(name, _ENCRYPTED_HELLO in seen)


def _server_name(content: "_Bytes") -> str:
    names = content.vector(2)
    kind = names.number(1)
    name = names.vector(2)
    if kind != 0 or names.more() or content.more():
        raise NoClientHello
    try:
        return name.rest().decode("ascii")
    except UnicodeDecodeError as error:
        raise NoClientHello from error


class _Bytes:
    """Reads bytes from the front; raises IndexError past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise IndexError
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Bytes":
        """Read a vector after its own length, which is a number of `size` bytes."""
        return _Bytes(self.take(self.number(size)))
