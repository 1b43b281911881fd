"""What is known of hosted models before litellm is imported: whose key they need, and their window."""

import importlib.util
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

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


def context_window(model: str) -> int | None:
    """Tokens a prompt may have, from litellm's table; None where it does not say."""
    tokens = _entry(model).get("max_input_tokens")
    return int(tokens) if isinstance(tokens, int | float) else None


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
