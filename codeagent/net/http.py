"""Sends requests over libcurl on the event loop, and hands their responses on as they come.

libcurl keeps the connections, finds the way through proxies and verifies certificates. Only what a
request of ours needs is switched on: no redirects, no cookies, and HTTP/1.1 only, so that leaving a
response early closes its socket.
"""

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pycurl

from codeagent import __version__
from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import is_address
from codeagent.core.sanitize import one_line
from codeagent.net.addresses import Address, UpstreamProxy

_CONNECT_SECONDS = 30.0
_MOST_HELD = 1 << 20
"""Bytes of a response that may wait for their reader; beyond that, the server has to wait."""
_LAST_BYTES_SECONDS = 0.2
_KEEPALIVE_SECONDS = 60
_LOOPBACK = "localhost,127.0.0.0/8,::1,0.0.0.0,::"
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep the certificates they trust: Debian, Fedora, older Fedora, SUSE, and
others."""
_SUPPRESS_CONNECT_HEADERS = 265
_QUICK_EXIT = 322
"""Options that pycurl has no names for."""
_PROXY = {5, 97}
_TLS = {35, 53, 54, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91}
_BROKEN = {18, 52, 55, 56}
"""libcurl's codes for a connection that ended early: in the body, before the head, while sending,
while receiving."""
_HANG_UPS = ("reset by peer", "unexpected eof", "ssl_error_syscall")
"""What it says of a connection that ended during the handshake, which it reports as a failure of
TLS."""
_MEANS = {
    8: "what it sent is not HTTP",
    23: "what it sent could not be unpacked",
    27: "this machine has too little memory for it",
    61: "what it sent could not be unpacked",
    100: "the head of its answer is too large",
}
"""libcurl's codes that no exception of the system stands for; 23 is what it calls a failure to
unpack on the way."""
_UNPACKS_TO_TOO_MUCH = "what it sent unpacks to more than can be taken in at once"
_LONGEST = 200
_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}


class ProxyError(Exception):
    """A proxy did not let the request through; `proxy` is its address without its password."""

    def __init__(self, proxy: str, said: str, status: int | None = None) -> None:
        """`status` is the proxy's answer, if it gave one."""
        super().__init__(said)
        self.proxy = proxy
        self.status = status


class TransferError(Exception):
    """A transfer failed for a reason that the system has no exception for; the text is a phrase
    about the server."""


@dataclass(frozen=True)
class Route:
    """The one way that a request may take; the environment has no say in it."""

    addresses: tuple[Address, ...]
    """Of the host, checked already: no other is connected to, whatever the name leads to by now."""
    proxy: UpstreamProxy | None = None
    """Makes the connection in our place, by the host's name."""


