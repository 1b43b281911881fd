"""The head of a request to the proxy, read strictly: what two readers could read in two ways is refused."""

import base64
import binascii
import re
from dataclasses import dataclass

from codeagent.core.hosts import split_port
from codeagent.sandbox.egress.refused import Refused

LONGEST_HEAD = 32 * 1024
USER = "codeagent"
"""The name beside the token in a proxy's address."""
_MOST_HEADERS = 100
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(rb"[!-~]+")
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")
_ONCE = (b"host", b"content-length", b"transfer-encoding", b"proxy-authorization")
_BETWEEN_TWO = frozenset({
    b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"trailer", b"upgrade",
    b"http2-settings",
})  # fmt: skip
"""Headers for the next reader only; and those that `Connection` names."""


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
        """What it shows for a credential."""
        kind, _, encoded = (self.one(b"proxy-authorization") or b"").partition(b" ")
        if kind.lower() != b"basic":
            return None
        try:
            user, _, token = base64.b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return token if user == USER else None

    def one(self, name: bytes) -> bytes | None:
        return next((value for found, value in self.headers if found == name), None)

    def where(self) -> tuple[str, int, bytes]:
        """Host and port in their one spelling, and the path; empty for a tunnel. Raises Refused.

        A Host header must say the same host.
        """
        name, port, path = self._tunnel() if self.is_connect else self._plain()
        said = self.one(b"host")
        if said is None and not self.is_connect:
            raise Refused("a request without a Host header", 400)
        if said is not None:
            host, host_port = split_port(said.decode("latin-1"))
            default = port if self.is_connect else 80
            if (host, default if host_port is None else host_port) != (name, port):
                raise Refused("the Host header names another host", 400)
        return name, port, path

    def onward(self, name: str, port: int, path: bytes) -> bytes:
        """The head for the server itself; the connection is for this one request."""
        dropped = _BETWEEN_TWO | {b"host"} | {word.strip().lower() for word in self._connection_words()}
        lines = [
            self.method + b" " + path + b" HTTP/1.1",
            b"Host: " + (name if port == 80 else f"{name}:{port}").encode(),
        ]
        lines += [found + b": " + value for found, value in self.headers if found not in dropped]
        return b"\r\n".join([*lines, b"Connection: close", b"", b""])

    def body_size(self) -> int | None:
        """Bytes; None where it comes in chunks. Raises Refused."""
        size, coding = self.one(b"content-length"), self.one(b"transfer-encoding")
        if coding is not None:
            if size is not None or coding.lower() != b"chunked":
                raise Refused("a body whose end is not clear", 400)
            return None
        if size is not None and not re.fullmatch(rb"[0-9]{1,15}", size):
            raise Refused("a body whose end is not clear", 400)
        return int(size or 0)

    def _connection_words(self) -> list[bytes]:
        protected = (b"content-length", b"transfer-encoding")
        named = [value for found, value in self.headers if found == b"connection"]
        return [word for value in named for word in value.split(b",") if word.strip().lower() not in protected]

    def _tunnel(self) -> tuple[str, int, bytes]:
        name, port = split_port(self.target.decode("ascii"))
        if name is None or not port:
            raise Refused("no host name and port that can be read", 400)
        return name, port, b""

    def _plain(self) -> tuple[str, int, bytes]:
        scheme, separator, rest = self.target.partition(b"://")
        if not separator or scheme.lower() != b"http":
            raise Refused("only http:// and CONNECT are understood", 400)
        end = re.search(rb"[/?#]", rest)
        authority, path = (rest, b"") if end is None else (rest[: end.start()], rest[end.start() :])
        name, port = split_port(authority.decode("ascii"))
        if name is None or port == 0 or b"#" in path:
            raise Refused("no host name that can be read", 400)
        return name, 80 if port is None else port, path if path.startswith(b"/") else b"/" + path


def parse_request(head: bytes) -> Request:
    """`head` up to and with the empty line. Raises Refused."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Refused("no HTTP/1 request", 400)
    if not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise Refused("no HTTP/1 request", 400)
    if len(lines) > _MOST_HEADERS:
        raise Refused("too many headers", 431)
    headers = tuple(map(_header, lines))
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ONCE):
        raise Refused("a header that may stand once stands twice", 400)
    return Request(words[0], words[1], headers)


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise Refused("a header that cannot be read", 400)
    return name.lower(), value.strip(b" \t")
