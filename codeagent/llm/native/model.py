"""A model that is reached without litellm: one of three wire formats over our own client."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain

from codeagent.core.model import ModelRequest
from codeagent.llm.errors import ProviderError, Redirected
from codeagent.llm.native import RequestWriter, format_of
from codeagent.llm.native.events import EventReader
from codeagent.llm.provider_model import ProviderModel
from codeagent.llm.provider_tools import declared_in
from codeagent.llm.providers import Endpoint, Target, native_target
from codeagent.llm.stream import StreamPiece
from codeagent.net.http import HttpClient, Response

_BETA = "anthropic-beta"
_LARGEST_ERROR = 1 << 20
"""Bytes of the body of an error status; no more are read."""


class NativeModel(ProviderModel):
    """A model that `native_target` knows an endpoint for; its connections stay open between
    requests."""

    _client: HttpClient | None = None
    _writer: RequestWriter
    _url = ""
    """Where the server has answered."""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _find_target(self) -> Target:
        target = native_target(self.name, self._api_base, self._api_key, os.environ)
        assert target is not None
        self._passes_searches = target.provider == "openai" and "search" in target.bare_name
        self._writer = format_of(target.format).writer(target, self._thinking)
        return target

    async def _arrivals(
        self, target: Target, request: ModelRequest
    ) -> AsyncGenerator[Iterable[StreamPiece], None]:
        assert target.endpoint is not None
        wire, body, headers = (
            target.endpoint.format,
            self._writer.body(request, target),
            target.endpoint.headers,
        )
        if betas := [one.beta for one in declared_in(request, target) if one.beta]:
            headers = {**headers, _BETA: ",".join(filter(None, (headers.get(_BETA), *betas)))}
        self._client = self._client or HttpClient(self._idle)
        async with self._answer(self._client, target.endpoint, headers, body) as response:
            yield ()
            events = EventReader(wire, response.headers.get("content-type", "").lower())
            reader = format_of(wire, self._provider_tools).reader()
            while not events.done and (chunk := await response.read()):
                yield chain.from_iterable(map(reader.read, events.feed(chunk)))
            yield chain.from_iterable(map(reader.read, events.end()))
            yield reader.end()

    @asynccontextmanager
    async def _answer(
        self, client: HttpClient, endpoint: Endpoint, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Post the body; entered once an answer begins.

        A path that the server does not have may be the other one, which is remembered then.
        """
        urls = (
            (self._url,) if self._url else tuple(filter(None, (endpoint.url, endpoint.other_url)))
        )
        for url in urls:
            async with client.send("POST", url, headers, body) as response:
                if self._pacing is not None:
                    self._pacing.answered(response.headers)
                if 200 <= response.status < 300:
                    if self._url and response.on_new_connection:
                        self._learned.reconnected()
                    self._url = url
                    yield response
                    return
                refusal = await _refusal(response, " and ".join(urls[: urls.index(url) + 1]))
            from codeagent.llm.refusals import lacks_path  # most requests never fail

            if response.status != 404 or url == urls[-1] or not lacks_path(str(refusal)):
                raise refusal


async def _refusal(response: Response, url: str) -> Exception:
    """Return what a status other than success says; `url` is where it was asked."""
    if response.status < 400:
        return Redirected(response.headers.get("location", "nowhere"))
    body = b""
    while len(body) < _LARGEST_ERROR and (chunk := await response.read()):
        body += chunk
    refusal = ProviderError.of_response(response.status, response.headers, body)
    refusal.url = url
    return refusal
