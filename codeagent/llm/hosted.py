"""What is known of hosted models before litellm is imported: whose key they need, if it works, and their window."""

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
"""Provider → the variables litellm takes its key from, the usual one first."""
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
"""Hosted models worth offering; each is in litellm's table and can call tools."""
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
"""Variable → where its provider is, the variables that say so otherwise, what only a good key may ask for, and the
header the key goes in."""
_TRIAL_SECONDS = 8.0
_TABLE = "model_prices_and_context_window_backup.json"


def key_variables(model: str, api_base: str | None) -> tuple[str, ...]:
    """The variables of which one must hold the model's key; empty where none is needed or none is known.

    A server of one's own (`api_base`) is asked without. May read litellm's table (0.1 s).
    """
    if api_base is not None or model == "demo" or model.startswith("script:"):
        return ()
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = str(_entry(model).get("litellm_provider"))
    return _KEYS.get(provider, ())


def own_base(provider: str, environment: Mapping[str, str]) -> str | None:
    """The address of a server that stands in for the provider's own, where a variable names one."""
    return next((base for variable in _KEYS.get(provider, ()) if (base := _own_base(variable, environment))), None)


def usual_host(provider: str) -> str | None:
    """Where the provider's own server is, such as `api.anthropic.com`; None where it is not known."""
    bases = (_LISTS[variable][0] for variable in _KEYS.get(provider, ()) if variable in _LISTS)
    return next((urlsplit(base).netloc for base in bases), None)


def _own_base(variable: str, environment: Mapping[str, str]) -> str | None:
    """The same, for the provider that takes its key from that variable."""
    names = _LISTS[variable][1] if variable in _LISTS else ()
    return next((environment[name] for name in names if environment.get(name)), None)


@dataclass(frozen=True)
class KeyTrial:
    """What a provider made of a key."""

    outcome: Literal["accepted", "refused", "unknown"]
    """unknown: it could not be tried, or the answer says nothing about the key."""
    said: str
    """A phrase: `accepted by api.anthropic.com`."""


async def try_key(variable: str, key: str, environment: Mapping[str, str]) -> KeyTrial:
    """Ask the provider of that variable for something that costs nothing; the key goes nowhere else."""
    if variable not in _LISTS:
        return KeyTrial("unknown", "not tried")
    import httpx  # not needed before a key is pasted

    usual, _, path, header = _LISTS[variable]
    base = (_own_base(variable, environment) or usual).rstrip("/")
    host = urlsplit(base).netloc or base
    headers = {header: f"Bearer {key}" if header == _BEARER else key, "anthropic-version": "2023-06-01"}
    try:
        async with httpx.AsyncClient(timeout=_TRIAL_SECONDS) as client:
            status = (await client.get(base + path, headers=headers)).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return KeyTrial("unknown", f"not tried: cannot reach {host}")
    if status == 200:
        return KeyTrial("accepted", f"accepted by {host}")
    # Gemini answers 400 to a key that is none.
    if status in (401, 403) or (status == 400 and header == "x-goog-api-key"):
        return KeyTrial("refused", f"refused by {host} (status {status})")
    return KeyTrial("unknown", f"not tried: {host} answered with status {status}")


def context_window(model: str) -> int | None:
    """Tokens a prompt may have, from litellm's table; None where it does not say."""
    tokens = _entry(model).get("max_input_tokens")
    return int(tokens) if isinstance(tokens, int | float) else None


def has_price(model: str) -> bool:
    """litellm's table says what it costs, or it costs nothing because it is scripted."""
    return model == "demo" or model.startswith("script:") or "input_cost_per_token" in _entry(model)


def calls_tools(model: str) -> bool:
    return bool(_entry(model).get("supports_function_calling"))


def _entry(model: str) -> dict[str, Any]:
    table = _table()
    entry = table.get(model) or table.get(model.partition("/")[2])
    return entry if isinstance(entry, dict) else {}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    """The table that comes with litellm, read without the two seconds its import takes."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    table = json.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    return table if isinstance(table, dict) else {}
