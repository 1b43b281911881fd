"""The server name in a TLS ClientHello (RFC 8446 4.1.2, RFC 6066 3), read before any of it is passed on."""

from dataclasses import dataclass

_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_ENCRYPTED_HELLO = 0xFE0D
_LONGEST = 64 * 1024
_LONGEST_RECORD = 2**14


class NoClientHello(Exception):
    """The bytes are no ClientHello as any client sends it."""


@dataclass(frozen=True)
class ClientHello:
    server_name: str | None
    """As it stands there; None where there is none."""
    hides_name: bool
    """It may carry another, encrypted name."""


def read_client_hello(data: bytes) -> ClientHello | None:
    """None where there is more to come. Raises NoClientHello."""
    message = _message(data)
    if message is None:
        return None
    try:
        return _hello(_Bytes(message))
    except IndexError as error:
        raise NoClientHello from error


def _message(data: bytes) -> bytes | None:
    """The first handshake message, out of as many records as it takes, without its head."""
    message, at = b"", 0
    while True:
        if len(message) >= 4:
            size = int.from_bytes(message[1:4], "big")
            if message[0] != _CLIENT_HELLO or size > _LONGEST:
                raise NoClientHello
            if len(message) >= 4 + size:
                return message[4 : 4 + size]
        head = data[at : at + 5]
        if head and (head[0] != _HANDSHAKE or head[1:2] not in (b"", b"\x03")):
            raise NoClientHello
        if len(head) < 5:
            return None
        size = int.from_bytes(head[3:5], "big")
        if not 0 < size <= _LONGEST_RECORD:
            raise NoClientHello
        if len(data) < at + 5 + size:
            return None
        message += data[at + 5 : at + 5 + size]
        at += 5 + size


def _hello(hello: "_Bytes") -> ClientHello:
    hello.take(2 + 32)
    hello.vector(1)
    hello.vector(2)
    hello.vector(1)
    if not hello.more():
        return ClientHello(None, hides_name=False)
    extensions = hello.vector(2)
    if hello.more():
        raise NoClientHello
    name: str | None = None
    seen: set[int] = set()
    while extensions.more():
        kind = extensions.number(2)
        content = extensions.vector(2)
        if kind in seen:
            raise NoClientHello
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(content)
    return ClientHello(name, _ENCRYPTED_HELLO in seen)


def _server_name(content: "_Bytes") -> str:
    names = content.vector(2)
    kind, name = names.number(1), names.vector(2)
    if kind != 0 or names.more() or content.more():
        raise NoClientHello
    try:
        return name.rest().decode("ascii")
    except UnicodeDecodeError as error:
        raise NoClientHello from error


class _Bytes:
    """Read from the front; raises IndexError past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise IndexError
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Bytes":
        """What is behind its own length, a number of `size` bytes."""
        return _Bytes(self.take(self.number(size)))
