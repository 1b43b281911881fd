"""Checks the headers of requests, and reads those of responses: the kind of body, and its text."""

import codecs
import re
from collections.abc import Mapping

from codeagent.core.dataclass import dataclass
from codeagent.core.tool import InvalidArgs

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\t -~]{0,8192}")
_MOST = 50
_OURS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "proxy-authorization",
        "proxy-connection",
        "http2-settings",
    }
)
"""Headers that determine where a request goes and where it ends."""
METHOD_OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
"""Headers that many servers believe more than the method, which is what the user and the rules
see."""
_TEXT = re.compile(
    r"text/|application/(?:[a-z0-9.+-]*\+)?(?:json|xml|yaml|javascript|x-ndjson|x-www-form-urlencoded)\b"
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", re.I)
_NOT_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})
"""Encodings that always fail, take quadratic time, or change the meaning of the body."""


def checked_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, if all may be sent. Raises InvalidArgs without quoting a value, which may
    be a secret."""
    if len(given) > _MOST:
        raise InvalidArgs(f"more than {_MOST} headers; nothing was sent")
    for name, value in given.items():
        if _TOKEN.fullmatch(name) is None:
            raise InvalidArgs(f"{name[:80]!r} is not the name of a header; nothing was sent")
        if name.lower() in _OURS:
            raise InvalidArgs(
                f"the header {name} is set by the client itself; leave it out. Nothing was sent"
            )
        if name.lower() in METHOD_OVERRIDES:
            raise InvalidArgs(
                f"leave the header {name} out and use the method itself; nothing was sent"
            )
        if _VALUE.fullmatch(value) is None:
            raise InvalidArgs(
                f"the value of the header {name} has line breaks, is not ASCII or is too long"
            )
    if len({name.lower() for name in given}) < len(given):
        raise InvalidArgs("a header is given twice, in two spellings; nothing was sent")
    return dict(given)


@dataclass(frozen=True)
class ResponseHeaders:
    """The headers of a response, by their names in lower case."""

    fields: Mapping[str, str]

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def kind(self) -> str:
        """The media type without parameters, in lower case; empty if the server did not name
        one."""
        return self.get("content-type").partition(";")[0].strip().lower()

    def text(self, body: bytes) -> str | None:
        """Return the body as text; None if it is not text."""
        if self.kind and _TEXT.match(self.kind) is None:
            return None
        if not self.kind and b"\0" in body[:1024]:
            return None
        named = _CHARSET.search(self.get("content-type"))
        try:
            codec = codecs.lookup(named[1] if named else "utf-8").name
            return body.decode("utf-8" if codec in _NOT_CHARSETS else codec, "replace")
        except LookupError:
            return body.decode("utf-8", "replace")
