"""Sends the requests of tools: only to checked addresses, within limits, with redirects handled
here.

A host is resolved once per request, all its addresses are checked, and only these are connected to;
a redirect is a request of its own. This module does not know about approval: a redirect to another
host is returned, not followed.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import HostRule, is_address
from codeagent.core.tool import Denied, Failed, InvalidArgs, TimedOut
from codeagent.net.addresses import (
    Address,
    Resolve,
    UpstreamProxy,
    is_public,
    looked_up,
    system_resolve,
    upstream_of,
)
from codeagent.net.web.headers import ResponseHeaders
from codeagent.net.web.url import WebUrl

if TYPE_CHECKING:
    from codeagent.net.http import Route

MOST_REDIRECTS = 5
LARGEST_BODY = 8 << 20
"""Bytes read of a response, after decoding."""
LARGEST_REQUEST = 8 << 20
SECONDS = 60.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LATER = "try again later, unless what was sent must not arrive twice"
_HARMLESS = frozenset(
    {"accept", "accept-language", "user-agent", "range", "if-none-match", "if-modified-since"}
)
"""Headers that another origin of the same host may get; all others may be credentials."""


@dataclass(frozen=True)
class WebRequest:
    """A request as it is sent, with its secrets."""

    method: str
    url: WebUrl
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers, checked with `checked_headers`."""
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class WebResponse:
    """What came back."""

    url: WebUrl
    """The address of the last request, after redirects."""
    status: int
    headers: ResponseHeaders
    body: bytes = field(repr=False)
    complete: bool = True
    """False if the body was longer than requested."""
    redirect: WebUrl | None = None
    """Where it leads if it was not followed."""


Follow = Callable[[WebUrl], bool]
"""Says whether a redirect to this address of the same host may be followed."""


class _Enough(Exception):
    """The body has reached its limit, so the rest is not read."""


