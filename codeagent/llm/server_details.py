"""Asks servers about their models: the window, and what they can do."""

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.model import ModelFacts
from codeagent.llm.providers import server_root
from codeagent.net.http import HttpClient, http_client

_SECONDS = 2.0
"""For each question; they are asked together, and the first screen waits for them."""
_LARGEST = 4 << 20
_LENGTHS = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "max_context_length",
    "context_window",
    "max_input_tokens",
    "inputTokenLimit",
)
"""Where a list of models has the window: vLLM and SGLang, LM Studio, OpenRouter and others,
Anthropic, Gemini."""
_NUM_CTX = lazy_regex(r"^\s*num_ctx\s+(\d{1,12})\b", re.MULTILINE)
_LARGEST_WINDOW = 10**9


async def ask_server(base: str, headers: Mapping[str, str], model: str) -> ModelFacts | None:
    """Ask llama-server, vLLM, LM Studio and Ollama about a model in their own ways; None if nothing
    answers.

    `base` is an address as the user may give it, see `server_root`; no text of a conversation is
    sent, and no redirect is followed.
    """
    found = await ask_about(base, headers, (model,))
    return None if found is None else found[model]


async def ask_about(
    base: str, headers: Mapping[str, str], models: Sequence[str]
) -> dict[str, ModelFacts] | None:
    """Do as `ask_server`, for several models of a server."""
    root, query = server_root(base)
    async with http_client(2 * _SECONDS) as client:

        async def asked(method: str, path: str, body: bytes | None = None) -> dict[str, Any] | None:
            with suppress(TimeoutError):  # the other answers count nevertheless
                async with asyncio.timeout(_SECONDS):
                    return await json_of(client, method, f"{root}/{path}{query}", headers, body)
            return None

        paths = ("props", "v1/models", "api/v0/models", "api/ps")
        bodies = (json.dumps({"model": model}).encode() for model in models)
        answers, shown = await asyncio.gather(
            asyncio.gather(*(asked("GET", path) for path in paths)),
            asyncio.gather(*(asked("POST", "api/show", body) for body in bodies)),
        )
    if all(answer is None for answer in (*answers, *shown)):
        return None
    props, listed, studio, running = (answer or {} for answer in answers)
    # llama-server's properties are those of the one model that it has loaded.
    first = _of_llama_server(props) if len(models) == 1 else ModelFacts()
    return {
        model: first.or_else(_of_ollama(said or {}, _entry(running, model)))
        .or_else(facts_in(_entry(studio, model)))
        .or_else(facts_in(_entry(listed, model)))
        for model, said in zip(models, shown, strict=True)
    }


def _of_llama_server(props: dict[str, Any]) -> ModelFacts:
    return ModelFacts(
        window=_count(_table(props, "default_generation_settings").get("n_ctx")),
        tools=_first_said(_table(props, "chat_template_caps"), "supports_tools"),
        images=_first_said(_table(props, "modalities"), "vision"),
    )


def _of_ollama(shown: dict[str, Any], running: dict[str, Any]) -> ModelFacts:
    """Ollama cuts prompts at the window that it loaded the model with, which may be far below the
    model's own."""
    info, set_to = _table(shown, "model_info"), shown.get("parameters")
    own = next((value for key, value in info.items() if key.endswith(".context_length")), None)
    told = _NUM_CTX.search(set_to) if isinstance(set_to, str) else None
    window = _count(running.get("context_length")) or _count(int(told[1]) if told else own)
    can = shown.get("capabilities")
    if not isinstance(can, list):
        return ModelFacts(window)
    return ModelFacts(window, "tools" in can, "thinking" in can, "vision" in can)


def facts_in(entry: Mapping[str, Any]) -> ModelFacts:
    """Return what a server says about a model in an entry of its list."""
    can, pricing = _abilities(entry), _table(entry, "pricing")
    lengths = (_count(entry.get(name)) for name in _LENGTHS)
    return ModelFacts(
        window=next(filter(None, lengths), None) or _count(_table(entry, "meta").get("n_ctx")),
        tools=_first_said(can, "tools", "tool_use", "function_calling"),
        thinking=_first_said(can, "thinking", "reasoning"),
        images=_first_said(can, "vision", "image_input", "image"),
        prices=_per_million(pricing.get("prompt"), pricing.get("completion")),
    )


def _abilities(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says about abilities: LM Studio lists those that the model has,
    Anthropic and Mistral have a table, OpenRouter lists parameters and inputs."""
    said: dict[str, Any] = {
        "thinking": entry.get("thinking"),
        "vision": {"vlm": True, "llm": False}.get(str(entry.get("type"))),
    }
    match entry.get("capabilities"):
        case dict(named):
            said |= named
        case list(named):  # an ability that is not in it may still be there
            said |= {name: True for name in named if isinstance(name, str)}
        case _:
            pass
    parameters, inputs = (
        entry.get("supported_parameters"),
        _table(entry, "architecture").get("input_modalities"),
    )
    if isinstance(parameters, list):
        said |= {name: name in parameters for name in ("tools", "reasoning")}
    if isinstance(inputs, list):
        said["image"] = "image" in inputs
    return said


def _first_said(said: Mapping[str, Any], *names: str) -> bool | None:
    """Return the value of the first of these names that has one."""
    for name in names:
        match said.get(name):
            case bool(yes) | {"supported": bool(yes)}:
                return yes
            case _:
                pass
    return None


def _per_million(*per_token: object) -> tuple[float, float] | None:
    """Convert prices per token, which OpenRouter writes as text, to prices per million tokens."""
    try:
        asked, said = (round(float(str(each)) * 1_000_000, 6) for each in per_token)
    except ValueError:
        return None
    return (asked, said) if 0 <= asked < math.inf and 0 <= said < math.inf else None


def _count(value: Any) -> int | None:
    """Return a number of tokens that a window may have; None for anything else."""
    possible = isinstance(value, int | float) and 1 <= value <= _LARGEST_WINDOW
    return int(value) if possible else None


def _table(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table in an answer; empty if it is not one."""
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _entry(answer: dict[str, Any], model: str) -> dict[str, Any]:
    """Return the model's entry in a list; the only one, if it has another name."""
    entries = entries_of(answer)
    named = (
        entry
        for entry in entries
        if model in (entry.get("id"), entry.get("model"), entry.get("name"))
    )
    return next(named, entries[0] if len(entries) == 1 else {})


def entries_of(answer: object) -> list[dict[str, Any]]:
    """Return the entries of a list of models, as most servers, Ollama and Gemini, and Together
    write it."""
    match answer:
        case {"data": list(entries)} | {"models": list(entries)} | list(entries):
            return [entry for entry in entries if isinstance(entry, dict)]
        case _:
            return []


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
    decoded = decoded_in(answer)
    return decoded if isinstance(decoded, dict) else {}


def decoded_in(answer: bytes) -> Any:
    """Return the JSON value in an answer; None if it is not JSON."""
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None
