"""The proxy of one session: HTTP on a unix socket, for who shows a token that is good right now."""

import asyncio
import os
import secrets
import shutil
import socket
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.hosts import HostRule
from codeagent.sandbox.egress.grant import Grant
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.egress.refused import Refused
from codeagent.sandbox.egress.relay import Relay
from codeagent.sandbox.egress.request import LONGEST_HEAD, Request, parse_request

SOCKET = "proxy.sock"
_HEAD_SECONDS = 30.0
_BACKLOG = 128
_MOST_STRANGERS = 64
"""Connections at a time that have not shown a token yet."""
_WORDS = {
    400: "Bad Request",
    403: "Forbidden",
    407: "Proxy Authentication Required",
    431: "Too Large",
    502: "Bad Gateway",
}


class EgressProxy:
    """Listens from the first `open` to `close`; nobody without a token of a running command gets anything."""

    def __init__(self, state_dir: Path, internet: Internet) -> None:
        self._folder = state_dir / "sandbox" / f"egress-{secrets.token_hex(8)}"
        self._internet = internet
        self._server: asyncio.Server | None = None
        self._grants: dict[str, Grant] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._strangers = 0

    @property
    def folder(self) -> Path:
        """Holds the socket and nothing else. Who may go in is decided by the folder around it, which is ours alone."""
        return self._folder / "socket"

    async def open(self) -> None:
        """Idempotent. Raises SandboxUnavailable where this machine has no such sockets."""
        if self._server is not None:
            return
        self._folder.mkdir(mode=0o700, parents=True)
        self.folder.mkdir()
        self.folder.chmod(0o711)
        try:
            listener = _listen(self.folder)
        except OSError as error:
            problem = f"no way out of the sandbox can be made ({error.strerror})"
            raise SandboxUnavailable(problem, "run the command without network access") from error
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=LONGEST_HEAD)

    def grant(self, rules: tuple[HostRule, ...]) -> Grant:
        """For one command; `end` it."""
        grant = Grant(rules)
        self._grants[grant.token] = grant
        return grant

    def end(self, grant: Grant) -> None:
        self._grants.pop(grant.token, None)
        grant.end()

    async def close(self) -> None:
        """Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for grant in list(self._grants.values()):
            self.end(grant)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            return  # the client, the server or the idle limit ended it
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        grant: Grant | None = None
        name, port = None, 0
        try:
            request = await self._request(reader)
            grant = self._grants.get(request.token or "")
            if grant is None:
                raise Refused("no credential of a running command", 407)
            task = asyncio.current_task()
            assert task is not None
            grant.join(task)
            name, port, path = request.where()
            await self._pass_on(request, grant, (name, port, path), (reader, writer))
        except Refused as refusal:
            if grant is not None:
                grant.refused(name, port, str(refusal))
            if refusal.status:
                await _say_no(writer, refusal)

    async def _request(self, reader: asyncio.StreamReader) -> Request:
        if self._strangers >= _MOST_STRANGERS:
            raise Refused("too many connections", 403)
        self._strangers += 1
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                return parse_request(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError as error:
            raise Refused("a head that is too long", 431) from error
        finally:
            self._strangers -= 1

    async def _pass_on(
        self,
        request: Request,
        grant: Grant,
        where: tuple[str, int, bytes],
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        name, port, path = where
        rule = grant.rule_for(name, port)
        size = request.body_size()
        server, to_server = await self._internet.connect(name, port, grant)
        try:
            relay = Relay(grant, *client)
            if not request.is_connect:
                grant.allowed(name, port)
                await relay.exchange(request.onward(name, port, path), size, server, to_server)
                return
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await client[1].drain()
            await relay.tunnel(name, port, rule, server, to_server)
        except Refused as refusal:
            raise Refused(str(refusal), status=0) from refusal
        except asyncio.CancelledError:
            to_server.transport.abort()
            raise
        finally:
            to_server.close()


async def _say_no(writer: asyncio.StreamWriter, refusal: Refused) -> None:
    text = f"the sandbox's proxy: {refusal}\n".encode()
    ask = "Proxy-Authenticate: Basic realm=codeagent\r\n" if refusal.status == 407 else ""
    head = (
        f"HTTP/1.1 {refusal.status} {_WORDS[refusal.status]}\r\n{ask}Content-Type: text/plain\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode("ascii") + text)
    await writer.drain()


def _listen(folder: Path) -> socket.socket:
    """Bound through a descriptor of the folder: a path may be too long for a socket's address."""
    listener = socket.socket(socket.AF_UNIX)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{SOCKET}")
        (folder / SOCKET).chmod(0o666)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(fd)
    return listener
