"""Streams of answers in which a provider used tools of its own, as the three wire formats have
them."""

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

PNG = "iVBORw0KGgo="
"""The start of a PNG file, in base64."""
SEARCH: Json = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "größe"},
}
FOUND: Json = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "title": "Size\x1b]0;x\x07 matters",
            "url": "https://example.org/size",
            "encrypted_content": "opaque/+==",
            "page_age": None,
        }
    ],
}
CITED: Json = {
    "type": "text",
    "text": "It is large.",
    "citations": [
        {
            "type": "web_search_result_location",
            "url": "https://example.org/size",
            "title": "Size matters",
            "encrypted_index": "place==",
            "cited_text": "large",
        }
    ],
}


def anthropic_answer(blocks: Sequence[Json], stop: str = "end_turn", searches: int = 0) -> bytes:
    """Events of Anthropic's messages: texts, inputs and citations come in pieces."""
    events: list[Json] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 100, "output_tokens": 1}}}
    ]
    for index, block in enumerate(blocks):
        begun, deltas = _begun(block)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": 20, "server_tool_use": {"web_search_requests": searches}}
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage})
    return stream([*events, {"type": "message_stop"}])


def _begun(block: Json) -> tuple[Json, list[Json]]:
    match block:
        case {"type": "text", "text": text}:
            cited = [
                {"type": "citations_delta", "citation": citation}
                for citation in block.get("citations", ())
            ]
            return {"type": "text", "text": ""}, [*cited, {"type": "text_delta", "text": text}]
        case {"type": "thinking"}:
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [thought, signature]
        case {"input": given}:
            text = json.dumps(given)
            parts = [
                {"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])
            ]
            return {**block, "input": {}}, parts
        case _:
            return block, []


def responses_answer(items: Sequence[Json]) -> bytes:
    """Events of OpenAI's responses: what each item was when it ended, and the whole answer at the
    end."""
    events: list[Json] = []
    for index, item in enumerate(items):
        for part in item.get("content", ()) if item["type"] == "message" else ():
            delta = {
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "content_index": 0,
            }
            events.append({**delta, "output_index": index, "delta": part["text"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    whole = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "tools": [],
    }
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    whole |= {"parallel_tool_calls": True, "output": list(items), "usage": usage}
    return stream([*events, {"type": "response.completed", "response": whole}])


def stream(events: Sequence[Json]) -> bytes:
    return b"".join(
        f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )
