"""Any model litellm knows, behind the Model port: the one importer of litellm."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from codeagent.core.errors import ModelError
from codeagent.core.messages import ProviderContent
from codeagent.core.model import ModelRequest
from codeagent.llm import litellm_setup
from codeagent.llm.native.anthropic import provider_blocks
from codeagent.llm.provider_model import Pace, ProviderModel
from codeagent.llm.provider_stream import read_stream
from codeagent.llm.provider_tools import MakeProviderTools, content_for, declared_in, sendable
from codeagent.llm.providers import Target, resolve_target, with_v1, without_v1
from codeagent.llm.stream import StreamPiece
from codeagent.llm.wire import Wire, asked_effort, thinking_arguments, to_messages, to_tools

_SEARCH = "web_search_options"
_NO_SEARCHES = ("gemini", "vertex_ai", "vertex_ai_beta", "xai", "groq")
"""litellm drops the search without a word, Gemini's if a request has other tools and xAI's always;
what Groq's finds is not read here, so that nothing could be said of it."""
_NAMES_SEARCHES = ("openai", "azure")
"""Their models search in chat completions only if their names say so, whatever the table says."""
_CONNECT_SECONDS = 30.0

_import_lock = threading.Lock()
_connected: set["LitellmModel"] = set()


class LitellmModel(ProviderModel):
    """A model that litellm reaches.

    litellm is imported by the first request, or by `prepare`, in a thread. One task per request
    reads the connection: cancelling that task closes the socket with every provider.
    """

    _library: "asyncio.Future[Any] | None" = None
    """Set with the target, which every request needs first."""

    async def prepare(self) -> None:
        """Start the import and return at once; only the first request waits for it."""
        if self._library is None:
            self._library = _import_in_thread(self.name)

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

    async def _find_target(self) -> Target:
        library = await self.ready()
        target = resolve_target(library, self.name, self._api_base, self._api_key, os.environ)
        takes = library.get_supported_openai_params(target.bare_name, target.provider) or ()
        passed_on = _SEARCH in takes and target.provider not in _NO_SEARCHES
        self._passes_searches = passed_on and (
            target.provider not in _NAMES_SEARCHES or "search" in target.bare_name
        )
        return target

    async def _arrivals(
        self, target: Target, request: ModelRequest
    ) -> AsyncGenerator[Iterable[StreamPiece], None]:
        library, arguments = await self.ready(), self._arguments(target, request)
        _connected.add(self)
        queue: asyncio.Queue[StreamPiece | Exception | None] = asyncio.Queue()
        responses = list[Any]()
        reading = _read(library, arguments, queue, responses, self._provider_tools)
        reader = asyncio.create_task(reading)
        try:
            piece = await queue.get()
            if self._pacing is not None:  # some of litellm's providers leave no response
                self._pacing.answered(responses[-1].headers if responses else {})
            while piece is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield (piece,)
                piece = await queue.get()
        finally:
            reader.cancel()
            await asyncio.wait({reader})

    def _arguments(self, target: Target, request: ModelRequest) -> dict[str, Any]:
        """Return the keyword arguments for litellm's `acompletion`."""
        thinking, thinks = asked_effort(self._thinking, target.family, request.messages)
        own = declared_in(request, target)
        tools = [
            *to_tools(request.tools, target.family),
            *(one.tool for one in own if one.tool is not None),
        ]
        arguments: dict[str, Any] = {
            "model": target.wire_name,
            "messages": _messages(target, request, thinks=thinks),
            "tools": tools or None,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": target.max_tokens,
            "timeout": _timeout(self._idle),
            "max_retries": 0,
            # Without this, any request with tools imports litellm's proxy server and the mcp
            # library.
            "_skip_mcp_handler": True,
            "api_base": _base(target, self._api_base),
            "api_key": target.api_key,
        }
        arguments |= {name: value for one in own for name, value in one.fields.items()}
        return arguments | thinking_arguments(
            thinking, target.family, target.max_tokens, target.facts, target.room
        )


