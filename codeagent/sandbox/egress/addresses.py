"""Which addresses belong to the public Internet, and to nobody nearer."""

import errno
import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
        "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    )
)  # fmt: skip
"""The special-purpose registries of IANA, and the address at which one cloud answers its machines about themselves.

Version 6 forms that carry a version 4 address (mapped, translated, 6to4, Teredo) are among them or not in _GLOBAL.
"""
_GLOBAL = ipaddress.IPv6Network("2000::/3")


def is_public(address: Address) -> bool:
    """Nothing private, local, shared, multicast, reserved or of documentation, nor this machine itself."""
    if isinstance(address, ipaddress.IPv6Address) and (address not in _GLOBAL or address.scope_id is not None):
        return False
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return not is_ours(address)


def is_ours(address: Address) -> bool:
    """Whether this machine has the address: only then can a socket be bound to it. True in doubt."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True
