"""Streams of the three formats, made event by event."""

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def sse(events: Iterable[Json | str]) -> bytes:
    """Return server-sent events; a text is the data of one."""
    return "".join(
        f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in events
    ).encode()


def chat(*deltas: Json, finish: str | None = "stop", **last: Any) -> bytes:
    """Return one event for each delta, one with the reason for stopping, and one with the fields of
    `last`."""
    choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices += [{"index": 0, "delta": {}, "finish_reason": finish}] if finish else []
    events: list[Json] = [
        {"id": "1", "object": "chat.completion.chunk", "choices": [choice]} for choice in choices
    ]
    return sse([*events, *([{"id": "1", "choices": [], **last}] if last else []), "[DONE]"])


def call(arguments: str | None = None, name: str | None = None, **fields: Any) -> Json:
    function = {"arguments": arguments, **({} if name is None else {"name": name})}
    return {"tool_calls": [{"function": function, **fields}]}


def blocks(*parts: tuple[Json, list[Json]], stop: str | None = "end_turn", **usage: int) -> bytes:
    """Return Anthropic's events for blocks, each as it begins and with its deltas."""
    start = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [],
        "stop_reason": None,
    }
    events: list[Json] = [
        {"type": "message_start", "message": {**start, "usage": {"input_tokens": 9, **usage}}}
    ]
    for index, (block, deltas) in enumerate(parts):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "ping"}]
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}}
    )
    return sse([*events, {"type": "message_stop"}])


def text(*pieces: str) -> tuple[Json, list[Json]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]


def use(*pieces: str, **fields: Any) -> tuple[Json, list[Json]]:
    block = {"type": "tool_use", "id": "toolu_01abcd", "name": "read", "input": {}, **fields}
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def responses(*events: tuple[str, Json], status: str = "completed", **whole: Any) -> bytes:
    """Return events of the responses API, and the one with the whole response."""
    lines = [
        {"item_id": "fc_1", "output_index": 0, **fields, "type": f"response.{kind}"}
        for kind, fields in events
    ]
    response = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "output": [],
    }
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    response |= {"parallel_tool_calls": True, "tools": [], "usage": usage, **whole}
    return sse([*lines, {"type": f"response.{status}", "response": response}])
