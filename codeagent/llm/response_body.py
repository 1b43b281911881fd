"""Checks the body of a provider's 200 response before litellm reads it as a stream.

litellm skips every line that is not an event, so a login page, an error as JSON and a whole completion all look
like a stream that was cut before its first byte. Here a whole completion becomes the events it stands for, and
anything else becomes an error that says what came. Imported after litellm: it needs httpx.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

from codeagent.llm.errors import NotAStream

_EVENT = re.compile(rb"(?:data|event|id|retry)[ \t]*:|:")
_ENOUGH = len(b"event :")
"""Bytes needed to tell an event from anything else."""
_BLANK = b" \t\r\n\xef\xbb\xbf"
_LARGEST = 16 << 20
_OTHER_STREAMS = ("ndjson", "jsonl", "json-seq", "eventstream")
"""Parts of the content types of streams without server-sent events: Ollama's and Amazon's."""


def watch_responses(transport: type[Any]) -> None:
    """Check every response to a request for a stream that this transport class of litellm's gets."""
    send = transport.handle_async_request

    async def send_and_check(self: Any, request: httpx.Request) -> httpx.Response:
        response: httpx.Response = await send(self, request)
        content_type = response.headers.get("content-type", "").lower()
        if response.status_code != 200 or any(name in content_type for name in _OTHER_STREAMS):
            return response
        if not (_asks_for_stream(request) or "html" in content_type):
            return response
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _CheckedBody(_decoded(response), response.stream, request.url.path, content_type)
        response.headers.pop("content-encoding", None)
        return response

    transport.handle_async_request = send_and_check


class _CheckedBody(httpx.AsyncByteStream):
    """The body as events. Iterating raises NotAStream if it is not a stream."""

    def __init__(self, body: AsyncIterator[bytes], source: httpx.AsyncByteStream, path: str, content_type: str) -> None:
        """`body` is `source` without its content encoding; the request's `path` tells the format."""
        self._body, self._source, self._path, self._content_type = body, source, path, content_type

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = b""
        streams = False
        async for chunk in self._body:
            if streams:
                yield chunk
                continue
            begun += chunk
            start = begun.lstrip(_BLANK)
            if len(start) < _ENOUGH:
                continue
            if _EVENT.match(start):
                streams = True
                yield begun
            elif len(begun) > _LARGEST:
                break
        if streams or not begun.strip(_BLANK):
            return
        if _EVENT.match(begun.lstrip(_BLANK)):
            yield begun
            return
        for event in _events(begun, self._path, self._content_type):
            yield f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()

    async def aclose(self) -> None:
        await self._source.aclose()


def _decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body without its content encoding, as it comes."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    encoding = {"content-encoding": response.headers.get("content-encoding", "identity")}
    return httpx.Response(200, headers=encoding, stream=response.stream, request=response.request).aiter_bytes()


def _asks_for_stream(request: httpx.Request) -> bool:
    """Look for `stream` in the path, where Google's requests have it, and in the body, where the others have it."""
    return "stream" in request.url.path.lower() or b'"stream"' in getattr(request, "_content", b"")


def _events(body: bytes, path: str, content_type: str) -> Iterator[dict[str, Any] | str]:
    """Yield the events a provider would have sent for this whole completion. Raises NotAStream if it is not one."""
    try:
        whole = json.loads(body)
    except (ValueError, RecursionError):
        whole = None
    match whole:
        case {"choices": [{"message": dict()}, *_]} if "messages" not in path and "responses" not in path:
            yield _chat_chunk(whole)
            yield "[DONE]"
        case {"type": "message", "content": list(blocks)} if "messages" in path:
            yield from _message_events(whole, blocks)
        case {"object": "response", "output": list(items)} if "responses" in path:
            for index, item in enumerate(items):
                yield from _item_events(index, item)
            yield {"type": "response.completed", "response": whole}
        case _:
            raise NotAStream(body.strip(_BLANK), content_type, whole)


def _chat_chunk(whole: dict[str, Any]) -> dict[str, Any]:
    """Return one chunk with the whole of the first choice."""
    choice = whole["choices"][0]
    delta = dict(choice["message"])
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls) if isinstance(call, dict)]
    finish = choice.get("finish_reason") or "stop"
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {**whole, "object": "chat.completion.chunk", "choices": choices}


def _message_events(whole: dict[str, Any], blocks: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of Anthropic's format."""
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(block for block in blocks if isinstance(block, dict)):
        started, deltas = _block_events(block)
        yield {"type": "content_block_start", "index": index, "content_block": started}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": whole.get("stop_reason") or "end_turn", "stop_sequence": whole.get("stop_sequence")}
    yield {"type": "message_delta", "delta": stop, "usage": whole.get("usage") or {}}
    yield {"type": "message_stop"}


def _block_events(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the block as it begins, and its deltas."""
    match block:
        case {"type": "text", "text": text}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": text}]
        case {"type": "thinking", "thinking": text}:
            signature = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {**block, "thinking": "", "signature": ""}, [{"type": "thinking_delta", "thinking": text}, signature]
        case {"type": "tool_use", "input": given}:
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(given)}]
        case _:
            return block, []


def _item_events(index: int, item: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of one item of OpenAI's responses API."""
    match item:
        case {"type": "message", "content": list(parts)}:
            for part in parts:
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    yield {
                        "type": "response.output_text.delta",
                        "item_id": item.get("id", ""),
                        "output_index": index,
                        "content_index": 0,
                        "delta": part["text"],
                    }
        case {"type": "function_call"}:
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}}
            yield {
                "type": "response.function_call_arguments.delta",
                "item_id": item.get("id", ""),
                "output_index": index,
                "delta": item.get("arguments", ""),
            }
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
