"""What a user's own model server says about a model: its window, and whether its template has
tools."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.llm.catalog import whole_number
from codeagent.llm.providers import server_root
from codeagent.net.http import HttpClient

_SECONDS = 2.0
"""For all questions together: the first screen waits for them."""
_LARGEST = 4 << 20
_LENGTHS = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "max_context_length",
    "context_window",
)
"""Where a list of models has the window: vLLM and SGLang, LM Studio, OpenRouter and others."""
_NUM_CTX = lazy_regex(r"^\s*num_ctx\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class ServedModel:
    """None: the server does not say."""

    window: int | None = None
    """In tokens, for the prompt and the answer together."""
    tools: bool | None = None
    """Whether the model's chat template shows it tools."""
    images: bool | None = None
    """Whether the model sees images."""


async def ask_server(base: str, headers: Mapping[str, str], model: str) -> ServedModel | None:
    """Ask llama-server, vLLM, LM Studio and Ollama in their own ways; None if nothing answers.

    `base` is an address as the user may give it, see `server_root`; no text of a conversation is
    sent, and no redirect is followed.
    """
    root, query = server_root(base)
    client = HttpClient(_SECONDS)
    show = json.dumps({"model": model}).encode()
    try:
        async with asyncio.timeout(_SECONDS):
            answers = await asyncio.gather(
                json_of(client, "GET", f"{root}/props{query}", headers),
                json_of(client, "GET", f"{root}/v1/models{query}", headers),
                json_of(client, "GET", f"{root}/api/v0/models{query}", headers),
                json_of(client, "POST", f"{root}/api/show{query}", headers, show),
                json_of(client, "GET", f"{root}/api/ps{query}", headers),
            )
    except TimeoutError:
        return None
    finally:
        await client.close()
    if all(answer is None for answer in answers):
        return None
    props, listed, studio, shown, running = (answer or {} for answer in answers)
    return _joined(
        _of_llama_server(props),
        _of_ollama(shown, _entry(running, model)),
        _listed(studio, model),
        _listed(listed, model),
    )


def _joined(*said: ServedModel) -> ServedModel:
    """Return what the first that knows says about each."""
    windows = (one.window for one in said if one.window)
    tools = (one.tools for one in said if one.tools is not None)
    images = (one.images for one in said if one.images is not None)
    return ServedModel(next(windows, None), next(tools, None), next(images, None))


def _of_llama_server(props: dict[str, Any]) -> ServedModel:
    settings, caps = props.get("default_generation_settings"), props.get("chat_template_caps")
    senses = props.get("modalities")
    images = senses.get("vision") if isinstance(senses, dict) else None
    window = whole_number(settings.get("n_ctx")) if isinstance(settings, dict) else None
    tools = caps.get("supports_tools") if isinstance(caps, dict) else None
    return ServedModel(
        window,
        tools if isinstance(tools, bool) else None,
        images if isinstance(images, bool) else None,
    )


def _of_ollama(shown: dict[str, Any], running: dict[str, Any]) -> ServedModel:
    """Ollama cuts prompts at the window that it loaded the model with, which may be far below the
    model's own."""
    capabilities, info, set_to = (
        shown.get(name) for name in ("capabilities", "model_info", "parameters")
    )
    own = (
        next((value for key, value in info.items() if key.endswith(".context_length")), None)
        if isinstance(info, dict)
        else None
    )
    told = _NUM_CTX.search(set_to) if isinstance(set_to, str) else None
    window = whole_number(running.get("context_length")) or (
        int(told[1]) if told else whole_number(own)
    )
    if not isinstance(capabilities, list):
        return ServedModel(window)
    return ServedModel(window, "tools" in capabilities, "vision" in capabilities)


def _listed(answer: dict[str, Any], model: str) -> ServedModel:
    entry = _entry(answer, model)
    meta = entry.get("meta")
    lengths = (whole_number(entry.get(name)) for name in _LENGTHS)
    window = next(filter(None, lengths), None) or (
        whole_number(meta.get("n_ctx")) if isinstance(meta, dict) else None
    )
    capabilities = entry.get("capabilities")
    # LM Studio lists `tool_use`; an empty or foreign list says nothing.
    tools = True if isinstance(capabilities, list) and "tool_use" in capabilities else None
    # Its list of the user's own models says `vlm` of those that see images, and `llm` of others.
    images = {"vlm": True, "llm": False}.get(str(entry.get("type")))
    return ServedModel(window, tools, images)


def _entry(answer: dict[str, Any], model: str) -> dict[str, Any]:
    """Return the model's entry in a list; the only one, if it has another name."""
    found = answer.get("data", answer.get("models"))
    entries = (
        [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    )
    named = (
        entry
        for entry in entries
        if model in (entry.get("id"), entry.get("model"), entry.get("name"))
    )
    return next(named, entries[0] if len(entries) == 1 else {})


async def json_of(
    client: HttpClient, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> dict[str, Any] | None:
    """Return the JSON object that the server answers; empty if it answers anything else, None if it
    does not answer."""
    status, answer = await answer_of(client, method, url, headers, body)
    if status is None:
        return None
    return object_of(answer) if status == 200 else {}


async def answer_of(
    client: HttpClient, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int | None, bytes]:
    """Return the status, None if the server does not answer, and the body, empty if it is too
    long."""
    answer = bytearray()
    try:
        async with client.send(method, url, headers, body) as response:
            while chunk := await response.read():
                answer += chunk
                if len(answer) > _LARGEST:
                    return response.status, b""
            return response.status, bytes(answer)
    except ValueError:  # not an answer in HTTP
        return 0, b""
    except Exception:  # whatever a connection can break with: the first request says it
        return None, b""


def object_of(answer: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer; empty if it is not one."""
    try:
        decoded = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
