"""Tries an API key on its provider before it is kept."""

import asyncio
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass
from codeagent.llm.providers import providers


@dataclass(frozen=True)
class _Trial:
    path: str = "/models"
    """Needs a valid key, and costs nothing."""
    header: str = "Authorization"
    """Where the key goes."""
    base: str | None = None
    """Where the path is, if not below the provider's address."""


_TRIALS = {
    "anthropic": _Trial("/v1/models", "x-api-key"),
    "openai": _Trial(),
    "gemini": _Trial("/v1beta/models", "x-goog-api-key"),
    "mistral": _Trial(),
    "deepseek": _Trial(base="https://api.deepseek.com"),
    "xai": _Trial(),
    "groq": _Trial(),
    "openrouter": _Trial("/key"),
}
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
    from codeagent.llm.server_details import answer_of  # not needed before a key is pasted
    from codeagent.net.http import HttpClient

    trial, row = _TRIALS[provider], providers()[provider]
    base = (row.custom_base(environment) or trial.base or row.base or "").rstrip("/")
    host = urlsplit(base).netloc or base
    sent = f"Bearer {key}" if trial.header == "Authorization" else key
    headers = {trial.header: sent, "anthropic-version": "2023-06-01"}
    client = HttpClient(_TRIAL_SECONDS)
    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            status, _ = await answer_of(client, "GET", base + trial.path, headers)
    except TimeoutError:
        status = None
    finally:
        await client.close()
    if not status:
        return KeyTrial("unknown", f"not tried: cannot reach {host}")
    if status == 200:
        return KeyTrial("accepted", f"accepted by {host}")
    # Gemini answers 400 to an invalid key.
    if status in (401, 403) or (status == 400 and trial.header == "x-goog-api-key"):
        return KeyTrial("refused", f"refused by {host} (status {status})")
    return KeyTrial("unknown", f"not tried: {host} answered with status {status}")