class Response:
    """A response whose head has come, and whose body is read as it comes."""

    def __init__(
        self, pool: pycurl.AsyncCurlMulti, curl: pycurl.Curl, idle: float, proxy: str
    ) -> None:
        """Begin the transfer. `idle` is how long the server may be silent, in seconds; `proxy` is
        empty if there is none."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """By their names in lower case."""
        self._curl = curl
        self._idle = idle
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self._chunks: list[bytes] = []
        self._held = 0
        self._paused = False
        self._head_begun = self._begun = False
        self._waiter: asyncio.Future[None] | None = None
        self._heard = self._loop.time()
        self._sent = 0
        self._timer = self._loop.call_later(idle, self._check_silence)
        curl.setopt(pycurl.HEADERFUNCTION, self._take_header)
        curl.setopt(pycurl.WRITEFUNCTION, self._take)
        self._pool = pool
        self._done = pool.add_handle(curl)
        self._done.add_done_callback(self._wake)

    @property
    def on_new_connection(self) -> bool:
        return bool(self._curl.getinfo(pycurl.NUM_CONNECTS))

    async def begin(self) -> None:
        """Wait for the head. Raises what `HttpClient.send` names."""
        while not self._begun:
            if self._done.done():
                self._end()
                raise ConnectionResetError("the connection was closed before the answer")
            await self._wait()

    async def read(self) -> bytes:
        """Return what has come, waiting for it if need be; nothing at the end. Raises what `send`
        names."""
        while not self._chunks:
            if self._done.done():
                self._end()
                return b""
            await self._wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            try:
                self._curl.pause(pycurl.PAUSE_CONT)
            except pycurl.error:
                raise TransferError(_UNPACKS_TO_TOO_MUCH) from None
        return data

    async def finish(self) -> None:
        """Read the rest of a response whose answer is complete: only then can its connection be
        used again.

        A server that keeps the response open is given a fifth of a second.
        """
        with suppress(Exception):
            async with asyncio.timeout(_LAST_BYTES_SECONDS):
                while await self.read():
                    pass

    def close(self) -> None:
        self._timer.cancel()
        if not self._done.done():
            self._pool.remove_handle(self._curl)
        elif not self._done.cancelled():
            self._done.exception()  # marked as seen: a reader that left early does not ask for it
        self._curl.close()

    def _end(self) -> None:
        """Return if the transfer ended well. Raises what went wrong."""
        if self._done.cancelled():
            raise ConnectionAbortedError("the connections were closed")
        if (error := self._done.exception()) is not None:
            raise _failure(self._curl, self._proxy, *error.args)

    async def _wait(self) -> None:
        """Wait for the next piece or the end. Raises TimeoutError."""
        self._waiter = self._loop.create_future()
        self._heard = self._loop.time()
        try:
            await self._waiter
        finally:
            if self._waiter.done() and not self._waiter.cancelled():
                self._waiter.exception()  # marked as seen, if the wait is cancelled at the same time
            self._waiter = None

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _check_silence(self) -> None:
        """End a wait that took the whole limit. While the request is still being sent, nobody is
        silent."""
        now = self._loop.time()
        sent = int(self._curl.getinfo(pycurl.SIZE_UPLOAD_T))
        if self._waiter is None or sent != self._sent:
            self._heard = now
            self._sent = sent
        left = self._heard + self._idle - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError("the server was silent"))

    def _take_header(self, line: bytes) -> None:
        """Take one line of a head: the status, a field, or the empty one that ends it."""
        if not (self._head_begun or self._begun):
            self._head_begun = True
            self.status = int(line.split(maxsplit=2)[1])
            self.headers = {}
        elif line in (b"\r\n", b"\n"):
            self._head_begun = False
            self._begun = self._begun or self.status >= 200
            self._wake()
        elif not self._begun:
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def _take(self, data: bytes) -> int | None:
        """Take a piece of the body; if too much is waiting already, libcurl keeps it and stops
        reading."""
        if self._held >= _MOST_HELD:
            self._paused = True
            return pycurl.WRITEFUNC_PAUSE
        self._chunks.append(data)
        self._held += len(data)
        self._wake()
        return None


class HttpClient:
    """A pool of connections for one event loop at a time; they stay open between requests, until
    `close`."""

    def __init__(self, idle: float) -> None:
        """`idle` is how long a server may be silent, in seconds."""
        self._idle = idle
        self._pool: pycurl.AsyncCurlMulti | None = None

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        route: Route | None = None,
    ) -> AsyncIterator[Response]:
        """Send the request; entered once the response begins, whatever its status.

        `route` None: as the environment says, over connections that are kept.

        Leaving it early, by an exception, closes the socket. Raises ValueError for an address that
        is not one of HTTP, or a header that cannot be sent; ssl.SSLError, socket.gaierror,
        TimeoutError, ConnectionError, ProxyError and TransferError, here and when the response is
        read.
        """
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url} is not an address that begins with http:// or https://")
        if (
            bad := next((name for name, value in headers.items() if not _sendable(value)), None)
        ) is not None:
            raise ValueError(f"the header {bad} has characters that cannot be sent; check the key")
        if self._pool is None:
            self._pool = pycurl.AsyncCurlMulti()
        pool, curl = self._pool, pycurl.Curl()
        proxy = _proxy(url, os.environ) if route is None else _proxy_url(route.proxy)
        options = _options(url, headers, self._idle, proxy) | _method(method, body)
        for option, value in (options if route is None else options | _pinned(url, route)).items():
            curl.setopt(option, value)
        response = Response(pool, curl, self._idle, proxy)
        try:
            await response.begin()
            yield response
            await response.finish()
        finally:
            response.close()

    async def close(self) -> None:
        """Close the connections; the next request opens a new one. Idempotent."""
        pool = self._pool
        self._pool = None
        if pool is not None:
            await pool.aclose()


@asynccontextmanager
async def http_client(seconds: float) -> AsyncIterator[HttpClient]:
    """Yield a client whose requests may take `seconds` together, and close it. Raises TimeoutError."""
    client = HttpClient(seconds)
    try:
        async with asyncio.timeout(seconds):
            yield client
    finally:
        await client.close()


def _sendable(value: str) -> bool:
    """Tell whether a header may have this value: above all, it has no line break."""
    return value.isascii() and value.isprintable()


def _options(url: str, headers: Mapping[str, str], idle: float, proxy: str) -> dict[int, Any]:
    """Return the request and its rules, for libcurl, except the method and the body."""
    # With an `expect` of its own, libcurl would make a large body wait for permission, and it calls
    # any body a form.
    unsent = (
        ["expect:"]
        if any(name.lower() == "content-type" for name in headers)
        else ["expect:", "content-type:"]
    )
    pairs = headers.items()
    options = {
        pycurl.URL: url.encode(),
        # `name;` sends a header without a value
        pycurl.HTTPHEADER: [
            *unsent,
            *(f"{name}: {value}" if value else f"{name};" for name, value in pairs),
        ],
        pycurl.USERAGENT: f"codeagent/{__version__}",
        pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
        pycurl.ACCEPT_ENCODING: "",
        pycurl.CONNECTTIMEOUT_MS: int(min(idle, _CONNECT_SECONDS) * 1000),
        pycurl.NOSIGNAL: 1,
        pycurl.TCP_KEEPALIVE: 1,
        pycurl.TCP_KEEPIDLE: _KEEPALIVE_SECONDS,
        pycurl.TCP_KEEPINTVL: _KEEPALIVE_SECONDS,
        pycurl.PROXY: proxy,
        pycurl.NOPROXY: _unproxied(os.environ),
        _SUPPRESS_CONNECT_HEADERS: 1,
        _QUICK_EXIT: 1,
    }
    if any(urlsplit(address).scheme == "https" for address in (url, proxy)):
        file, folder = trusted(os.environ)
        options |= {pycurl.CAINFO: file, pycurl.CAPATH: folder}
        options |= {pycurl.PROXY_CAINFO: file, pycurl.PROXY_CAPATH: folder}
    return options


def _method(method: str, body: bytes | None) -> dict[int, Any]:
    match method, body:
        case "POST", _:
            return {pycurl.POSTFIELDS: body or b""}
        case "HEAD", _:
            return {pycurl.NOBODY: 1}
        case _, None:
            return {pycurl.CUSTOMREQUEST: method}
        case _:
            return {pycurl.POSTFIELDS: body, pycurl.CUSTOMREQUEST: method}


def _pinned(url: str, route: Route) -> dict[int, Any]:
    """Return what holds a request to its route: libcurl resolves nothing, and opens no socket to
    another address."""
    options: dict[int, Any] = {
        pycurl.PATH_AS_IS: 1,
        pycurl.FRESH_CONNECT: 1,
        pycurl.FORBID_REUSE: 1,
    }
    if route.proxy is not None:
        options[pycurl.NOPROXY] = ""
        options[pycurl.HTTPPROXYTUNNEL] = 1
        if route.proxy.authorization is not None:
            options[pycurl.PROXYHEADER] = [f"Proxy-Authorization: {route.proxy.authorization}"]
            options[pycurl.HEADEROPT] = pycurl.HEADER_SEPARATE
        return options
    parts = urlsplit(url)
    name, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    allowed = frozenset(route.addresses)

    def open_socket(purpose: int, address: Any) -> Any:
        if ipaddress.ip_address(address.addr[0]) not in allowed:
            return pycurl.SOCKET_BAD
        made = socket.socket(address.family, address.socktype, address.protocol)
        asyncio.get_running_loop().call_soon(
            made.close
        )  # pycurl takes a duplicate once this returns
        return made

    options |= {pycurl.PROXY: "", pycurl.NOPROXY: "*", pycurl.OPENSOCKETFUNCTION: open_socket}
    if not is_address(f"[{name}]" if ":" in name else name):
        listed = ",".join(f"[{one}]" if one.version == 6 else str(one) for one in route.addresses)
        options[pycurl.RESOLVE] = [f"{name}:{port}:{listed}"]
    return options


def _proxy_url(proxy: UpstreamProxy | None) -> str:
    if proxy is None:
        return ""
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    return f"{'https' if proxy.tls else 'http'}://{host}:{proxy.port}"


def _proxy(url: str, environment: Mapping[str, str]) -> str:
    """Return the proxy that the environment names for this kind of address; empty if none."""
    scheme = urlsplit(url).scheme
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    return next((environment[name] for name in names if environment.get(name)), "")


def _unproxied(environment: Mapping[str, str]) -> str:
    """Return the hosts that are reached without a proxy: this machine, and those the environment
    names."""
    named = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    return "*" if named.strip() == "*" else ",".join(filter(None, (named, _LOOPBACK)))


def trusted(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the file and the folder of the certificates to trust: the environment's, else the
    system's.

    A system that has none is given Mozilla's, which come with the `certifi` package.
    """
    file, folder = environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR")
    if file or folder:
        return file or None, folder or None
    found = next((bundle for bundle in _BUNDLES if Path(bundle).is_file()), None)
    if found is None:
        import certifi  # rarely needed

        found = certifi.where()
    return found, None


