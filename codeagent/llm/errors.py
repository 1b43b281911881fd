"""Turns whatever exception litellm or a provider's library raised into a ModelError that says what
went wrong.

Exceptions are recognised by attribute, name and cause, never by class: no library is imported for
it.
"""

import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError, ModelErrorKind
from codeagent.core.lazy_regex import lazy_regex
from codeagent.llm.stream import CUT

MAX_RETRY_AFTER = 120.0
_LONGEST_QUOTE = 300
_RETRYABLE = {408, 409, 425, 429}
_STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Of the codes and types that an error in the middle of a stream has in place of a status."""
_NO_CREDIT = (
    r"insufficient_quota|exceeded your current quota|credit balance|billing[_ ]hard[_ ]limit"
)
_QUOTA = lazy_regex(rf"{_NO_CREDIT}|billing", re.IGNORECASE)
_CREDIT = lazy_regex(_NO_CREDIT, re.IGNORECASE)
"""In a 400, whose words may also quote the request."""
_POLICY = lazy_regex(
    r"content_policy|content_filter|ContentPolicyViolation|safety system", re.IGNORECASE
)
_PREFIX = lazy_regex(
    r"^(?:(?:litellm\.)?[\w ]{0,40}?(?:Error|Exception|Timeout)\s*[:-]\s*)+(?:Error code: \d+(?: - )?)?"
)
_ADVICE = lazy_regex(
    r"\s*Handle with `litellm\.\w+`\.?|\blitellm\.(?:exceptions\.)?[A-Z]\w*\s*:?\s*"
)
"""The names of litellm's classes, which it adds to a provider's words."""
ANOTHER = "; choose another model with /model, or --model"
"""What helps if the provider will not answer with this one."""
_NO_END = "before any terminal event"
"""What litellm says of a stream of the responses API that was cut."""
_HANG_UPS = {
    "ReadError",
    "WriteError",
    "RemoteProtocolError",
    "ServerDisconnectedError",
    "ClientOSError",
}
_TITLE = lazy_regex(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_LONGEST_PAGE = 64 << 10
_MESSAGE = lazy_regex(r"""["']message["']\s*:\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")


class NotAStream(Exception):
    """A response with status 200 whose body is neither a stream nor a whole completion.

    The text says what came instead, with its first line; `body` is the error object, if the body
    has one.
    """

    def __init__(self, body: bytes, content_type: str, decoded: object) -> None:
        """`decoded` is the body as JSON, None if it is not JSON."""
        self.body = _error_object(decoded)
        text = body[:_LONGEST_PAGE].decode("utf-8", "replace")
        first = text.partition("\n")[0].strip()
        title = _TITLE.search(text)
        if decoded is not None:
            what, first = (
                "JSON",
                first if len(first) > 1 else json.dumps(decoded, ensure_ascii=False),
            )
        elif title or "html" in content_type:
            what = f"a web page titled {_short(title[1])!r}" if title else "a web page"
        else:
            what = "text"
        super().__init__(f"{what} that begins: {_short(first)}")


class Redirected(Exception):
    """A response that sends the request elsewhere, where nobody may follow it with a key."""

    def __init__(self, location: str) -> None:
        super().__init__(f"a redirect to {_short(location)}")


class ProviderError(Exception):
    """An error object from the provider: the body of an error status, or an event in the middle of
    a stream.

    `body` is the object itself (`message`, `type`, `code`), without what wraps it; `status_code` is
    None if the provider gave none.
    """

    @classmethod
    def of_response(
        cls, status_code: int, headers: Mapping[str, str], body: bytes
    ) -> "ProviderError":
        """Read the body of an error status, whatever it is."""
        text = body.decode("utf-8", "replace")
        try:
            found = _error_object(json.loads(text))
        except (ValueError, RecursionError):
            found = None
        return cls(found or text, status_code, headers)

    def __init__(
        self,
        error: object,
        status_code: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`error` is the object, or what came in place of one; `headers` are the response's, in
        lower case."""
        self.body = error if isinstance(error, dict) else {"message": str(error)}
        super().__init__(json.dumps(self.body, ensure_ascii=False))
        self.status_code = status_code
        self.headers = headers or {}
        self.url = ""
        """Where the request was posted to, if that is known."""


@dataclass(frozen=True)
class FailedRequest:
    """What a request knew, for the message about its failure."""

    model: str
    address: str
    """Where the request went."""
    owner: str
    """Whose key it used."""
    idle: float
    """The limit of silence, in seconds."""
    key_variable: str = ""
    """The variable of the key; empty if there is none."""


def model_error(
    error: BaseException, request: FailedRequest, *, streaming: bool, clean: Callable[[str], str]
) -> ModelError:
    """Return what to tell the user; `streaming`: the answer had begun; `clean` takes secrets out of
    the message."""
    failure = _Failure(error, request, clean, streaming=streaming)
    return (
        failure.from_cause()
        or failure.from_status()
        or failure.from_body()
        or failure.from_stream()
    )


class _Failure:
    """What one exception and its causes say."""

    def __init__(
        self,
        error: BaseException,
        request: FailedRequest,
        clean: Callable[[str], str],
        *,
        streaming: bool,
    ) -> None:
        self._streaming = streaming
        self._chain = list(_causes(error))
        self._request = request
        self._address = request.address
        self._clean = clean
        self._text = " ".join(str(each) for each in self._chain)
        self._quote = _quote(_provider_words(self._chain)).removesuffix(".")
        self._status = next(filter(None, map(_status_of, reversed(self._chain))), None)
        """The innermost: litellm maps what the provider sent to statuses of its own."""

    def from_cause(self) -> ModelError | None:
        for cause in self._chain:
            if isinstance(proxy := getattr(cause, "proxy", None), str):
                passing = (getattr(cause, "status", None) or 500) >= 500
                said = f"no way through the proxy {proxy}: {_quote(str(cause))}"
                return self._error("connection", said, retryable=passing)
            if isinstance(cause, Redirected):
                return self._final(
                    "server", f"{self._address} sent no answer but {cause}; check the address"
                )
            if isinstance(cause, ImportError):
                return self._final("bad_request", f"this provider needs a library: {cause}")
            if isinstance(cause, ssl.SSLError) or "Certificate" in type(cause).__name__:
                return self._final(
                    "connection", f"no secure connection to {self._address}: {_quote(str(cause))}"
                )
            if isinstance(cause, socket.gaierror) or "DNSError" in type(cause).__name__:
                return self._error("connection", f"cannot reach {self._address}: are you offline?")
            if isinstance(cause, ConnectionRefusedError):
                return self._error(
                    "connection", f"nothing answers at {self._address}; is the server running?"
                )
        if self._status in (None, 408, 500) and any(_is_timeout(cause) for cause in self._chain):
            return self._error(
                "timeout", f"{self._address} sent nothing for {self._request.idle:g} s"
            )
        if (
            not self._streaming
            and self._status in (None, 500)
            and any(_is_hang_up(cause) for cause in self._chain)
        ):
            return self._error(
                "connection", f"{self._address} closed the connection before it answered"
            )
        return None

    def from_status(self) -> ModelError | None:
        status, said = self._status, self._quote
        names = {type(cause).__name__ for cause in self._chain}
        if "ContextWindowExceededError" in names or self._too_long():
            return self._over_window(f"the conversation is too long for the model: {said}")
        if "ContentPolicyViolationError" in names or (status == 400 and _POLICY.search(self._text)):
            return self._final("content_policy", f"the provider refused the content: {said}")
        if status is None or (status == 500 and self._streaming):
            return None
        if status == 429:
            return self._rate_limited()
        if status == 529 or (status >= 500 and "overloaded" in self._text.lower()):
            return self._error("overloaded", f"the provider is overloaded: {said}")
        if status >= 500 or status in _RETRYABLE:
            return self._error("server", f"the provider failed with status {status}: {said}")
        match status:
            case 401:
                return self._final(
                    "auth", f"key refused by {self._request.owner}: {said}{self._another_key()}"
                )
            case 403:
                return self._final("auth", f"the key may not use this model: {said}{ANOTHER}")
            case 404:
                return self._final("bad_request", self._not_found())
            case 400 | 402 if status == 402 or _CREDIT.search(self._text):
                return self._no_quota()
            case _:
                return self._final("bad_request", f"the request was rejected: {said}")

    def _too_long(self) -> bool:
        from codeagent.llm.overflow import STATUSES, says_too_long  # most requests never fail

        return self._status == 413 or (self._status in STATUSES and says_too_long(self._text))

    def _over_window(self, text: str) -> ModelError:
        from codeagent.llm.overflow import counted_tokens  # most requests never fail

        error = self._final("context_window", text)
        error.prompt_tokens = counted_tokens(self._text)
        return error

    def _another_key(self) -> str:
        variable, paste = self._request.key_variable, "choose /model, then Paste an API key"
        if not variable:
            return ""
        if self._request.owner == self._request.address:  # the user's own server
            return f"; to change the key, {paste}: a key kept for a server wins over {variable}"
        return f"; to change the key, set {variable} or {paste}"

    def _not_found(self) -> str:
        """Say whether the model is missing or the path: a server without the path knows nothing of
        models."""
        from codeagent.llm.refusals import lacks_path  # most requests never fail

        if not lacks_path(self._text):
            return f"not found at {self._address}: {self._quote}; check the model's name, or choose one with /model"
        url = next(
            (
                url
                for each in self._chain
                if (url := getattr(each, "url", "")) and isinstance(url, str)
            ),
            "",
        )
        return f"404 at {url or self._address}: {self._quote}; check the address (--api-base) and its path"

    def _rate_limited(self) -> ModelError:
        if _QUOTA.search(self._text):
            return self._no_quota()
        return self._error("rate_limit", f"too many requests: {self._quote}")

    def _no_quota(self) -> ModelError:
        said = f"the account has no quota left: {self._quote}{ANOTHER}"
        return self._final("rate_limit", said)

    def from_body(self) -> ModelError | None:
        came = next((cause for cause in self._chain if isinstance(cause, NotAStream)), None)
        if came is None:
            return None
        passing = self._passing() if came.body else None
        said = f"{self._address} sent no answer but {came}"
        return passing or self._final("server", said if came.body else f"{said}; check the address")

    def _passing(self) -> ModelError | None:
        """Return the passing failure that the words alone tell of, if any."""
        lowered = self._text.lower()
        if "overloaded" in lowered:
            return self._error("overloaded", f"the provider is overloaded: {self._quote}")
        if "rate limit" in lowered or "rate_limit" in lowered:
            return self._rate_limited()
        return None

    def from_stream(self) -> ModelError:
        if not self._streaming:
            return self._final("bad_request", f"the request could not be sent: {self._quote}")
        if (passing := self._passing()) is not None:
            return passing
        if any(_is_transport(cause) for cause in self._chain) or _NO_END in self._text:
            return self._error("cut", CUT)
        return self._error("server", f"the provider broke off its answer: {self._quote}")

    def _final(self, kind: ModelErrorKind, text: str) -> ModelError:
        return self._error(kind, text, retryable=False)

    def _error(self, kind: ModelErrorKind, text: str, *, retryable: bool = True) -> ModelError:
        status = None if kind in ("connection", "timeout", "cut") else self._status
        after = retry_after(_retry_after(self._chain), time.time) if retryable else None
        said = self._clean(f"{self._request.model}: {text}")
        return ModelError(said, kind=kind, status=status, retryable=retryable, retry_after=after)


def words_of(error: BaseException) -> str:
    """Return all that an error and its causes say."""
    return " ".join(map(str, _causes(error)))


def retry_after(value: str | None, now: Callable[[], float]) -> float | None:
    """Return the seconds that a Retry-After header asks for, 0 to 120; None if it gives neither
    seconds nor a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from email.utils import parsedate_to_datetime  # nearly every server gives seconds

        try:
            seconds = parsedate_to_datetime(value).timestamp() - now()
        except (ValueError, TypeError, OverflowError):
            return None
    if seconds != seconds:  # NaN
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, the outermost first; a wrapper of another error is
    skipped."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        original = getattr(current, "original_exception", None)
        if isinstance(original, BaseException):
            current = original
            continue
        yield current
        current = current.__cause__ or current.__context__


def _status_of(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    body = getattr(error, "body", None)
    names = (body.get("code"), body.get("type")) if isinstance(body, dict) else ()
    named = (_STATUSES.get(str(name), name) for name in names)
    for value in (
        getattr(error, "status_code", None),
        *named,
        getattr(response, "status_code", None),
    ):
        if isinstance(value, int | str) and str(value).isdigit() and 400 <= int(value) <= 599:
            return int(value)
    return None


def _provider_words(chain: list[BaseException]) -> str:
    """Return the message of the innermost error response; else what the outermost exception
    says."""
    for error in reversed(chain):
        body, message = getattr(error, "body", None), getattr(error, "message", None)
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            return str(body["message"])
        if isinstance(message, bytes):
            return message.decode("utf-8", "replace")
    return str(chain[0])


def _retry_after(chain: list[BaseException]) -> str | None:
    for error in chain:
        response = getattr(error, "response", None)
        sources = ((error, "headers"), (error, "litellm_response_headers"), (response, "headers"))
        for headers in (getattr(source, attribute, None) for source, attribute in sources):
            value = headers.get("retry-after") if isinstance(headers, Mapping) else None
            if value is not None:
                return str(value)
    return None


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


def _is_transport(error: BaseException) -> bool:
    """Tell whether the connection broke, seen as such or as an event that stops in the middle of
    its JSON."""
    return isinstance(error, OSError | json.JSONDecodeError) or type(error).__name__ in {
        "ReadError",
        "RemoteProtocolError",
        "ClientPayloadError",
        "TransferEncodingError",
        "ServerDisconnectedError",
        "IncompleteRead",
        "ProtocolError",
        "NetworkError",
    }


def _is_hang_up(error: BaseException) -> bool:
    return isinstance(error, ConnectionError) or type(error).__name__ in _HANG_UPS


def _error_object(decoded: object) -> dict[str, object] | None:
    match decoded:
        case {"error": dict(error)}:
            return error
        case {"error": str(text)} | {"detail": str(text)} | {"message": str(text)}:
            return {"message": text}
        case _:
            return None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def _quote(text: str) -> str:
    """Return what the provider said, on one line: its own message if the text is an error
    object."""
    text = _ADVICE.sub("", _PREFIX.sub("", text.strip()))
    found = _MESSAGE.search(text)
    if found:
        text = found[1][1:-1].replace("\\'", "'")
        with suppress(ValueError):
            text = str(json.loads(found[1]))
    if "<html" in text[:1000].lower():
        text = "an HTML page instead of an answer"
    return _short(_ADVICE.sub("", text)) or "no reason given"
