"""Addresses of requests, parsed so strictly that two parsers cannot disagree, and normalised to one
spelling.

A host is a name with at least two labels, or an address in its usual form. Decimal, octal and
hexadecimal forms, user names, blanks and backslashes are refused.
"""

import re
from urllib.parse import quote, urljoin

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import LOCALHOST, WEB_PORTS, split_port

LONGEST_URL = 8_000
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#\\@\s]+)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?:#.*)?",
    re.I,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATH = "/-._~!$&'()*+,;=:@%"
_QUERY = _PATH + "?[]|"
_PORTS = {"http": 80, "https": 443}
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class WebUrl:
    """An HTTP address, without its fragment."""

    scheme: str
    host: str
    """The host as `core.hosts.host_name` returns it, or `localhost`."""
    port: int
    path: str
    """The path, which begins with `/` and is percent-encoded if needed."""
    query: str = ""
    """The query, without its `?`."""

    @classmethod
    def parse(cls, text: str) -> "WebUrl":
        """Parse an address. Raises ValueError, with the reason as a sentence for the model."""
        if len(text) > LONGEST_URL:
            raise ValueError(f"the address is longer than {LONGEST_URL} characters")
        if (match := _URL.fullmatch(text)) is None or _CONTROL.search(text):
            raise ValueError(
                f"{text[:200]!r} is not an address: write https://host/path, without a user name or blanks"
            )
        scheme, authority = match["scheme"].lower(), match["authority"]
        name, port = split_port(authority)
        if (local := LOCALHOST.fullmatch(authority)) is not None:
            name, port = "localhost", None if local[1] is None else int(local[1])
        if name is None or port == 0 or (port or 0) > 65_535:
            raise ValueError(
                f"{authority[:200]!r} is not a host: write a full name (xn--… if it is not ASCII) or a plain address"
            )
        path, query = (
            _encoded(match["path"] or "/", _PATH),
            _encoded((match["query"] or "")[1:], _QUERY),
        )
        return cls(scheme, name, port or _PORTS[scheme], path, query)

    def __str__(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return (
            f"{self.scheme}://{self.host}{port}{self.path}{'?' if self.query else ''}{self.query}"
        )

    @property
    def place(self) -> str:
        """The host as rules and the user write it, with its port unless it is the default."""
        return self.host if self.port in WEB_PORTS else f"{self.host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def joined(self, reference: str) -> "WebUrl":
        """Return the address that a reference on this page leads to. Raises ValueError."""
        return WebUrl.parse(urljoin(str(self), reference.strip()))


def _encoded(text: str, safe: str) -> str:
    return quote(_BAD_PERCENT.sub("%25", text), safe=safe)
