"""What is known about models: providers' keys, addresses and limits, what a name stands for, and local servers."""

import asyncio
import importlib.util
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError
from codeagent.llm.wire import Family


@dataclass(frozen=True)
class _Provider:
    keys: tuple[str, ...]
    """The environment variables litellm takes its key from, the usual one first."""
    address: str = ""
    """Of its own server; empty if it is not known, so that no key is tried there."""
    address_variables: tuple[str, ...] = ()
    """Variables that override the address."""
    path: str = "/models"
    """Needs a valid key, and costs nothing."""
    header: str = "Authorization"
    """Where the key goes."""

    def custom_base(self, environment: Mapping[str, str]) -> str | None:
        """Return the address of the server that replaces the provider's own, if a variable names one."""
        return next((environment[name] for name in self.address_variables if environment.get(name)), None)


_PROVIDERS = {
    "anthropic": _Provider(
        ("ANTHROPIC_API_KEY",),
        "https://api.anthropic.com",
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
        "/v1/models",
        "x-api-key",
    ),
    "openai": _Provider(("OPENAI_API_KEY",), "https://api.openai.com/v1", ("OPENAI_API_BASE", "OPENAI_BASE_URL")),
    "gemini": _Provider(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "https://generativelanguage.googleapis.com",
        (),
        "/v1beta/models",
        "x-goog-api-key",
    ),
    "mistral": _Provider(("MISTRAL_API_KEY",), "https://api.mistral.ai/v1", ("MISTRAL_API_BASE",)),
    "deepseek": _Provider(("DEEPSEEK_API_KEY",), "https://api.deepseek.com", ("DEEPSEEK_API_BASE",)),
    "xai": _Provider(("XAI_API_KEY",), "https://api.x.ai/v1", ("XAI_API_BASE",)),
    "groq": _Provider(("GROQ_API_KEY",), "https://api.groq.com/openai/v1", ("GROQ_API_BASE",)),
    "openrouter": _Provider(("OPENROUTER_API_KEY",), "https://openrouter.ai/api/v1", ("OPENROUTER_API_BASE",), "/key"),
    "moonshot": _Provider(("MOONSHOT_API_KEY",)),
    "together_ai": _Provider(("TOGETHERAI_API_KEY",)),
    "fireworks_ai": _Provider(("FIREWORKS_AI_API_KEY",)),
    "cerebras": _Provider(("CEREBRAS_API_KEY",)),
}
_UNKNOWN = _Provider(())
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
_DEFAULT_MAX_TOKENS = 8_192
_LARGEST_DEFAULT = 32_000
_CLAUDE_HOSTS = {"bedrock", "bedrock_converse", "vertex_ai", "azure_ai"}
_NO_KEY = "none"
"""Sent to servers that need no key, since the client libraries insist on one."""
_JSON = {"content-type": "application/json", "accept": "application/json"}
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
    if api_base is not None or _is_scripted(model):
        return ()
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = str(_entry(model).get("litellm_provider"))
    return _PROVIDERS.get(provider, _UNKNOWN).keys


def _is_scripted(model: str) -> bool:
    return model == "demo" or model.startswith("script:")


@dataclass(frozen=True)
class KeyTrial:
    """What a provider says about a key."""

    outcome: Literal["accepted", "refused", "unknown"]
    """unknown: the key could not be tried, or the answer says nothing about it."""
    said: str
    """A phrase, such as `accepted by api.anthropic.com`."""


async def try_key(variable: str, key: str, environment: Mapping[str, str]) -> KeyTrial:
    """Try the key on the provider of that variable, with a request that costs nothing; it goes nowhere else."""
    provider = next((known for known in _PROVIDERS.values() if variable in known.keys), _UNKNOWN)
    if not provider.address:
        return KeyTrial("unknown", "not tried")
    import httpx  # not needed before a key is pasted

    base = (provider.custom_base(environment) or provider.address).rstrip("/")
    host = urlsplit(base).netloc or base
    sent = f"Bearer {key}" if provider.header == "Authorization" else key
    headers = {provider.header: sent, "anthropic-version": "2023-06-01"}
    try:
        async with httpx.AsyncClient(timeout=_TRIAL_SECONDS) as client:
            status = (await client.get(base + provider.path, headers=headers)).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return KeyTrial("unknown", f"not tried: cannot reach {host}")
    if status == 200:
        return KeyTrial("accepted", f"accepted by {host}")
    # Gemini answers 400 to an invalid key.
    if status in (401, 403) or (status == 400 and provider.header == "x-goog-api-key"):
        return KeyTrial("refused", f"refused by {host} (status {status})")
    return KeyTrial("unknown", f"not tried: {host} answered with status {status}")


