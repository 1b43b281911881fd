"""Checks the body of a provider's 200 response before litellm reads it as a stream.

litellm skips every line that is not an event, so a login page, an error as JSON and a whole
completion all look like a stream that was cut before its first byte. Imported after litellm: it
needs httpx.
"""

import json
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import httpx

from codeagent.llm.errors import Redirected
from codeagent.llm.native.events import StreamOrWhole
from codeagent.llm.providers import WireFormat

_OTHER_STREAMS = ("ndjson", "jsonl", "json-seq", "eventstream")
"""Parts of the content types of streams without server-sent events: Ollama's and Amazon's."""


def watch_responses(transport: type[Any], opened: ContextVar[list[Any]]) -> None:
    """Check every response to a request for a stream that this transport class of litellm's gets.

    All responses are added to `opened`, if it is set. A redirect is an error: litellm would follow
    it with the key.
    """
    send = transport.handle_async_request

    async def send_and_check(self: Any, request: httpx.Request) -> httpx.Response:
        response: httpx.Response = await send(self, request)
        opened.get([]).append(response)
        if response.is_redirect:
            raise Redirected(response.headers.get("location", "nowhere"))
        content_type = response.headers.get("content-type", "").lower()
        if response.status_code != 200 or any(name in content_type for name in _OTHER_STREAMS):
            return response
        if not (_asks_for_stream(request) or "html" in content_type):
            return response
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _CheckedBody(
            _decoded(response), response.stream, request.url.path, content_type
        )
        response.headers.pop("content-encoding", None)
        return response

    transport.handle_async_request = send_and_check


class _CheckedBody(httpx.AsyncByteStream):
    """The body as events. Iterating raises NotAStream if it is not a stream."""

    def __init__(
        self,
        body: AsyncIterator[bytes],
        source: httpx.AsyncByteStream,
        path: str,
        content_type: str,
    ) -> None:
        """`body` is `source` without its content encoding; the request's `path` tells the
        format."""
        self._body = body
        self._source = source
        wire: WireFormat = (
            "anthropic" if "messages" in path else "responses" if "responses" in path else "chat"
        )
        self._checked = StreamOrWhole(wire, content_type)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            if checked := self._checked.feed(chunk):
                yield checked
        for event in self._checked.end():
            yield f"data: {json.dumps(event)}\n\n".encode()

    async def aclose(self) -> None:
        await self._source.aclose()


def _decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body without its content encoding, as it comes."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    encoding = {"content-encoding": response.headers.get("content-encoding", "identity")}
    return httpx.Response(
        200, headers=encoding, stream=response.stream, request=response.request
    ).aiter_bytes()


def _asks_for_stream(request: httpx.Request) -> bool:
    """Look for `stream` in the path, where Google's requests have it, and in the body, where the
    others have it."""
    return "stream" in request.url.path.lower() or b'"stream"' in getattr(request, "_content", b"")
