"""Names and addresses: who answers for a name, which addresses are public, and this machine's own
proxy."""

import asyncio
import base64
import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from urllib.parse import unquote, urlsplit

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import is_address

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str], Awaitable[tuple[Address, ...]]]
"""Returns all addresses of a name, version 4 and 6. Raises OSError."""
_RESOLVE_SECONDS = 10.0
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
"""The special-purpose registries of IANA, and the address at which one cloud answers its machines
about themselves.

Version 6 forms that carry a version 4 address (mapped, translated, 6to4, Teredo) are among them or
not in _GLOBAL.
"""
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    )
)
_CLOUD = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254")))
"""Private addresses at which clouds answer their machines about themselves."""
_GLOBAL = ipaddress.IPv6Network("2000::/3")


def is_public(address: Address) -> bool:
    """Tell whether an address is public: not private, local, shared, multicast, reserved or this
    machine's own."""
    if isinstance(address, ipaddress.IPv6Address) and (
        address not in _GLOBAL or address.scope_id is not None
    ):
        return False
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return not is_ours(address)


def is_private(address: Address) -> bool:
    """Tell whether an address belongs to a private network, and not to this machine or to its
    link."""
    private = any(address in network for network in _PRIVATE if network.version == address.version)
    return (
        private
        and address not in _CLOUD
        and getattr(address, "scope_id", None) is None
        and not is_ours(address)
    )


def is_ours(address: Address) -> bool:
    """Tell whether this machine has the address: only then can a socket be bound to it. True when
    in doubt."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True


@dataclass(frozen=True)
class UpstreamProxy:
    """The proxy through which this machine itself reaches the Internet."""

    host: str
    port: int
    tls: bool
    authorization: str | None = field(default=None, repr=False)
    """`Basic …`."""


def upstream_of(environment: Mapping[str, str]) -> UpstreamProxy | None:
    """Return the proxy that the environment names. Raises ValueError if it cannot be used."""
    names = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    address = next((environment[name] for name in names if environment.get(name, "").strip()), None)
    if address is None:
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the proxy in https_proxy is not an http:// or https:// address")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ValueError("the proxy in https_proxy has an unreadable port") from error
    return UpstreamProxy(parts.hostname, port, parts.scheme == "https", authorization)


async def system_resolve(name: str) -> tuple[Address, ...]:
    """Resolve a name as this machine does."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


async def looked_up(name: str, resolve: Resolve = system_resolve) -> tuple[Address, ...]:
    """Return all addresses of a name that `host_name` gave, or the address that it is; empty if
    there are none."""
    if is_address(name):
        return (ipaddress.ip_address(name.strip("[]")),)
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            return await resolve(name)
    except (OSError, UnicodeError, ValueError):
        return ()
