"""A session with one server, over the official SDK; no other module starts one."""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import httpx2
from mcp import ClientSession
from mcp.client._input_required import InputRequiredRoundsExceededError, run_input_required_driver
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    InputResponses,
    ListRootsResult,
    Root,
    ToolListChangedNotification,
)
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import FileUrl

from codeagent import __version__
from codeagent.core.dataclass import dataclass
from codeagent.core.sandbox import RunningProgram
from codeagent.core.sanitize import one_line
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.elicitation import Reaction
from codeagent.extensions.mcp.record import ServerError, ServerRecord
from codeagent.extensions.mcp.stdio import LARGEST_MESSAGE, program_streams

_MOST_PAGES = 100
_LARGEST_LIST = 16 << 20
_READ_SECONDS = 300.0
_NOT_FOUND = 404
_QUIET = ("mcp", "client", "httpx2", "httpcore2")
"""Loggers of the libraries, silenced so that a server's faults are not printed over the screen."""

for _name in _QUIET:
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False

_NO_ANSWER = "SSE stream "
"""How the SDK's errors begin for a response whose stream ended or broke."""
_BAD_REQUEST = 400
_ABOUT_SESSION = re.compile(
    rb"(?:\b(?:no|not|invalid|unknown|missing|expired|bad|without)\b[^.]{0,40}\bsession|"
    rb"session[^.]{0,40}\b(?:not|invalid|unknown|missing|expired|required|uninitialized))",
    re.IGNORECASE,
)
"""Matches what servers say with status 400 about a session that they do not know, such as `No valid
session ID`."""
T = TypeVar("T")


class OtherVersion(ServerError):
    """The server speaks only versions of the protocol that codeagent does not."""

    def __init__(self, versions: str) -> None:
        said = f"version {one_line(versions, 80)}" if versions else "another version"
        ours = ", ".join(KNOWN_PROTOCOL_VERSIONS)
        super().__init__(
            f"it speaks {said} of MCP, and codeagent speaks {ours}: use a release of it that does",
            lost=True,
        )


class Listener(Protocol):
    """Receives what a server sends on its own."""

    def listing_changed(self) -> None: ...

    async def elicit(self, params: Mapping[str, Any]) -> Reaction:
        """Ask the user; `params` are those of `elicitation/create`, as a JSON object."""


@dataclass(frozen=True)
class Connection:
    """One live session; its methods may be called from any task. They raise ServerError."""

    session: ClientSession
    dispatcher: JSONRPCDispatcher[TransportContext]
    record: ServerRecord
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set once the server no longer answers."""

    @property
    def instructions(self) -> str:
        return self.session.instructions or ""

    async def tools(self) -> list[Any]:
        """Return all pages of `tools/list`, as the server sent them; empty if it never said that it
        has tools."""
        try:
            return await self.pages("tools")
        except ServerError as error:
            capabilities = self.session.server_capabilities
            if error.lost or capabilities is None or capabilities.tools is not None:
                raise
            return []

    async def pages(self, kind: str) -> list[Any]:
        """Return all pages of `KIND/list`, as the server sent them."""
        found: list[Any] = []
        cursors: set[object] = set()
        cursor: object = None
        size = 0
        while cursor not in cursors and len(cursors) < _MOST_PAGES:
            cursors.add(cursor)
            page = await self.request(f"{kind}/list", {} if cursor is None else {"cursor": cursor})
            listed = page.get(kind)
            if not isinstance(listed, list):
                raise ServerError(f"its list of {kind} breaks the protocol")
            found += listed
            size += len(repr(listed))
            if size > _LARGEST_LIST:
                raise ServerError(f"its list of {kind} has more than {_LARGEST_LIST >> 20} MiB")
            cursor = page.get("nextCursor")
            if not cursor or not isinstance(cursor, str):
                break
        return found

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: ProgressFnT
    ) -> dict[str, Any]:
        """Call a tool; return its result as the server sent it. If the caller is cancelled, the
        server is told."""
        return await self.request(
            "tools/call", {"name": name, "arguments": dict(arguments)}, on_progress
        )

    async def request(
        self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Send a request past the SDK's own checks, with which one tool that breaks a rule would
        cost all of them.

        A server may answer with questions since 2026-07-28; then the same request is sent again
        with the answers.
        """
        return await self._send(self._exchange(method, params, on_progress))

    async def _exchange(
        self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None
    ) -> dict[str, Any]:
        again = partial(self._once, method, params, on_progress)
        answer = await again(None, None)
        if not isinstance(answer, InputRequiredResult):
            return answer
        try:
            return await run_input_required_driver(answer, dispatch=self._ask, retry=again)
        except InputRequiredRoundsExceededError as error:
            raise ServerError("it kept asking questions instead of answering") from error

    async def _once(
        self,
        method: str,
        given: Mapping[str, Any],
        on_progress: ProgressFnT | None,
        answers: InputResponses | None,
        state: str | None,
    ) -> dict[str, Any] | InputRequiredResult:
        params, options = dict(given), CallOptions()
        if on_progress is not None:
            options["on_progress"] = on_progress
        if answers is not None:
            dumped = {
                key: one.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, one in answers.items()
            }
            params["inputResponses"] = dumped
        if state is not None:
            params["requestState"] = state
        self.session._stamp(
            {"method": method, "params": params}, options
        )  # what this version requires in every request
        answer = await self.dispatcher.send_raw_request(method, params, options)
        asks = answer.get("resultType") == "input_required"
        return InputRequiredResult.model_validate(answer) if asks else answer

    async def _ask(self, key: str, request: InputRequest) -> InputResponse | ErrorData:
        context = ClientRequestContext(session=self.session, request_id=key)
        return await self.session.dispatch_input_request(context, request)

    async def begin(self) -> None:
        """Agree on a version of the protocol, with a handshake or without one. Raises
        ServerError."""
        try:
            await self._send(self._agree())
        except OtherVersion:
            raise
        except ServerError as error:
            raise ServerError(
                f"it did not begin as the protocol requires: {error}", lost=True
            ) from error

    async def _agree(self) -> None:
        try:
            await self.session.initialize()
        except RuntimeError as error:
            _, is_version, version = str(error).partition(
                "Unsupported protocol version from the server: "
            )
            raise OtherVersion(version) if is_version else error from None
        except MCPError as error:
            if error.code not in (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND):
                raise
            await self._discover(error)

    async def _discover(self, refused: MCPError) -> None:
        """Begin without a handshake, which the server `refused`."""
        try:
            await self.session.discover()
        except RuntimeError as error:
            raise OtherVersion(str(error)) from error
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                raise refused from error
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            supported = (
                error.error.data.get("supported") if isinstance(error.error.data, dict) else None
            )
            raise OtherVersion(
                ", ".join(map(str, supported)) if isinstance(supported, list) else ""
            ) from error

    async def _send(self, request: Awaitable[T]) -> T:
        try:
            return await request
        except MCPError as error:
            lost = self.ended.is_set() or self.dispatcher._closed or _is_of_transport(error.error)
            said = one_line(error.error.message, 500) or "it gave no reason"
            raise ServerError((lost and self.record.why) or said, lost=lost) from error
        except ValueError as error:
            raise ServerError("its answer breaks the protocol") from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError) as error:
            raise ServerError(self.record.why or "the connection has ended", lost=True) from error


