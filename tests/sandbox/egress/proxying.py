"""A proxy on a socket of its own, servers it may lead to, and clients that say exactly what they
are told."""

import asyncio
import base64
import ipaddress
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from codeagent.core.hosts import HostRule
from codeagent.net.addresses import Address, UpstreamProxy
from codeagent.sandbox.egress.grant import Grant
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.egress.proxy import SOCKET, EgressProxy

LOOPBACK = (ipaddress.ip_address("127.0.0.1"),)


@dataclass
class Names:
    """A name service of the test's; every name leads to loopback where nothing else is said."""

    known: dict[str, tuple[Address, ...]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, name: str) -> tuple[Address, ...]:
        self.asked.append(name)
        found = self.known.get(name, LOOPBACK)
        if not found:
            raise OSError("no such name")
        return found


@dataclass
class Origin:
    """A server that keeps everything it is sent and answers each connection once."""

    port: int = 0
    connections: int = 0
    received: bytes = b""
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    greeting: bytes = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(self.greeting)
        answered = False
        with suppress(OSError):
            while data := await reader.read(65536):
                self.received += data
                if not answered:
                    answered = True
                    writer.write(self.answer)
                    await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(origin: Origin) -> AsyncIterator[Origin]:
    server = await asyncio.start_server(origin.serve, "127.0.0.1", 0)
    origin.port = server.sockets[0].getsockname()[1]
    try:
        yield origin
    finally:
        server.close()


@dataclass
class Ground:
    """A running proxy."""

    proxy: EgressProxy
    names: Names
    folder: int
    """A descriptor of the socket's folder, whose path is too long for a socket's address."""

    def grant(self, *hosts: str) -> Grant:
        return self.proxy.grant(tuple(map(HostRule.parse, hosts)))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{self.folder}/{SOCKET}")

    async def say(self, data: bytes, until: bytes = b"") -> bytes:
        """All that is answered until the proxy closes.

        Once an answer is complete, and ends with `until`, only what follows within a moment is
        waited for: something that should not come.
        """
        reader, writer = await self.connect()
        answer = b""
        with suppress(OSError, TimeoutError):
            writer.write(data)
            await writer.drain()
            while piece := await asyncio.wait_for(reader.read(65536), _moment(answer, until)):
                answer += piece
        writer.close()
        return answer


def _moment(answer: bytes, until: bytes) -> float:
    head, end, body = answer.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head.lower())
    complete = end and answer.endswith(until) and (size is None or len(body) >= int(size[1]))
    return 0.3 if complete else 60.0


@asynccontextmanager
async def proxying(
    folder: Path,
    upstream: UpstreamProxy | None = None,
    allowed: Callable[[Address], bool] = lambda _: True,
) -> AsyncIterator[Ground]:
    names = Names()
    proxy = EgressProxy(folder, Internet(upstream, names, allowed))
    await proxy.open()
    descriptor = os.open(proxy.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Ground(proxy, names, descriptor)
    finally:
        await proxy.close()
        os.close(descriptor)


def login(grant: Grant) -> bytes:
    return (
        b"Proxy-Authorization: Basic "
        + base64.b64encode(f"codeagent:{grant.token}".encode())
        + b"\r\n"
    )


def get(grant: Grant, url: str, host: str | None = None, more: bytes = b"") -> bytes:
    """A request in absolute form; `host` is the Host header, as the URL has it where none is
    given."""
    said = url.split("://", 1)[-1].split("/", 1)[0] if host is None else host
    return b"GET %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n" % (
        url.encode(),
        said.encode(),
        login(grant),
        more,
    )


def connect(grant: Grant, target: str) -> bytes:
    return b"CONNECT %s HTTP/1.1\r\n%s\r\n" % (
        target.encode("utf-8", "surrogateescape"),
        login(grant),
    )


def client_hello(name: str | None) -> bytes:
    """As OpenSSL sends it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return out.read()