def context_window(model: str) -> int | None:
    """Return how many tokens a prompt may have, from litellm's table; None if the table does not say."""
    return _int(_entry(model).get("max_input_tokens"))


def has_price(model: str) -> bool:
    """Tell whether litellm's table has a price, or the model is scripted and costs nothing."""
    return _is_scripted(model) or "input_cost_per_token" in _entry(model)


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


WireFormat = Literal["chat", "responses", "anthropic"]
"""OpenAI's chat completions, OpenAI's responses, and Anthropic's messages."""


@dataclass(frozen=True)
class Endpoint:
    """What a request is posted to without litellm."""

    format: WireFormat
    url: str
    """Whole, with the path."""
    headers: Mapping[str, str]
    """Content type, key, version and beta headers; the key is in them, so they are never shown."""


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
    endpoint: Endpoint | None = None
    """None: only litellm reaches it."""


def native_target(
    name: str, api_base: str | None, api_key: str | None, environment: Mapping[str, str]
) -> Target | None:
    """Find out what `name` stands for without litellm; None if only litellm reaches it.

    Raises ModelError for a missing key.
    """
    provider, slash, bare = name.partition("/")
    if provider not in ("openai", "anthropic") or not slash:
        if api_base is None:
            return None
        provider, bare = "openai", name
    known = _PROVIDERS[provider]
    own = api_base or known.custom_base(environment)
    base = (own or known.address).rstrip("/")
    variable = known.keys[0]
    key = api_key or environment.get(variable) or (_NO_KEY if own else None)
    if key is None:
        raise ModelError(f"{name}: no key; set {variable} in the environment", kind="auth")
    if provider == "anthropic":
        url = base if base.endswith("/v1/messages") else f"{base}/v1/messages"
        endpoint = Endpoint("anthropic", url, {"x-api-key": key, "anthropic-version": "2023-06-01", **_JSON})
    else:
        endpoint = Endpoint("chat", f"{base}/chat/completions", {"Authorization": f"Bearer {key}", **_JSON})
    info = _entry(name)
    return Target(
        wire_name=f"{provider}/{bare}",
        provider=provider,
        bare_name=bare,
        family="anthropic" if provider == "anthropic" else "openai",
        error_flag=True,
        address=own or urlsplit(known.address).netloc,
        owner=own or provider,
        api_key=key,
        context_window=_int(info.get("max_input_tokens")),
        max_tokens=min(_int(info.get("max_output_tokens")) or _DEFAULT_MAX_TOKENS, _LARGEST_DEFAULT),
        priced="input_cost_per_token" in info,
        facts=info,
        endpoint=endpoint,
    )


def resolve_target(library: Any, name: str, api_base: str | None, api_key: str | None) -> Target:
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
    info = _library_entry(library, name, wire_name, bare)
    speaks_anthropic = provider == "anthropic" or (provider in _CLAUDE_HOSTS and "claude" in bare)
    known_provider = _PROVIDERS.get(provider, _UNKNOWN)
    own = api_base or known_provider.custom_base(os.environ)
    host = urlsplit(known_provider.address or base or "").netloc
    return Target(
        wire_name=wire_name,
        provider=provider,
        bare_name=bare,
        family="anthropic" if speaks_anthropic else "openai",
        error_flag=not provider.startswith("bedrock"),
        address=own or host or f"the {provider} API",
        owner=own or provider,
        api_key=api_key or _key(library, name, wire_name, provider, api_base),
        context_window=_int(info.get("max_input_tokens")),
        max_tokens=min(_int(info.get("max_output_tokens")) or _DEFAULT_MAX_TOKENS, _LARGEST_DEFAULT),
        priced="input_cost_per_token" in info,
        facts=info,
    )


def _wire_name(library: Any, name: str, api_base: str | None) -> str:
    """Return litellm's name: an address without a provider is OpenAI-compatible; Ollama's tools need its chat API."""
    prefix, slash, rest = name.partition("/")
    if api_base is not None and (not slash or prefix not in {str(p.value) for p in library.provider_list}):
        return f"openai/{name}"
    return f"ollama_chat/{rest}" if prefix == "ollama" and slash else name


def _library_entry(library: Any, *names: str) -> dict[str, Any]:
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