def _is_of_transport(error: ErrorData) -> bool:
    """Whether the SDK made the error itself, as no answer can come; servers use its code for errors
    of their own."""
    return (
        error.code == CONNECTION_CLOSED
        and error.data is None
        and error.message.startswith(_NO_ANSWER)
    )


@asynccontextmanager
async def connected(
    config: ServerConfig,
    program: RunningProgram | None,
    record: ServerRecord,
    listener: Listener,
    root: Path,
    auth: httpx2.Auth | None = None,
) -> AsyncIterator[Connection]:
    """Yield an initialised session, over `program` or to `config.url`.

    Raises ServerError, or an exception group of what the transport raised.
    """

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(root.as_uri()), name=root.name)])

    async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        reaction = await listener.elicit(
            params.model_dump(by_alias=True, exclude_none=True, mode="json")
        )
        return ElicitResult(action=reaction.action, content=reaction.content)

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            listener.listing_changed()

    async with AsyncExitStack() as stack:
        ended = anyio.Event()
        streams: TransportStreams
        if program is not None:
            streams = await stack.enter_async_context(program_streams(program, record, ended))
        else:
            client = await stack.enter_async_context(_client(config, auth, ended))
            transport = streamable_http_client(
                config.url, http_client=client, max_sse_event_size=LARGEST_MESSAGE
            )
            streams = await stack.enter_async_context(transport)
        dispatcher = JSONRPCDispatcher[TransportContext](*streams)
        session = ClientSession(
            dispatcher=dispatcher,
            elicitation_callback=elicit,
            list_roots_callback=roots,
            message_handler=hear,
            client_info=Implementation(name="codeagent", version=__version__),
        )
        connection = Connection(await stack.enter_async_context(session), dispatcher, record, ended)
        await connection.begin()
        yield connection


def _client(
    config: ServerConfig, auth: httpx2.Auth | None, ended: anyio.Event
) -> httpx2.AsyncClient:
    headers = {**config.headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(config.start_timeout, read=max(config.timeout, _READ_SECONDS))
    transport = _Bounded(httpx2.AsyncHTTPTransport(), ended)
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, transport=transport)


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends a response that is compressed or endless, and notices that a server has forgotten the
    session."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, ended: anyio.Event) -> None:
        self._inner = inner
        self._ended = ended

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError(
                f"the answer is compressed ({encoding[:20]}), which was not asked for"
            )
        streams = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not streams:
            response.stream = _BoundedStream(response.stream)
        if MCP_SESSION_ID in request.headers and await _is_forgotten(response):
            self._ended.set()
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _is_forgotten(response: httpx2.Response) -> bool:
    """Whether the server does not know the session: 404 by the protocol, or 400 with a body about
    it."""
    if response.status_code != _BAD_REQUEST:
        return response.status_code == _NOT_FOUND
    return _ABOUT_SESSION.search(await response.aread()) is not None


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for piece in self._inner:
            total += len(piece)
            if total > LARGEST_MESSAGE:
                raise httpx2.RemoteProtocolError(
                    f"the answer has more than {LARGEST_MESSAGE >> 20} MiB"
                )
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
