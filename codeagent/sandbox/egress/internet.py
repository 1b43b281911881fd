"""Connections to the outside: a name is resolved once, what it leads to is looked at, and that is connected to."""

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from codeagent.core.hosts import is_address
from codeagent.sandbox.egress.addresses import Address, is_public
from codeagent.sandbox.egress.grant import MOST_HOSTS, Grant
from codeagent.sandbox.egress.refused import Refused

Resolve = Callable[[str], Awaitable[tuple[Address, ...]]]
"""All addresses of a name, version 4 and 6. Raises OSError."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CONNECT_SECONDS = 10.0
_RESOLVE_SECONDS = 10.0
_MOST_TRIED = 4


@dataclass(frozen=True)
class UpstreamProxy:
    """The proxy through which this machine itself reaches the Internet."""

    host: str
    port: int
    tls: bool
    authorization: str | None = field(default=None, repr=False)
    """`Basic …`."""


def upstream_of(environment: Mapping[str, str]) -> UpstreamProxy | None:
    """The one this machine's environment names. Raises ValueError where that cannot be used."""
    names = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    address = next((environment[name] for name in names if environment.get(name, "").strip()), None)
    if address is None:
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the proxy in https_proxy is no http:// or https:// address")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ValueError("the proxy in https_proxy has no port that can be read") from error
    return UpstreamProxy(parts.hostname, port, parts.scheme == "https", authorization)


async def system_resolve(name: str) -> tuple[Address, ...]:
    """As this machine resolves names."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


class Internet:
    """Who a connection is made to is decided by the address it is made to."""

    def __init__(
        self,
        upstream: UpstreamProxy | None = None,
        resolve: Resolve = system_resolve,
        allowed: Callable[[Address], bool] = is_public,
        problem: str | None = None,
    ) -> None:
        """With `upstream`, names are left to it that this machine cannot resolve, and so is what it connects to.

        `problem`: why nothing can be reached at all.
        """
        self._upstream = upstream
        self._problem = problem
        self._resolve = resolve
        self._allowed = allowed

    async def connect(self, name: str, port: int, grant: Grant) -> Streams:
        """Raises Refused, also where there is no answer."""
        if self._problem is not None:
            raise Refused(self._problem, 502)
        addresses = await self._addresses(name, grant)
        if self._upstream is not None:
            return await _through(self._upstream, name, port)
        for address in addresses[:_MOST_TRIED]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(str(address), port)
            except OSError:
                continue
        raise Refused("no connection", 502)

    async def _addresses(self, name: str, grant: Grant) -> tuple[Address, ...]:
        if name not in grant.pinned:
            if len(grant.pinned) >= MOST_HOSTS:
                raise Refused(f"more than {MOST_HOSTS} hosts in one command")
            grant.pinned[name] = await self._looked_up(name)
        addresses = grant.pinned[name]
        if not all(map(self._allowed, addresses)):
            raise Refused("it leads to an address that is not public")
        return addresses

    async def _looked_up(self, name: str) -> tuple[Address, ...]:
        if is_address(name):
            return (ipaddress.ip_address(name.strip("[]")),)
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                found = await self._resolve(name)
        except (OSError, UnicodeError, ValueError):
            found = ()
        if not found and self._upstream is None:
            raise Refused("no such name", 502)
        return found


def internet_of(environment: Mapping[str, str]) -> Internet:
    """As this machine's environment reaches it; where that cannot be done, nothing is reached any other way."""
    try:
        return Internet(upstream_of(environment))
    except ValueError as error:
        return Internet(problem=str(error))


async def _through(proxy: UpstreamProxy, name: str, port: int) -> Streams:
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(2 * _CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(proxy.host, proxy.port, ssl=proxy.tls or None)
            login = "" if proxy.authorization is None else f"Proxy-Authorization: {proxy.authorization}\r\n"
            writer.write(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{login}\r\n".encode("ascii"))
            head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(None, 2)
        if len(words) < 2 or not words[1].startswith(b"2"):
            raise Refused("this machine's own proxy refused it", 502)
    except BaseException as error:
        if writer is not None:
            writer.close()
        if isinstance(error, OSError | EOFError | asyncio.LimitOverrunError):
            raise Refused("this machine's own proxy did not answer", 502) from error
        raise
    return reader, writer
