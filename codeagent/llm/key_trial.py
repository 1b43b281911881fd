"""Tries an API key on its provider before it is kept."""

from collections.abc import Mapping
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.llm.providers import providers

_TRIALS = {
    "anthropic": "",
    "openai": "",
    "gemini": "",
    "mistral": "",
    "deepseek": "",
    "xai": "",
    "groq": "",
    "openrouter": "/key",
}
"""The path that needs a valid key, and costs nothing, at each provider; empty: its list of
models."""
_TRIAL_SECONDS = 8.0


@dataclass(frozen=True)
class KeyTrial:
    """What a provider says about a key."""

    outcome: Literal["accepted", "refused", "unknown"]
    """unknown: the key could not be tried, or the answer says nothing about it."""
    said: str
    """A phrase, such as `accepted by api.anthropic.com`."""


async def try_key(variable: str, key: str, environment: Mapping[str, str]) -> KeyTrial:
    """Try the key on the provider of that variable, with a request that costs nothing; it goes
    nowhere else."""
    provider = next((name for name in _TRIALS if variable in providers()[name].keys), None)
    if provider is None:
        return KeyTrial("unknown", "not tried")
    from codeagent.llm.model_lists import ask_provider  # not needed before a key is pasted

    host, status, _ = await ask_provider(
        provider, key, environment, seconds=_TRIAL_SECONDS, path=_TRIALS[provider]
    )
    if status is None:
        return KeyTrial("unknown", f"not tried: cannot reach {host}")
    if status == 200:
        return KeyTrial("accepted", f"accepted by {host}")
    # Gemini answers 400 to an invalid key.
    if status in (401, 403) or (status == 400 and provider == "gemini"):
        return KeyTrial("refused", f"refused by {host} (status {status})")
    return KeyTrial("unknown", f"not tried: {host} answered with status {status}")
