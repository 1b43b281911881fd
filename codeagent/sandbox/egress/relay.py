"""Bytes on their way through the proxy: tunnels whose TLS name is looked at, bodies with a known end."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

from codeagent.core.hosts import HostRule, host_name
from codeagent.sandbox.egress.client_hello import NoClientHello, read_client_hello
from codeagent.sandbox.egress.grant import Grant
from codeagent.sandbox.egress.refused import Refused

IDLE_SECONDS = 300.0
_HELLO_SECONDS = 30.0
_PIECE = 64 * 1024
_TLS = b"\x16"
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})(?:[ \t]*;[\t -~]*)?\r\n")


class Relay:
    """One connection of a grant; nothing passes for IDLE_SECONDS ends it."""

    def __init__(self, grant: Grant, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._grant = grant
        self._client = client
        self._to_client = to_client
        self._deadline = asyncio.timeout(IDLE_SECONDS)

    async def tunnel(
        self, name: str, port: int, rule: HostRule, server: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        """Both ways, to both ends. Raises Refused before the first byte of a client that wants another host.

        Only a rule that names its port lets something other than TLS through.
        """

        async def up() -> None:
            first = await self._first_bytes(name, rule)
            self._grant.allowed(name, port)
            await self._pass(first, to_server)
            await self._pump(self._client, to_server)

        await self._both(up(), self._pump(server, self._to_client), until=asyncio.ALL_COMPLETED)

    async def exchange(
        self, head: bytes, size: int | None, server: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        """One request and its answer; what the client sends behind it is not read. `size`: see Request.body_size."""

        async def up() -> None:
            await self._pass(head, to_server)
            await (self._chunks(to_server) if size is None else self._counted(size, to_server))
            if await self._client.read(1):
                await asyncio.Event().wait()

        await self._both(up(), self._pump(server, self._to_client), until=asyncio.FIRST_COMPLETED)

    async def _both(self, up: Coroutine[Any, Any, None], down: Coroutine[Any, Any, None], *, until: str) -> None:
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
                    raise Refused("a tunnel is for TLS") from error
                if hello is None:
                    continue
                if hello.server_name is not None and host_name(hello.server_name) != name:
                    raise Refused("the name in TLS is another one")
                if hello.hides_name and not rule.is_any:
                    raise Refused("the name in TLS may be hidden")
                return data
        if data:
            raise Refused("a tunnel is for TLS")
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
        """Each chunk anew, without extensions; trailers are dropped."""
        while True:
            line = await self._client.readuntil(b"\r\n")
            match = _CHUNK.fullmatch(line)
            if match is None:
                raise Refused("a body whose end is not clear", 400)
            size = int(match[1], 16)
            if size == 0:
                break
            await self._pass(b"%x\r\n" % size, writer)
            await self._counted(size, writer)
            if await self._client.readexactly(2) != b"\r\n":
                raise Refused("a body whose end is not clear", 400)
            await self._pass(b"\r\n", writer)
        while await self._client.readuntil(b"\r\n") != b"\r\n":
            continue
        await self._pass(b"0\r\n\r\n", writer)
