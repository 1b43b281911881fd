"""What a provider's own tools did, read from an answer: bounded, and harmless to a terminal, as
strangers wrote it."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from codeagent.core.messages import ImagePart
from codeagent.core.model import ProviderUse
from codeagent.core.sanitize import one_line, visible
from codeagent.llm.provider_tools import objects_in, sources_of

_LONGEST_OUTPUT = 20_000
_LARGEST_IMAGE = 32 << 20
_TARGETS = ("query", "queries", "url", "command", "code", "path", "pattern")
"""Where the input of a call, or an item of OpenAI's, says what it is for."""
_NAMES = {"code_interpreter_call": "code_execution", "image_generation_call": "image_generation"}
"""Of items of OpenAI's responses, if not that of their type."""
_IMAGES = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


def of_block(call: Mapping[str, Any], result: Mapping[str, Any]) -> ProviderUse:
    """Read a call of Anthropic's, empty if an earlier answer made it, and its `…_tool_result`
    block."""
    name = str(call.get("name") or str(result.get("type")).removesuffix("_tool_result"))
    tool = "code_execution" if name.endswith("code_execution") else one_line(name, 60)
    content = result.get("content")
    if isinstance(content, list):
        return ProviderUse(
            tool=tool, target=_target(call.get("input")), sources=sources_of(content)
        )
    found = content if isinstance(content, dict) else {}
    said = [found.get(name) for name in ("stdout", "stderr", "content")]
    code = found.get("return_code")
    failed = found.get("error_code") or (f"exit {code}" if code else "")
    files = [one.get("file_id") for one in objects_in(found.get("content"))]
    return ProviderUse(
        tool=tool,
        target=_target(call.get("input")),
        output=_output(said),
        sources=sources_of([found]),
        files=tuple(one_line(str(name), 200) for name in files if name),
        error=one_line(str(failed), 200),
    )


def of_item(item: Mapping[str, Any]) -> ProviderUse:
    """Read an item of OpenAI's responses: a call that OpenAI ran."""
    kind = str(item.get("type"))
    action = item.get("action")
    outputs = objects_in(item.get("outputs"))
    status = item.get("status")
    urls = [one.get("url") for one in outputs if one.get("type") == "image"]
    made = _image(item.get("result"), f"image/{item.get('output_format') or 'png'}")
    return ProviderUse(
        tool=_NAMES.get(kind) or one_line(kind.removesuffix("_call"), 60),
        target=_target(action)
        or _target(item)
        or one_line(str(item.get("revised_prompt") or ""), 200),
        output=_output([one.get("logs") for one in outputs]),
        sources=sources_of(objects_in(action.get("sources")) if isinstance(action, dict) else ()),
        images=tuple(image for image in (made, *map(_linked, urls)) if image is not None),
        error=""
        if status in (None, "completed", "in_progress", "generating")
        else one_line(str(status), 200),
    )


def cited_files(found: Iterable[Any]) -> tuple[str, ...]:
    """Return the names and ids of the files that citations of OpenAI's name; they stay in its
    container."""
    files = (one for one in objects_in(found) if one.get("type") == "container_file_citation")
    return tuple(one_line(f"{one.get('filename')} ({one.get('file_id')})", 300) for one in files)


def _target(given: Any) -> str:
    values = [given.get(name) for name in _TARGETS] if isinstance(given, dict) else []
    first = next((value for value in values if value), "")
    return one_line("; ".join(map(str, first)) if isinstance(first, list) else str(first), 200)


def _output(said: Iterable[Any]) -> str:
    text = visible(
        "\n".join(part.strip("\n") for part in said if isinstance(part, str) and part.strip())
    )
    if len(text) <= _LONGEST_OUTPUT:
        return text
    return (
        f"{text[:_LONGEST_OUTPUT]}\n[… {len(text):,} characters in all; the provider has the rest]"
    )


def _linked(url: Any) -> ImagePart | None:
    """Read an image that is in its own address; nothing is fetched."""
    kind, comma, data = str(url).removeprefix("data:").partition(";base64,")
    return _image(data, kind) if comma else None


def _image(data: Any, media_type: str) -> ImagePart | None:
    """Return the image; None if it is not an image, or too large."""
    if (
        not isinstance(data, str)
        or not data
        or media_type not in _IMAGES.values()
        or len(data) > _LARGEST_IMAGE
    ):
        return None
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return ImagePart(media_type=media_type, data=data)
