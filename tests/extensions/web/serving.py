"""Servers on loopback for tools that make requests, a name service whose answers change, and one
way to call a tool."""

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from codeagent.core.tool import Tool, ToolResult
from codeagent.net.addresses import Address
from codeagent.tools.arguments import parse_arguments
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import tool_context


@dataclass
class Seen:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Reply = tuple[int, dict[str, str], bytes]
Answer = Callable[[Seen], Reply | Awaitable[Reply]]


@dataclass
class Site:
    """A server that keeps what it was asked."""

    answer: Answer = lambda seen: (200, {"content-type": "text/plain"}, b"ok")
    host: str = "127.0.0.1"
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed its connection."""

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(OSError, EOFError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip("\r\n").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            seen = Seen(method, target, headers, body)
            self.seen.append(seen)
            reply = self.answer(seen)
            status, fields, said = reply if isinstance(reply, tuple) else await reply
            told = {"content-length": str(len(said)), "connection": "close", **fields}
            writer.write(f"HTTP/1.1 {status} X\r\n".encode())
            writer.write(
                "".join(f"{name}: {value}\r\n" for name, value in told.items()).encode("latin-1")
            )
            writer.write(b"\r\n" + (b"" if method == "HEAD" else said))
            await writer.drain()
            await reader.read()
        self.left.set()
        writer.close()


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[Site]:
    server = await asyncio.start_server(site.serve, site.host, site.port)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


class FlippingNames:
    """A name service that gives the next answer each time it is asked, and keeps giving the last
    one."""

    def __init__(self, *answers: str) -> None:
        self._answers = [tuple(map(ipaddress.ip_address, answer.split())) for answer in answers]
        self.asked = 0

    async def __call__(self, name: str) -> tuple[Address, ...]:
        found = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return found


async def call(tool: Tool[Any], workspace: LocalWorkspace, **arguments: object) -> ToolResult:
    """As a model does: with JSON that is checked first."""
    return await tool.run(parse_arguments(tool, json.dumps(arguments)), tool_context(workspace))


def said(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")
