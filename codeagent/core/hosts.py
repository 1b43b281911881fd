"""Rules for the hosts that a call may reach, by name and port, and the canonical spelling of
names."""

import ipaddress
import re
from functools import lru_cache
from typing import Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex

WEB_PORTS = (80, 443)
"""The ports that a rule without a port covers."""
NETWORK_MEANS = {
    "none": "nothing is reached",
    "allow-list": "only hosts that rules allow",
    "ask": "hosts that rules allow; you are asked about others",
    "open": "every public host",
}
"""What commands with network access may reach at each level."""
PACKAGE_REGISTRIES = {
    "python": ("pypi.org", "files.pythonhosted.org"),
    "npm": ("registry.npmjs.org",),
    "yarn": ("registry.yarnpkg.com",),
    "rust": ("index.crates.io", "static.crates.io", "crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
    "debian": ("deb.debian.org", "security.debian.org"),
    "ubuntu": ("archive.ubuntu.com", "security.ubuntu.com"),
}
"""Hosts that only work together, such as a package index and its files: asking about one asks about
all."""
_LABEL = lazy_regex(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PORT = lazy_regex(r"[1-9][0-9]{0,4}")
_LONGEST_NAME = 253
LOCALHOST = lazy_regex(r"localhost(?::([1-9][0-9]{0,4}))?", re.IGNORECASE)
"""This machine by its name, with a port."""


@dataclass(frozen=True)
class HostRule:
    """A host name, all names below one, one address, or every public name."""

    name: str
    """In canonical spelling; for `below`, what follows `*.`; empty for every name."""
    below: bool = False
    port: int | None = None
    """None: WEB_PORTS."""

    @classmethod
    def parse(cls, text: str) -> "HostRule":
        """Parse `pypi.org`, `*.example.org`, `example.org:8443`, `*` or an address. Raises
        ValueError."""
        if text == "*":
            return cls("")
        below = text.startswith("*.")
        name, port = split_port(text.removeprefix("*.").lower())
        if name is None or port == 0:
            raise ValueError(
                f"{text!r} is not a host: write example.org, *.example.org or example.org:8443"
            )
        if below and is_address(name):
            raise ValueError(f"{text!r}: there is nothing below an address")
        if below and "." not in name:
            raise ValueError(f"{text!r} is too wide: name the domain, as in *.example.org")
        return cls(name, below, port)

    @classmethod
    def configured(cls, text: str) -> "HostRule":
        """Parse as `parse` does, and accept `localhost` and `localhost:8000`, for the user alone.
        Raises ValueError."""
        if (local := LOCALHOST.fullmatch(text)) is not None:
            return cls("localhost", port=None if local[1] is None else int(local[1]))
        return cls.parse(text)

    @property
    def is_any(self) -> bool:
        return not self.name

    @property
    def ports(self) -> tuple[int, ...]:
        return WEB_PORTS if self.port is None else (self.port,)

    def matches(self, name: str, port: int) -> bool:
        """Whether the rule matches `name`, as returned by `host_name`. An address is matched only
        by a rule for it."""
        if port not in self.ports:
            return False
        if self.is_any or self.below:
            return not is_address(name) and (self.is_any or name.endswith(f".{self.name}"))
        return name == self.name

    def covers(self, other: "HostRule") -> bool:
        """Whether this rule allows everything that `other` allows."""
        if not set(other.ports) <= set(self.ports):
            return False
        if self.is_any:
            return not is_address(other.name)
        if self.below:
            return other.name.endswith(f".{self.name}") or (other.below and other.name == self.name)
        return not other.below and other.name == self.name


@lru_cache(maxsize=1024)
def host_rules(pattern: str) -> tuple[HostRule, ...]:
    """Parse `pypi.org, *.pythonhosted.org`. Raises ValueError, with the reason, if one of them is
    not a host."""
    return tuple(HostRule.parse(host.strip()) for host in pattern.split(","))


def names_host(pattern: str, host: str) -> bool:
    """Whether the pattern allows `example.org:8443`, or `example.org` at both WEB_PORTS."""
    name, port = split_port(host)
    ports = WEB_PORTS if port is None else (port,)
    rules = host_rules(pattern)
    return name is not None and all(
        any(rule.matches(name, each) for rule in rules) for each in ports
    )


class Reach(Protocol):
    """Decides which hosts a command may reach while it runs, and records what became of its
    requests."""

    @property
    def is_off(self) -> bool:
        """Whether the network was turned off: not another byte passes."""

    @property
    def is_open(self) -> bool:
        """Whether every public host may be reached, so that it does not matter which one a request
        is really for."""

    async def admit(self, name: str, port: int, *, named: bool) -> str | None:
        """Return why the request is refused, as a phrase; None if it is not. May wait for the user,
        for a bounded time.

        `named`: whether the command's own list names the host.
        """

    def note(self, host: str, refused: str | None) -> None:
        """Record that requests to a host are passed on, or refused for this reason; once for
        each."""


def host_name(text: str) -> str | None:
    """Return the canonical name or address: lower-case ASCII, no dot at the end; None for anything
    else.

    A name has at least two labels, and the last begins with a letter, so that no notation for
    addresses passes as a name. An address must be in its usual form: `[…]` around version 6, no
    zone.
    """
    if not text.isascii() or len(text) > _LONGEST_NAME:
        return None
    name = text.lower()
    if name.startswith("[") and name.endswith("]"):
        return name if _is_plain(name[1:-1], ipaddress.IPv6Address) else None
    if _is_plain(name, ipaddress.IPv4Address):
        return name
    labels = name.split(".")
    if len(labels) < 2 or not all(map(_LABEL.fullmatch, labels)) or not labels[-1][0].isalpha():
        return None
    return name


def is_loopback(host: str) -> bool:
    """Whether the host, as in an address of the web, is this machine."""
    return host in ("localhost", "::1", "[::1]") or (host.startswith("127.") and is_address(host))


def is_address(name: str) -> bool:
    """Whether a name returned by `host_name` is an address."""
    return name.startswith("[") or name.rpartition(".")[2].isdigit()


def split_port(text: str) -> tuple[str | None, int | None]:
    """Split `host` or `host:port`: the canonical name, None if not valid; the port, 0 if not
    valid."""
    name, colon, digits = text.rpartition(":")
    if not colon or text.endswith("]"):
        return host_name(text), None
    port = int(digits) if _PORT.fullmatch(digits) else 0
    return host_name(name), port if port <= 65_535 else 0


def _is_plain(text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> bool:
    try:
        return str(kind(text)) == text and "%" not in text
    except ValueError:
        return False
