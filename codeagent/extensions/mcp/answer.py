"""Turns a server's answer to a call into a result for model and user: bounded, and harmless to a
terminal."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from codeagent.core.messages import ContentPart, ImagePart, TextPart, text_of
from codeagent.core.sanitize import one_line, visible
from codeagent.core.tool import Failed, ToolResult

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LARGEST_IMAGE = 20 << 20
_MOST_IMAGES = 8
_MOST_BLOCKS = 200


def result_of(
    server: str, answer: Mapping[str, Any], misfits: Callable[[object], str] | None = None
) -> ToolResult:
    """Return the result of a `CallToolResult`, given as a JSON object. Raises Failed if it says
    that it is an error.

    `misfits` returns what is wrong with its structured content, if the tool has an output schema;
    empty if it is valid.
    """
    blocks = [block for block in answer.get("content") or () if isinstance(block, Mapping)]
    content = tuple(_joined(_parts(server, blocks[:_MOST_BLOCKS])))
    if len(blocks) > _MOST_BLOCKS:
        content += (TextPart(text=f"[{len(blocks) - _MOST_BLOCKS} more blocks were left out]"),)
    structured = answer.get("structuredContent")
    if structured is not None and not any(isinstance(part, TextPart) for part in content):
        content += (TextPart(text=visible(json.dumps(structured, indent=2, ensure_ascii=False))),)
    content = content or (TextPart(text="(no output)"),)
    if answer.get("isError") is True:
        said = next((part.text for part in content if isinstance(part, TextPart)), "")
        raise Failed(
            one_line(said, 300) or f"{server} reported an error without a text", content=content
        )
    if misfits is not None:
        wrong = "it is missing" if structured is None else misfits(structured)
        said = f"[The structured result does not match the schema of {server}: {wrong}. Do not rely on its form.]"
        content += (TextPart(text=said),) if wrong else ()
    return ToolResult(content=content)


def _joined(parts: Iterable[ContentPart]) -> Iterator[ContentPart]:
    """Join consecutive texts."""
    for is_text, found in groupby(parts, lambda part: isinstance(part, TextPart)):
        joined = tuple(found)
        yield from (TextPart(text=text_of(joined)),) if is_text else joined


def _parts(server: str, blocks: Iterable[Mapping[str, Any]]) -> Iterator[ContentPart]:
    images = 0
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                yield TextPart(text=visible(text))
            case {"type": "image", "data": str(data), "mimeType": str(media_type)}:
                images += 1
                yield _image(data, media_type, images)
            case {"type": "resource", "resource": {"uri": uri, "text": str(text)}}:
                yield TextPart(text=f"[resource {one_line(str(uri), 300)}]\n{visible(text)}")
            case {"type": "resource", "resource": {"uri": uri, "blob": str(blob)}}:
                yield TextPart(
                    text=f"[resource {one_line(str(uri), 300)}: {len(blob) * 3 // 4:,} bytes, not shown]"
                )
            case {"type": "resource_link", "uri": uri}:
                name = one_line(str(block.get("name") or ""), 100)
                yield TextPart(text=f"[resource {one_line(str(uri), 300)} of {server}: {name}]")
            case {"type": "audio", "data": str(data)}:
                yield TextPart(text=f"[audio: {len(data) * 3 // 4:,} bytes, not shown]")
            case _:
                yield TextPart(text=f"[{one_line(str(block.get('type')), 40)}: not shown]")


def _image(data: str, media_type: str, number: int) -> ContentPart:
    if media_type not in _IMAGES:
        return TextPart(text=f"[image of type {one_line(media_type, 60)}: not shown]")
    if number > _MOST_IMAGES:
        return TextPart(text=f"[image {number}: not shown, at most {_MOST_IMAGES} are]")
    if len(data) * 3 // 4 > _LARGEST_IMAGE:
        return TextPart(text=f"[image of more than {_LARGEST_IMAGE >> 20} MiB: not shown]")
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return TextPart(text="[image that is not base64: not shown]")
    return ImagePart(media_type=media_type, data=data)