def _base(target: Target, api_base: str | None) -> str | None:
    """Return the address as litellm wants it, whichever way the user wrote it."""
    if api_base is None or target.family == "anthropic":
        return api_base and without_v1(api_base)
    return with_v1(api_base) if target.provider == "openai" else api_base


def _messages(target: Target, request: ModelRequest, *, thinks: bool) -> list[Wire]:
    """Return what litellm is given; to Anthropic, answers that used its tools go back as they
    came."""
    request = replace(request, messages=tuple(sendable(request.messages)))
    system, *messages = to_messages(
        request, target.family, error_flag=target.error_flag, thinking=thinks
    )
    if target.family != "anthropic":
        return [system, *messages] if request.system else messages
    as_sent = zip(messages, (content_for(each, target) for each in request.messages), strict=True)
    return [
        system,
        *(
            one if content is None else _answer(one, content, thinks=thinks)
            for one, content in as_sent
        ),
    ]


def _answer(wire: Wire, content: ProviderContent, *, thinks: bool) -> Wire:
    blocks: Wire = {"role": "assistant", "content": [*provider_blocks(content, (), thinks=thinks)]}
    return blocks | {name: wire[name] for name in ("tool_calls",) if name in wire}


async def _read(
    library: Any,
    arguments: dict[str, Any],
    queue: "asyncio.Queue[StreamPiece | Exception | None]",
    responses: list[Any],
    tools: MakeProviderTools,
) -> None:
    """Send the request and pass every piece on, after an empty one; the queue ends with None or
    what went wrong. `responses` gets those that are opened.

    Cancelled while it gives way to the event loop, the task is not reading: so the response is
    closed in any case.
    """
    pace = Pace()
    litellm_setup.OPENED.set(responses)
    try:
        wrapper = await library.acompletion(**arguments)
        queue.put_nowait(StreamPiece())
        async for piece in read_stream(wrapper, tools):
            queue.put_nowait(piece)
            await pace.keep()
    except Exception as error:
        queue.put_nowait(error)
    else:
        queue.put_nowait(None)
    finally:
        for response in responses:
            with suppress(Exception):
                await response.aclose()


def _timeout(idle: float) -> Any:
    """Return a timeout per read: an answer may take as long as it likes while it keeps coming."""
    import httpx

    return httpx.Timeout(idle, connect=min(idle, _CONNECT_SECONDS))


def _import() -> Any:
    """Import litellm and set it up; return it. Raises whatever goes wrong with either, again each
    time."""
    with _import_lock:
        return _import_once()


@cache
def _import_once() -> Any:
    litellm_setup.set_environment()
    with litellm_setup.collector_paused():
        import litellm
    litellm_setup.silence(litellm)
    litellm_setup.stub_proxy_gateway()
    litellm_setup.verify_certificates(litellm)
    litellm_setup.reach_this_machine_directly(litellm)
    litellm_setup.patch_error_flags(litellm)
    litellm_setup.patch_native_streaming(litellm)
    litellm_setup.patch_responses(litellm)
    litellm_setup.defer_tokenizer(litellm)
    return litellm


def _import_client(name: str) -> None:
    """Import what the first request through OpenAI's client would, for a third of a second on the
    event loop."""
    provider, slash, _ = name.partition("/")
    others = {"anthropic", "bedrock", "gemini", "vertex_ai", "ollama", "cohere"}
    if provider.startswith("claude") or (slash and provider in others):
        return
    with litellm_setup.collector_paused():
        import openai.resources.chat.completions.completions as client
    litellm_setup.send_as_given(client)


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
            future.set_exception(
                ModelError(f"litellm cannot be imported: {error}", kind="bad_request")
            )
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

    threading.Thread(target=run, name="litellm-import", daemon=True).start()
    return future


async def _close_connections(library: Any) -> None:
    """Close the HTTP clients, which litellm keeps for the whole process, and let it make new
    ones."""
    await library.close_litellm_async_clients()
    library.in_memory_llm_clients_cache.flush_cache()
    client = vars(library).pop("module_level_aclient", None)
    if client is not None:
        await client.close()
