"""Asks hosted providers for their models, which needs a valid key and costs nothing."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError
from codeagent.core.model import ModelFacts
from codeagent.llm.catalog import facts_of
from codeagent.llm.providers import key_headers, providers
from codeagent.llm.server_details import answer_of, decoded_in, entries_of, facts_in
from codeagent.net.http import http_client

_SECONDS = 4.0
"""How long a provider may take; others are shown in the meantime."""
_MOST = 2_000


@dataclass(frozen=True)
class ModelList:
    """Where a provider lists its models."""

    path: str = "/models"
    query: str = ""
    """Asks for all of them at once."""
    base: str | None = None
    """The address that the path is below, if not the provider's."""


_PLACES = {
    "anthropic": ModelList("/v1/models", "?limit=1000"),
    "gemini": ModelList("/v1beta/models", "?pageSize=1000"),
    "deepseek": ModelList(base="https://api.deepseek.com"),
}
"""The lists of providers that do not follow OpenAI's format."""


def lists_models(provider: str) -> bool:
    """Tell whether a provider can be asked for its models with a key."""
    row = providers()[provider]
    return bool(row.keys and row.base and (row.format or provider in _PLACES))


async def models_of(
    provider: str, key: str, environment: Mapping[str, str]
) -> dict[str, ModelFacts]:
    """Return what is known of each model that the key may use, by its name for `--model`, the
    newest first if the provider says so.

    Raises ModelError, whose text is a phrase, if the provider does not list any in time.
    """
    place = _PLACES.get(provider, ModelList())
    host, status, body = await ask_provider(
        provider, key, environment, seconds=_SECONDS, path=place.path + place.query
    )
    if status is None:
        raise ModelError(f"no answer from {host}", kind="connection")
    if status in (401, 403):
        raise ModelError(f"the key was refused by {host}", kind="auth")
    entries = sorted(entries_of(decoded_in(body)) if status == 200 else (), key=_age)
    if not entries:
        raise ModelError(f"{host} listed no models (status {status})", kind="server")
    return await asyncio.to_thread(_known, provider, entries[:_MOST])


async def ask_provider(
    provider: str, key: str, environment: Mapping[str, str], *, seconds: float, path: str = ""
) -> tuple[str, int | None, bytes]:
    """Ask a provider for its models, or for another path that needs a key, which goes nowhere else.

    Returns its host, the status, None if nothing came in time, and the body.
    """
    place, row = _PLACES.get(provider, ModelList()), providers()[provider]
    base = (row.custom_base(environment) or place.base or row.base or "").rstrip("/")
    headers = (
        {"x-goog-api-key": key} if provider == "gemini" else key_headers(provider, key, environment)
    )
    try:
        async with http_client(seconds) as client:
            status, body = await answer_of(client, "GET", base + (path or place.path), headers)
    except TimeoutError:
        status, body = None, b""
    return urlsplit(base).netloc or base, status or None, body


def _known(provider: str, entries: list[dict[str, Any]]) -> dict[str, ModelFacts]:
    """Return what the provider says, completed from the table; blocks on a file."""
    found: dict[str, ModelFacts] = {}
    for entry in entries:
        given = str(entry.get("id") or entry.get("name") or "").removeprefix("models/")
        name = f"{provider}/{given}"
        if not given.isprintable() or not 0 < len(given) <= 200:
            continue
        if (known := facts_of(name)) is not None:
            found[name] = facts_in(entry).or_else(known)
    return found


def _age(entry: dict[str, Any]) -> float:
    """Return a number that is smaller for a newer model, the same if that is not known."""
    created = entry.get("created")
    return -created if isinstance(created, int | float) else 0
