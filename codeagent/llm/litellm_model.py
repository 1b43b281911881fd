"""Any model litellm knows, behind the Model port: the one importer of litellm."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError
from codeagent.core.messages import AssistantMessage, Usage
from codeagent.core.model import Heartbeat, ModelAnswer, ModelEvent, ModelRequest
from codeagent.core.redact import Redactor
from codeagent.llm import litellm_setup
from codeagent.llm.errors import FailedRequest, model_error
from codeagent.llm.provider_stream import read_stream
from codeagent.llm.providers import Target, resolve_target
from codeagent.llm.stream import Accumulator, StreamPiece
from codeagent.llm.usage import Price, estimated_usage, with_cost
from codeagent.llm.wire import may_think, thinking_arguments, to_messages, to_tools

_CONNECT_SECONDS = 30.0
_FIRST_REQUEST_SECONDS = 0.2
"""The time a request takes to leave once litellm is imported; nothing competes with it for that long."""

_import_lock = threading.Lock()
_connected: set["LitellmModel"] = set()


@dataclass(frozen=True)
class _Failed:
    error: Exception
    streaming: bool


class LitellmModel:
    """One model of one provider.

    litellm is imported by the first request, or by `prepare`, in a thread. One task per request
    reads the connection: cancelling that task is what closes the socket with every provider.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        idle_timeout: float = 90.0,
        thinking: Effort | None = None,
        price: Price | None = None,
    ) -> None:
        """`idle_timeout` is silence in seconds; `thinking` None leaves it to the provider; `price` overrides what
        litellm knows."""
        self._name = name
        self._api_base = api_base
        self._api_key = api_key
        self._idle = idle_timeout
        self._thinking = thinking
        self._price = price
        self._redactor = Redactor({**os.environ, "MODEL_API_KEY": api_key or ""})
        self._library: asyncio.Future[Any] | None = None
        self._target: Target | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int | None:
        """Known from the first request on, if litellm's table has the model."""
        return self._target.context_window if self._target else None

    async def prepare(self) -> None:
        """Start the import and return at once; only the first request waits for it."""
        if self._library is None:
            self._library = _import_in_thread(self._name)

    async def ready(self) -> Any:
        """Return litellm once it is imported. Raises ModelError if it cannot be."""
        await self.prepare()
        assert self._library is not None
        return await asyncio.shield(self._library)

    async def close(self) -> None:
        """Close the connections when no other model has any; idempotent."""
        if self not in _connected:
            return
        _connected.discard(self)
        if not _connected:
            await _close_connections(_import())

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        library = await self.ready()
        if self._target is None:
            self._target = resolve_target(library, self._name, self._api_base, self._api_key)
        arguments = self._arguments(self._target, request)
        _connected.add(self)
        queue: asyncio.Queue[StreamPiece | _Failed | None] = asyncio.Queue()
        reader = asyncio.create_task(_read(library, arguments, queue))
        try:
            async for event in self._events(library, self._target, request, arguments, queue):
                yield event
        finally:
            reader.cancel()
            await asyncio.wait({reader})

    async def _events(
        self,
        library: Any,
        target: Target,
        request: ModelRequest,
        arguments: dict[str, Any],
        queue: "asyncio.Queue[StreamPiece | _Failed | None]",
    ) -> AsyncIterator[ModelEvent]:
        answers = (message for message in request.messages if isinstance(message, AssistantMessage))
        accumulator = Accumulator({call.id for message in answers for call in message.calls})
        figures: Usage | None = None
        while True:
            match await queue.get():
                case StreamPiece(delta, usage):
                    figures = usage or figures
                    for event in accumulator.add(delta) or [Heartbeat()]:
                        yield event
                case _Failed(error, streaming):
                    failed = FailedRequest(self._name, target.address, target.owner, self._idle)
                    raise model_error(error, failed, streaming=streaming, clean=self._redactor.clean) from None
                case None:
                    break
        closed, message = accumulator.finish(self._name)
        for call in closed:
            yield call
        if message.stop == "content_filter" and not (message.text or message.calls):
            raise ModelError(f"{self._name}: the model refused to answer", kind="content_policy")
        yield ModelAnswer(message, await self._usage(library, target, arguments, message, figures))

    async def _usage(
        self, library: Any, target: Target, arguments: dict[str, Any], message: AssistantMessage, figures: Usage | None
    ) -> Usage:
        if figures is not None:
            usage = with_cost(library, target, figures)
        else:
            usage = await asyncio.to_thread(estimated_usage, library, target, arguments, message)
        return usage if self._price is None else self._price.priced(usage)

    def _arguments(self, target: Target, request: ModelRequest) -> dict[str, Any]:
        """Return the keyword arguments for litellm's `acompletion`."""
        thinking, thinks = self._thinking, self._thinking != "off"
        if target.family == "anthropic" and thinks and thinking is not None and not may_think(request.messages):
            thinking, thinks = None, False
        arguments: dict[str, Any] = {
            "model": target.wire_name,
            "messages": to_messages(request, target.family, error_flag=target.error_flag, thinking=thinks),
            "tools": to_tools(request.tools, target.family) or None,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": target.max_tokens,
            "timeout": _timeout(self._idle),
            "max_retries": 0,
            # Without this, any request with tools imports litellm's proxy server and the mcp library.
            "_skip_mcp_handler": True,
            "api_base": self._api_base,
            "api_key": target.api_key,
        }
        return arguments | thinking_arguments(thinking, target.family, target.max_tokens, target.facts)


