"""Which hosts a call may reach: rules for names and ports, and the one spelling of each that is understood."""

import ipaddress
import re
from functools import lru_cache
from typing import Protocol

from codeagent.core.dataclass import dataclass

WEB_PORTS = (80, 443)
"""What a rule without a port is for."""
NETWORK_MEANS = {
    "none": "nothing is reached",
    "allow-list": "only hosts that rules allow",
    "ask": "hosts that rules allow; you are asked about others",
    "open": "every public host",
}
"""What commands with network access may reach at each level."""
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LONGEST_NAME = 253
LOCALHOST = re.compile(r"localhost(?::([1-9][0-9]{0,4}))?", re.IGNORECASE)
"""This machine by its name, with a port; no name that a host is otherwise given by."""


@dataclass(frozen=True)
class HostRule:
    """A host name, all names below one, one address, or every public name."""

    name: str
    """In its one spelling; for `below`, what follows `*.`; empty for every name."""
    below: bool = False
    port: int | None = None
    """None: WEB_PORTS."""

    @classmethod
    def parse(cls, text: str) -> "HostRule":
        """`pypi.org`, `*.example.org`, `example.org:8443`, `*`, or an address. Raises ValueError with the reason."""
        if text == "*":
            return cls("")
        below = text.startswith("*.")
        name, port = split_port(text.removeprefix("*.").lower())
        if name is None or port == 0:
            raise ValueError(f"{text!r} is not a host: write example.org, *.example.org or example.org:8443")
        if below and is_address(name):
            raise ValueError(f"{text!r}: there is nothing below an address")
        if below and "." not in name:
            raise ValueError(f"{text!r} is too wide: name the domain, as in *.example.org")
        return cls(name, below, port)

    @classmethod
    def configured(cls, text: str) -> "HostRule":
        """As `parse`, and `localhost` or `localhost:8000`, which only the user names. Raises ValueError."""
        if (local := LOCALHOST.fullmatch(text)) is not None:
            return cls("localhost", port=None if local[1] is None else int(local[1]))
        return cls.parse(text)

    @property
    def is_any(self) -> bool:
        return not self.name

    def matches(self, name: str, port: int) -> bool:
        """`name` as `host_name` gives it. An address is matched only by a rule that is this address."""
        if not (port in WEB_PORTS if self.port is None else port == self.port):
            return False
        if self.is_any or self.below:
            return not is_address(name) and (self.is_any or name.endswith(f".{self.name}"))
        return name == self.name

    def covers(self, other: "HostRule") -> bool:
        """Everything that `other` lets through, this rule lets through, too."""
        ports = WEB_PORTS if other.port is None else (other.port,)
        if not all(port in WEB_PORTS if self.port is None else port == self.port for port in ports):
            return False
        if self.is_any:
            return not is_address(other.name)
        if self.below:
            return other.name.endswith(f".{self.name}") or (other.below and other.name == self.name)
        return not other.below and other.name == self.name


@lru_cache(maxsize=1024)
def host_rules(pattern: str) -> tuple[HostRule, ...]:
    """Read `pypi.org, *.pythonhosted.org`. Raises ValueError, with the reason, if one of them is not a host."""
    return tuple(HostRule.parse(host.strip()) for host in pattern.split(","))


def names_host(pattern: str, host: str) -> bool:
    """Whether the pattern lets `example.org:8443` through, or `example.org` at both WEB_PORTS."""
    name, port = split_port(host)
    ports = WEB_PORTS if port is None else (port,)
    rules = host_rules(pattern)
    return name is not None and all(any(rule.matches(name, each) for rule in rules) for each in ports)


class Reach(Protocol):
    """Decides what one command may reach of its hosts while it runs, and is told what became of its requests."""

    @property
    def is_off(self) -> bool:
        """The network was turned off: not another byte passes."""

    @property
    def is_open(self) -> bool:
        """Every public host may be reached, so it does not matter which of them a request is really for."""

    async def admit(self, name: str, port: int, *, named: bool) -> str | None:
        """Return why the request is refused, as a phrase; None if it is not. May wait for the user, for a bounded time.

        `named`: the command's own list names the host.
        """

    def note(self, host: str, refused: str | None) -> None:
        """Take note that requests to a host are passed on, or refused for this reason; once for each."""


def host_name(text: str) -> str | None:
    """The name or address in its one spelling: lower-case ASCII, no dot at the end; None for anything else.

    A name has two labels or more and ends in one that begins with a letter, so that no notation for addresses passes
    as a name. An address must be written as it is always written: `[…]` around version 6, no zone.
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


def is_address(name: str) -> bool:
    """Of a name that `host_name` gave."""
    return name.startswith("[") or name.rpartition(".")[2].isdigit()


def split_port(text: str) -> tuple[str | None, int | None]:
    """Split `host` or `host:port`: the name in its one spelling, None if not valid; the port, 0 if not valid."""
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