def _failure(curl: pycurl.Curl, proxy: str, code: int, said: str) -> Exception:
    """Translate libcurl's code into the system's own exception for the same failure, in one line of
    visible text."""
    said = one_line(said, _LONGEST)
    number, answer = curl.getinfo(pycurl.OS_ERRNO), curl.getinfo(pycurl.HTTP_CONNECTCODE)
    proxied = bool(curl.getinfo(pycurl.USED_PROXY))
    if proxy:
        shown = urlsplit(proxy if "://" in proxy else f"//{proxy}").netloc.rpartition("@")[2]
        said = said.replace(proxy, shown)
        if proxied and answer >= 300:
            return ProxyError(shown, f"it answered with status {answer}", answer)
        if code in _PROXY or (proxied and code == pycurl.E_COULDNT_CONNECT):
            return ProxyError(shown, said)
    match code:
        case pycurl.E_COULDNT_RESOLVE_HOST:
            return socket.gaierror(socket.EAI_NONAME, said)
        case pycurl.E_COULDNT_CONNECT if number in _UNREACHABLE:
            return socket.gaierror(number, said)
        case pycurl.E_COULDNT_CONNECT if number == errno.ECONNREFUSED:
            return ConnectionRefusedError(number, said)
        case pycurl.E_OPERATION_TIMEDOUT:
            return TimeoutError(said)
    if code in _BROKEN or (code in _TLS and any(words in said.lower() for words in _HANG_UPS)):
        return ConnectionResetError(said)
    if code in _TLS:
        return ssl.SSLError(code, said or f"error {code} of libcurl")
    means = _MEANS.get(code, f"the transfer failed with libcurl's error {code}")
    return TransferError(f"{means} ({said})" if said else means)