async def _read(library: Any, arguments: dict[str, Any], queue: "asyncio.Queue[StreamPiece | _Failed | None]") -> None:
    """Send the request and pass every piece on; the queue ends with None or _Failed."""
    streaming = False
    try:
        wrapper = await library.acompletion(**arguments)
        streaming = True
        async for piece in read_stream(wrapper):
            queue.put_nowait(piece)
    except Exception as error:
        queue.put_nowait(_Failed(error, streaming))
    else:
        queue.put_nowait(None)


def _timeout(idle: float) -> Any:
    """Return a timeout per read: an answer may take as long as it likes while it keeps coming."""
    import httpx

    return httpx.Timeout(idle, connect=min(idle, _CONNECT_SECONDS))


def _import() -> Any:
    """Import litellm and set it up; return it."""
    with _import_lock:
        if "litellm" in sys.modules:
            return sys.modules["litellm"]
        litellm_setup.set_environment()
        with litellm_setup.collector_paused():
            import litellm
        litellm_setup.silence(litellm)
        litellm_setup.stub_proxy_gateway()
        litellm_setup.patch_error_flags(litellm)
        litellm_setup.patch_native_streaming(litellm)
        litellm_setup.patch_responses(litellm)
        return litellm


def _import_client(name: str) -> None:
    """Import what the first request through OpenAI's client would, for a third of a second on the event loop."""
    provider, slash, _ = name.partition("/")
    others = {"anthropic", "bedrock", "gemini", "vertex_ai", "ollama", "cohere"}
    if provider.startswith("claude") or (slash and provider in others):
        return
    with litellm_setup.collector_paused():
        import openai.resources.chat  # noqa: F401  # imported for what it takes with it


def _import_in_thread(name: str) -> "asyncio.Future[Any]":
    """Import litellm in a daemon thread, so that leaving the program does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(library: Any, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(library)
        else:
            future.set_exception(ModelError(f"litellm cannot be imported: {error}", kind="bad_request"))
            future.exception()  # marked as seen, even if no request ever asks for it

    def run() -> None:
        library, failure = None, None
        try:
            library = _import()
            _import_client(name)
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, library, failure)
        except RuntimeError:
            return  # the loop has ended: nobody is waiting
        if library is not None:
            time.sleep(_FIRST_REQUEST_SECONDS)
            with suppress(Exception):  # a failure shows when the tokenizer is needed
                library.token_counter(model="", text="")  # loaded here; litellm would load it on the event loop

    threading.Thread(target=run, name="litellm-import", daemon=True).start()
    return future


async def _close_connections(library: Any) -> None:
    """Close the HTTP clients, which litellm keeps for the whole process, and let it make new ones."""
    await library.close_litellm_async_clients()
    library.in_memory_llm_clients_cache.flush_cache()
    client = vars(library).pop("module_level_aclient", None)
    if client is not None:
        await client.close()
