"""What is known of model providers before litellm is imported: keys, addresses, windows, and local servers."""

import asyncio
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
}
"""The environment variables litellm takes a provider's key from, the usual one first."""
OFFERED = (
    "anthropic/claude-sonnet-5-5",
    "anthropic/claude-opus-5-5",
    "openai/gpt-5.6",
    "openai/gpt-5-mini",
    "gemini/gemini-3.8-flash",
    "mistral/devstral-latest",
    "deepseek/deepseek-v4-pro",
    "xai/grok-4.7",
)
"""Hosted models to offer; each is in litellm's table and supports tool calls."""
_BEARER = "Authorization"
_LISTS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "ANTHROPIC_API_KEY": (
        "https://api.anthropic.com",
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
        "/v1/models",
        "x-api-key",
    ),
    "OPENAI_API_KEY": ("https://api.openai.com/v1", ("OPENAI_API_BASE", "OPENAI_BASE_URL"), "/models", _BEARER),
    "GEMINI_API_KEY": ("https://generativelanguage.googleapis.com", (), "/v1beta/models", "x-goog-api-key"),
    "MISTRAL_API_KEY": ("https://api.mistral.ai/v1", ("MISTRAL_API_BASE",), "/models", _BEARER),
    "DEEPSEEK_API_KEY": ("https://api.deepseek.com", ("DEEPSEEK_API_BASE",), "/models", _BEARER),
    "XAI_API_KEY": ("https://api.x.ai/v1", ("XAI_API_BASE",), "/models", _BEARER),
    "GROQ_API_KEY": ("https://api.groq.com/openai/v1", ("GROQ_API_BASE",), "/models", _BEARER),
    "OPENROUTER_API_KEY": ("https://openrouter.ai/api/v1", ("OPENROUTER_API_BASE",), "/key", _BEARER),
}
"""By the variable of the key: the provider's address, the variables that override it, a path that needs a valid key,
and the header the key goes in."""
_TRIAL_SECONDS = 8.0
_TABLE = "model_prices_and_context_window_backup.json"
_PORTS = {"Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000, "LM Studio": 1234}
_HOSTS = ("127.0.0.1", "::1")
_SECONDS = 0.3
_LARGEST_ANSWER = 1 << 20
_MOST_MODELS = 50
_REQUEST = b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
"""HTTP/1.0, so that the answer comes whole and ends with the connection."""


def key_variables(model: str, api_base: str | None) -> tuple[str, ...]:
    """Return the variables of which one must hold the model's key; empty if none is needed or known.

    A self-hosted server (`api_base`) needs none. May read litellm's table (0.1 s).
    """
    if api_base is not None or model == "demo" or model.startswith("script:"):
        return ()
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = str(_entry(model).get("litellm_provider"))
    return _KEYS.get(provider, ())


def custom_base(provider: str, environment: Mapping[str, str]) -> str | None:
    """Return the address of the server that replaces the provider's own, if a variable names one."""
    return next((base for variable in _KEYS.get(provider, ()) if (base := _custom_base(variable, environment))), None)


def usual_host(provider: str) -> str | None:
    """Return the host of the provider's own server, such as `api.anthropic.com`; None if it is not known."""
    bases = (_LISTS[variable][0] for variable in _KEYS.get(provider, ()) if variable in _LISTS)
    return next((urlsplit(base).netloc for base in bases), None)


def _custom_base(variable: str, environment: Mapping[str, str]) -> str | None:
    """Do as `custom_base`, for the provider that takes its key from that variable."""
    names = _LISTS[variable][1] if variable in _LISTS else ()
    return next((environment[name] for name in names if environment.get(name)), None)


@dataclass(frozen=True)
class KeyTrial:
    """What a provider says about a key."""

    outcome: Literal["accepted", "refused", "unknown"]
    """unknown: the key could not be tried, or the answer says nothing about it."""
    said: str
    """A phrase, such as `accepted by api.anthropic.com`."""


async def try_key(variable: str, key: str, environment: Mapping[str, str]) -> KeyTrial:
    """Try the key on the provider of that variable, with a request that costs nothing; it goes nowhere else."""
    if variable not in _LISTS:
        return KeyTrial("unknown", "not tried")
    import httpx  # not needed before a key is pasted

    usual, _, path, header = _LISTS[variable]
    base = (_custom_base(variable, environment) or usual).rstrip("/")
    host = urlsplit(base).netloc or base
    headers = {header: f"Bearer {key}" if header == _BEARER else key, "anthropic-version": "2023-06-01"}
    try:
        async with httpx.AsyncClient(timeout=_TRIAL_SECONDS) as client:
            status = (await client.get(base + path, headers=headers)).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return KeyTrial("unknown", f"not tried: cannot reach {host}")
    if status == 200:
        return KeyTrial("accepted", f"accepted by {host}")
    # Gemini answers 400 to an invalid key.
    if status in (401, 403) or (status == 400 and header == "x-goog-api-key"):
        return KeyTrial("refused", f"refused by {host} (status {status})")
    return KeyTrial("unknown", f"not tried: {host} answered with status {status}")


def context_window(model: str) -> int | None:
    """Return how many tokens a prompt may have, from litellm's table; None if the table does not say."""
    tokens = _entry(model).get("max_input_tokens")
    return int(tokens) if isinstance(tokens, int | float) else None


def has_price(model: str) -> bool:
    """Tell whether litellm's table has a price, or the model is scripted and costs nothing."""
    return model == "demo" or model.startswith("script:") or "input_cost_per_token" in _entry(model)


def _entry(model: str) -> dict[str, Any]:
    table = _table()
    entry = table.get(model) or table.get(model.partition("/")[2])
    return entry if isinstance(entry, dict) else {}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    """Read the table that comes with litellm, without the two seconds that its import takes."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    table = json.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    return table if isinstance(table, dict) else {}


@dataclass(frozen=True)
class LocalServer:
    """A model server on this machine."""

    name: str
    """The product whose usual port it has."""
    api_base: str
    """The value for `--api-base`."""
    models: tuple[str, ...]
    """As the server names them."""


async def local_servers(seconds: float = _SECONDS) -> tuple[LocalServer, ...]:
    """Find the servers that name at least one model in time, on the usual ports of the products that we know.

    Only loopback is asked, and no redirect is followed.
    """
    return await ask_ports(_PORTS, seconds)


async def ask_ports(ports: dict[str, int], seconds: float) -> tuple[LocalServer, ...]:
    """Do as `local_servers`, for other ports."""
    asked = [_server(name, port, seconds) for name, port in ports.items()]
    return tuple(server for server in await asyncio.gather(*asked) if server is not None)


async def _server(name: str, port: int, seconds: float) -> LocalServer | None:
    """Ask over IPv4 and IPv6; IPv4 counts if both answer."""
    found = await asyncio.gather(*(_models(host, port, seconds) for host in _HOSTS))
    for host, models in zip(_HOSTS, found, strict=True):
        if models:
            address = f"[{host}]" if ":" in host else host
            return LocalServer(name, f"http://{address}:{port}/v1", models)
    return None


async def _models(host: str, port: int, seconds: float) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(seconds):
            return _names(await _answer(host, port))
    except (OSError, ValueError, RecursionError):
        return ()


async def _answer(host: str, port: int) -> bytes:
    """Read the whole answer. Raises OSError, ValueError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_REQUEST)
        answer = bytearray()
        while chunk := await reader.read(65536):
            answer += chunk
            if len(answer) > _LARGEST_ANSWER:
                raise ValueError("the answer is too long")
        return bytes(answer)
    finally:
        writer.close()


def _names(answer: bytes) -> tuple[str, ...]:
    """Read the names of the models. Raises ValueError if the answer is not a list of models."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or words[1] != b"200":
        raise ValueError("not a successful answer")
    match json.loads(body):
        case {"data": list(models)}:
            named = [model["id"] for model in models if isinstance(model, dict) and isinstance(model.get("id"), str)]
            return tuple(name for name in named if name.isprintable() and 0 < len(name) <= 200)[:_MOST_MODELS]
        case _:
            raise ValueError("not a list of models")
