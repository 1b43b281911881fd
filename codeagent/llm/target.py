"""What a model's name stands for: provider, wire name, message family, key and limits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from codeagent.core.errors import ModelError
from codeagent.llm.providers import custom_base, usual_host
from codeagent.llm.wire import Family

_DEFAULT_MAX_TOKENS = 8_192
_LARGEST_DEFAULT = 32_000
_CLAUDE_HOSTS = {"bedrock", "bedrock_converse", "vertex_ai", "azure_ai"}
_NO_KEY = "none"
"""Sent to servers that need no key, since the client libraries insist on one."""


@dataclass(frozen=True)
class Target:
    """Where a request goes, and in which form."""

    wire_name: str
    provider: str
    bare_name: str
    family: Family
    error_flag: bool
    """A failed call's result is flagged as such on the wire."""
    address: str
    """For messages: the server's address as it was given, else the provider's host, else the name of its API."""
    owner: str
    """For messages: who accepts or refuses the key, the provider or the address of a self-hosted server."""
    api_key: str | None
    """None: litellm takes it from the environment itself."""
    context_window: int | None
    max_tokens: int
    priced: bool
    facts: Mapping[str, Any]
    """litellm's entry for the model; empty if it has none."""


def resolve_target(
    library: Any, name: str, api_base: str | None, api_key: str | None, max_tokens: int | None
) -> Target:
    """Find out what `name` stands for; `library` is litellm. Raises ModelError for an unknown name or a missing key."""
    wire_name = _wire_name(library, name, api_base)
    try:
        bare, provider, _, base = library.get_llm_provider(wire_name, api_base=api_base)
    except Exception:
        raise ModelError(
            f"{name}: no provider has this model; write provider/model, as in openai/gpt-5, or give --api-base for"
            " your own server",
            kind="bad_request",
        ) from None
    info = _info(library, name, wire_name, bare)
    known = max_tokens or min(_int(info.get("max_output_tokens")) or _DEFAULT_MAX_TOKENS, _LARGEST_DEFAULT)
    own = api_base or custom_base(provider, os.environ)
    return Target(
        wire_name=wire_name,
        provider=provider,
        bare_name=bare,
        family=_family(provider, bare),
        error_flag=not provider.startswith("bedrock"),
        address=own or usual_host(provider) or urlsplit(base or "").netloc or f"the {provider} API",
        owner=own or provider,
        api_key=api_key or _key(library, name, wire_name, provider, api_base),
        context_window=_int(info.get("max_input_tokens")),
        max_tokens=known,
        priced="input_cost_per_token" in info,
        facts=info,
    )


def _wire_name(library: Any, name: str, api_base: str | None) -> str:
    """Return litellm's name: an address without a provider is OpenAI-compatible; Ollama's tools need its chat API."""
    prefix, slash, rest = name.partition("/")
    if api_base is not None and (not slash or prefix not in {str(p.value) for p in library.provider_list}):
        return f"openai/{name}"
    return f"ollama_chat/{rest}" if prefix == "ollama" and slash else name


def _family(provider: str, bare: str) -> Family:
    return "anthropic" if provider == "anthropic" or (provider in _CLAUDE_HOSTS and "claude" in bare) else "openai"


def _info(library: Any, *names: str) -> dict[str, Any]:
    """Return the entry of litellm's bundled table; its own look-up functions ask local servers over the network."""
    for name in names:
        entry = library.model_cost.get(name)
        if isinstance(entry, dict):
            return entry
    return {}


def _key(library: Any, name: str, wire_name: str, provider: str, api_base: str | None) -> str | None:
    """Return the key to send, None if litellm finds one itself. Raises ModelError naming the missing variable."""
    found = library.validate_environment(wire_name)
    missing = [key for key in found.get("missing_keys", ()) if key.endswith("_API_KEY")]
    if found.get("keys_in_environment") or not missing:
        return None
    own_address = api_base or os.environ.get("OPENAI_BASE_URL" if provider == "openai" else "")
    if own_address:
        return _NO_KEY
    raise ModelError(f"{name}: no key; set {' or '.join(missing)} in the environment", kind="auth")


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
