"""The proxy of one session: HTTP on a unix socket, for clients with a token that is valid now.

Requests are parsed strictly: anything two parsers could read differently is refused.
"""

import asyncio
import base64
import binascii
import re
import secrets
import shutil
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.hosts import HostRule, Reach, split_port
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.sockets import listen_at
from codeagent.sandbox.egress.grant import Grant, RequestRefused
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.egress.relay import Relay
from codeagent.sandbox.tasks import GIB

SOCKET = "proxy.sock"
_HEAD_SECONDS = 30.0
_MOST_STRANGERS = 64
"""Connections at a time that have not yet shown a token."""
_WORDS = {
    400: "Bad Request",
    403: "Forbidden",
    407: "Proxy Authentication Required",
    431: "Too Large",
    502: "Bad Gateway",
}
LONGEST_HEAD = 32 * 1024
USER = "codeagent"
"""The name beside the token in a proxy's address."""
_MOST_HEADERS = 100
_TOKEN = lazy_regex(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = lazy_regex(rb"[!-~]+")
_VALUE = lazy_regex(rb"[\t -~\x80-\xff]*")
_ONCE = (b"host", b"content-length", b"transfer-encoding", b"proxy-authorization")
_BETWEEN_TWO = frozenset(
    {
        b"connection",
        b"proxy-connection",
        b"proxy-authorization",
        b"keep-alive",
        b"te",
        b"trailer",
        b"upgrade",
        b"http2-settings",
    }
)
"""Headers for the next hop only, besides those that `Connection` names."""


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """Names in lower case."""

    @property
    def is_connect(self) -> bool:
        return self.method == b"CONNECT"

    @property
    def token(self) -> str | None:
        """The token in its credentials, if any."""
        kind, _, encoded = (self.one(b"proxy-authorization") or b"").partition(b" ")
        if kind.lower() != b"basic":
            return None
        try:
            user, _, token = (
                base64.b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")
            )
        except (binascii.Error, UnicodeDecodeError):
            return None
        return token if user == USER else None

    def one(self, name: bytes) -> bytes | None:
        return next((value for found, value in self.headers if found == name), None)

    def where(self) -> tuple[str, int, bytes]:
        """Return host and port in their one spelling, and the path, empty for a tunnel. Raises
        RequestRefused.

        A Host header must name the same host.
        """
        name, port, path = self._tunnel() if self.is_connect else self._plain()
        said = self.one(b"host")
        if said is None and not self.is_connect:
            raise RequestRefused("a request without a Host header", 400)
        if said is not None:
            host, host_port = split_port(said.decode("latin-1"))
            default = port if self.is_connect else 80
            if (host, default if host_port is None else host_port) != (name, port):
                raise RequestRefused("the Host header names another host", 400)
        return name, port, path

    def onward(self, name: str, port: int, path: bytes) -> bytes:
        """Return the head for the server itself; the connection is for this one request."""
        dropped = (
            _BETWEEN_TWO | {b"host"} | {word.strip().lower() for word in self._connection_words()}
        )
        lines = [
            self.method + b" " + path + b" HTTP/1.1",
            b"Host: " + (name if port == 80 else f"{name}:{port}").encode(),
        ]
        lines += [found + b": " + value for found, value in self.headers if found not in dropped]
        return b"\r\n".join([*lines, b"Connection: close", b"", b""])

    def body_size(self) -> int | None:
        """Return the size of the body in bytes, None if it comes in chunks. Raises
        RequestRefused."""
        size = self.one(b"content-length")
        coding = self.one(b"transfer-encoding")
        if coding is not None:
            if size is not None or coding.lower() != b"chunked":
                raise RequestRefused("a body whose end is not clear", 400)
            return None
        if size is not None and not re.fullmatch(rb"[0-9]{1,15}", size):
            raise RequestRefused("a body whose end is not clear", 400)
        return int(size or 0)

    def _connection_words(self) -> list[bytes]:
        protected = (b"content-length", b"transfer-encoding")
        named = [value for found, value in self.headers if found == b"connection"]
        return [
            word
            for value in named
            for word in value.split(b",")
            if word.strip().lower() not in protected
        ]

    def _tunnel(self) -> tuple[str, int, bytes]:
        name, port = split_port(self.target.decode("ascii"))
        if name is None or not port:
            raise RequestRefused("no readable host name and port", 400)
        return name, port, b""

    def _plain(self) -> tuple[str, int, bytes]:
        scheme, separator, rest = self.target.partition(b"://")
        if not separator or scheme.lower() != b"http":
            raise RequestRefused("only http:// and CONNECT are understood", 400)
        end = re.search(rb"[/?#]", rest)
        authority, path = (rest, b"") if end is None else (rest[: end.start()], rest[end.start() :])
        name, port = split_port(authority.decode("ascii"))
        if name is None or port == 0 or b"#" in path:
            raise RequestRefused("no readable host name", 400)
        return name, 80 if port is None else port, path if path.startswith(b"/") else b"/" + path


def parse_request(head: bytes) -> Request:
    """Read `head`, up to and including the empty line. Raises RequestRefused."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise RequestRefused("not an HTTP/1 request", 400)
    if not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise RequestRefused("not an HTTP/1 request", 400)
    if len(lines) > _MOST_HEADERS:
        raise RequestRefused("too many headers", 431)
    headers = tuple(map(_header, lines))
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ONCE):
        raise RequestRefused("a header that may occur once occurs twice", 400)
    return Request(words[0], words[1], headers)


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise RequestRefused("an unreadable header", 400)
    return name.lower(), value.strip(b" \t")


class EgressProxy:
    """Listens from the first `open` to `close`; without a running command's token nobody gets
    anything."""

    def __init__(self, state_dir: Path, internet: Internet, byte_limit: int = GIB) -> None:
        """`byte_limit`: see Grant."""
        self._byte_limit = byte_limit
        self._folder = state_dir / "sandbox" / f"egress-{secrets.token_hex(8)}"
        self._internet = internet
        self._turn = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._grants: dict[str, Grant] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._strangers = 0

    @property
    def folder(self) -> Path:
        """Contains only the socket. The folder around it, which is ours alone, decides who may
        enter."""
        return self._folder / "socket"

    async def open(self) -> None:
        """Start listening; idempotent. Raises SandboxUnavailable if this machine has no such
        sockets."""
        async with self._turn:
            if self._server is None:
                self._server = await self._listening()

    async def _listening(self) -> asyncio.Server:
        self._folder.mkdir(mode=0o700, parents=True)
        self.folder.mkdir()
        self.folder.chmod(0o711)
        try:
            listener = listen_at(self.folder / SOCKET, 0o666)
        except OSError as error:
            problem = f"the sandbox's network access cannot be set up ({error.strerror})"
            raise SandboxUnavailable(problem, "run the command without network access") from error
        return await asyncio.start_server(self._accept, sock=listener, limit=LONGEST_HEAD)

    async def opened_for(self, hosts: tuple[str, ...], reach: Reach | None, what: str) -> Grant:
        """Open the proxy, and make the grant of one command with these hosts, as `grant` does.

        Raises SandboxUnavailable, which says that nothing was `what`, such as `run`.
        """
        try:
            rules = tuple(map(HostRule.parse, hosts))
        except ValueError as error:
            raise SandboxUnavailable(
                f"nothing was {what}: {error}", "correct the list of hosts"
            ) from error
        await self.open()
        return self.grant(rules, reach)

    def grant(self, rules: tuple[HostRule, ...], reach: Reach | None = None) -> Grant:
        """Make the grant of one command; `end` it."""
        grant = Grant(rules, reach, self._byte_limit)
        self._grants[grant.token] = grant
        return grant

    def end(self, grant: Grant) -> None:
        self._grants.pop(grant.token, None)
        grant.end()

    async def close(self) -> None:
        """Idempotent."""
        server = self._server
        self._server = None
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
        name = None
        port = 0
        try:
            request = await self._request(reader)
            grant = self._grants.get(request.token or "")
            if grant is None:
                raise RequestRefused("no credential of a running command", 407)
            task = asyncio.current_task()
            assert task is not None
            grant.join(task)
            name, port, path = request.where()
            await self._pass_on(request, grant, (name, port, path), (reader, writer))
        except RequestRefused as refusal:
            if grant is not None:
                grant.refused(name, port, str(refusal))
            if refusal.status:
                await _say_no(writer, refusal)

    async def _request(self, reader: asyncio.StreamReader) -> Request:
        if self._strangers >= _MOST_STRANGERS:
            raise RequestRefused("too many connections", 403)
        self._strangers += 1
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                return parse_request(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError as error:
            raise RequestRefused("a head that is too long", 431) from error
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
        rule = await grant.rule_for(name, port)
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
        except RequestRefused as refusal:
            raise RequestRefused(str(refusal), status=0) from refusal
        except asyncio.CancelledError:
            to_server.transport.abort()
            raise
        finally:
            to_server.close()


async def _say_no(writer: asyncio.StreamWriter, refusal: RequestRefused) -> None:
    text = f"the sandbox's proxy: {refusal}\n".encode()
    ask = "Proxy-Authenticate: Basic realm=codeagent\r\n" if refusal.status == 407 else ""
    head = (
        f"HTTP/1.1 {refusal.status} {_WORDS[refusal.status]}\r\n{ask}Content-Type: text/plain\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode("ascii") + text)
    await writer.drain()