class WebClient:
    """Sends requests, each over a connection of its own."""

    def __init__(
        self,
        environment: Mapping[str, str],
        private: Iterable[str] = (),
        resolve: Resolve = system_resolve,
        allowed: Callable[[Address], bool] = is_public,
        remedy: str = "the user may add {place} to web.private_hosts in their configuration",
    ) -> None:
        """`private`: hosts that the user allows to be at addresses that are not public.

        `remedy`: how the user can allow `{place}`, a host with its port. Raises ValueError if one
        is not a host.
        """
        self._private = tuple(map(HostRule.configured, private))
        self._environment = environment
        self._resolve = resolve
        self._allowed = allowed
        self._remedy = remedy

    async def send(
        self,
        request: WebRequest,
        *,
        follow: Follow = lambda url: True,
        largest: int = LARGEST_BODY,
        seconds: float = SECONDS,
    ) -> WebResponse:
        """Send a request and return the last response, of any status. Raises Denied, Failed,
        TimedOut, InvalidArgs."""
        if request.body is not None and len(request.body) > LARGEST_REQUEST:
            raise InvalidArgs(
                f"the body is larger than {LARGEST_REQUEST >> 20} MiB; nothing was sent"
            )
        try:
            async with asyncio.timeout(seconds):
                return await self._followed(request, follow, largest)
        except TimeoutError:
            raise TimedOut(
                f"{request.url.place} did not answer in full within {seconds:g} s; {_LATER}"
            ) from None

    async def _followed(self, request: WebRequest, follow: Follow, largest: int) -> WebResponse:
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._once(request, largest)
            target = response.redirect
            if target is None or request.method not in ("GET", "HEAD"):
                return response
            downgrade = (request.url.scheme, target.scheme) == ("https", "http")
            if target.place != request.url.place or downgrade or not follow(target):
                return response
            headers = request.headers
            if target.origin != request.url.origin:
                headers = {
                    name: value for name, value in headers.items() if name.lower() in _HARMLESS
                }
            request = WebRequest(request.method, target, headers, request.body)
        raise Failed(
            f"more than {MOST_REDIRECTS} redirects, the last one to {target}; use another address"
        )

    async def _once(self, request: WebRequest, largest: int) -> WebResponse:
        from codeagent.net.http import (
            ProxyError,
            TransferError,
        )  # libcurl is loaded with the first request

        route = await self._route(request.url)
        place = request.url.place
        try:
            return await self._exchange(request, route, largest)
        except ValueError as error:
            raise InvalidArgs(f"the request cannot be sent: {error}") from None
        except ProxyError as error:
            refused = f"this machine's own proxy {error.proxy} refused the connection to {place}"
            raise Failed(
                f"{refused}; nothing was read; only the user can change the proxy"
            ) from None
        except TimeoutError:
            raise TimedOut(f"{place} did not answer in time; {_LATER}") from None
        except (OSError, TransferError) as error:
            raise Failed(f"no answer from {place}: {_why_not(error)}") from None

    async def _exchange(self, request: WebRequest, route: "Route", largest: int) -> WebResponse:
        from codeagent.net.http import HttpClient  # as above

        http = HttpClient(idle=SECONDS)
        body, size, status, headers = [], 0, 0, ResponseHeaders({})
        complete = False
        try:
            sending = http.send(
                request.method, str(request.url), request.headers, request.body, route
            )
            async with sending as response:
                status, headers = response.status, ResponseHeaders(response.headers)
                while chunk := await response.read():
                    body.append(chunk[: largest - size])
                    size += len(chunk)
                    if size > largest:
                        raise _Enough
                complete = True
        except _Enough:
            pass
        finally:
            await http.close()
        return WebResponse(
            request.url,
            status,
            headers,
            b"".join(body),
            complete=complete,
            redirect=_redirect(request.url, status, headers),
        )

    async def _route(self, url: WebUrl) -> "Route":
        """Return the route to the host: its addresses, resolved once and checked. Raises Denied,
        Failed."""
        from codeagent.net.http import Route  # as above

        proxy, private = self._proxy(), self._is_private(url)
        found = await looked_up(url.host, self._resolve)
        if not found and (proxy is None or private):
            raise Failed(f"no such host: {url.host}; nothing was sent; check the name")
        if private:
            return Route(found)
        self._refuse(url, found)
        return Route(found, proxy)

    def refuse_address(self, url: WebUrl) -> None:
        """Raise Denied for an address that is not public, as far as it is known without asking for
        the name."""
        if not self._is_private(url):
            self._refuse(url, [ip_address(url.host.strip("[]"))] if is_address(url.host) else [])

    def _is_private(self, url: WebUrl) -> bool:
        """Whether the user allows the host to be at any address."""
        return any(rule.matches(url.host, url.port) for rule in self._private)

    def _refuse(self, url: WebUrl, found: Iterable[Address]) -> None:
        if url.host == "localhost" or not all(map(self._allowed, found)):
            remedy = self._remedy.format(place=url.place)
            raise Denied(
                f"{url.place} leads to an address that is not public, so nothing was sent; {remedy}"
            )

    def _proxy(self) -> UpstreamProxy | None:
        try:
            return upstream_of(self._environment)
        except ValueError as error:
            raise Failed(f"{error}; nothing was sent") from None


def _why_not(error: Exception) -> str:
    """Say in one line why there is no answer, that nothing of it was kept, and what to do next."""
    said = error.args[-1] if error.args else type(error).__name__
    match error:
        case ssl.SSLError():
            return f"no secure connection ({said}); nothing was read; check the address, or ask the user"
        case socket.gaierror():
            return f"it cannot be reached ({said}); nothing was read; check the address"
        case ConnectionRefusedError():
            return "it refused the connection; nothing was read; check the address and the port"
        case OSError():
            return f"the connection ended too early ({said}); what had come was dropped; {_LATER}"
        case _:
            return f"{said}; what had come was dropped; use another address, or ask the user"


def _redirect(url: WebUrl, status: int, headers: ResponseHeaders) -> WebUrl | None:
    """Return where a response redirects to. Raises Failed for anything but a web address."""
    location = headers.get("location")
    if status not in _REDIRECTS or not location:
        return None
    try:
        return url.joined(location)
    except ValueError as error:
        raise Failed(
            f"{url.place} redirects to an address that cannot be followed: {error}"
        ) from None
