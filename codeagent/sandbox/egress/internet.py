"""Connections to the Internet: a name is resolved once, its addresses are checked, and only those
are connected to."""

import asyncio
from collections.abc import Callable, Mapping

from codeagent.core.hosts import HostRule
from codeagent.net.addresses import (
    Address,
    Resolve,
    UpstreamProxy,
    is_private,
    is_public,
    looked_up,
    system_resolve,
    upstream_of,
)
from codeagent.sandbox.egress.grant import MOST_HOSTS, Grant, RequestRefused

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CONNECT_SECONDS = 10.0
_MOST_TRIED = 4
NOT_PUBLIC = (
    "it leads to an address that is not public; only the user can allow a private one: "
    "private_hosts under [network]"
)


class Internet:
    """Makes connections; whether one is allowed is decided by the very address it goes to."""

    def __init__(
        self,
        upstream: UpstreamProxy | None = None,
        resolve: Resolve = system_resolve,
        allowed: Callable[[Address], bool] = is_public,
        problem: str | None = None,
        private: tuple[HostRule, ...] = (),
    ) -> None:
        """With `upstream`, names that this machine cannot resolve are left to it, and so is the
        connection.

        `private`: the hosts that may have private addresses besides, at the ports of their rule
        only. `problem`: why nothing can be reached at all.
        """
        self._upstream = upstream
        self._problem = problem
        self._resolve = resolve
        self._allowed = allowed
        self._private = private

    async def connect(self, name: str, port: int, grant: Grant) -> Connection:
        """Connect to a host. Raises RequestRefused, also if there is no answer."""
        if self._problem is not None:
            raise RequestRefused(self._problem, 502)
        addresses = await self._addresses(name, port, grant)
        if self._upstream is not None:
            return await _through(self._upstream, name, port)
        for address in addresses[:_MOST_TRIED]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(str(address), port)
            except OSError:
                continue
        raise RequestRefused("no connection", 502)

    async def _addresses(self, name: str, port: int, grant: Grant) -> tuple[Address, ...]:
        if name not in grant.pinned:
            if len(grant.pinned) >= MOST_HOSTS:
                raise RequestRefused(f"more than {MOST_HOSTS} hosts in one command")
            grant.pinned[name] = await self._looked_up(name)
        addresses = grant.pinned[name]
        named = any(rule.matches(name, port) for rule in self._private)
        if not all(
            self._allowed(address) or (named and is_private(address)) for address in addresses
        ):
            raise RequestRefused(NOT_PUBLIC)
        return addresses

    async def _looked_up(self, name: str) -> tuple[Address, ...]:
        found = await looked_up(name, self._resolve)
        if not found and self._upstream is None:
            raise RequestRefused("no such name", 502)
        return found


def any_address(address: Address) -> bool:
    """Let every address through: for hosts that the user named for this."""
    return True


def internet_of(
    environment: Mapping[str, str],
    allowed: Callable[[Address], bool] = is_public,
    private: tuple[HostRule, ...] = (),
) -> Internet:
    """Return the Internet as this machine's environment reaches it; if that fails, nothing is
    reached another way."""
    try:
        return Internet(upstream_of(environment), allowed=allowed, private=private)
    except ValueError as error:
        return Internet(problem=str(error))


async def _through(proxy: UpstreamProxy, name: str, port: int) -> Connection:
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(2 * _CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                proxy.host, proxy.port, ssl=proxy.tls or None
            )
            login = (
                ""
                if proxy.authorization is None
                else f"Proxy-Authorization: {proxy.authorization}\r\n"
            )
            writer.write(
                f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{login}\r\n".encode(
                    "ascii"
                )
            )
            head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(None, 2)
        if len(words) < 2 or not words[1].startswith(b"2"):
            raise RequestRefused("this machine's own proxy refused it", 502)
    except BaseException as error:
        if writer is not None:
            writer.close()
        if isinstance(error, OSError | EOFError | asyncio.LimitOverrunError):
            raise RequestRefused("this machine's own proxy did not answer", 502) from error
        raise
    return reader, writer
