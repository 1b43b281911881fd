"""What a model's name stands for: its provider, and with it the address, the key and the limits."""

import json
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.llm.catalog import entry, is_scripted, routed_provider, whole_number

Family = Literal["anthropic", "openai"]
"""How messages and tools are put for litellm."""
WireFormat = Literal["chat", "responses", "anthropic"]
"""OpenAI's chat completions, OpenAI's responses, and Anthropic's messages."""


@dataclass(frozen=True)
class Endpoint:
    """What a request is posted to without litellm."""

    format: WireFormat
    url: str
    """Whole, with the path."""
    headers: Mapping[str, str] = field(repr=False)
    """Content type, key, version and beta headers; the key is in them, so they are never shown."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields to add to this provider's bodies; None removes one."""
    other_url: str = ""
    """Where the path may be instead, if the address was given by the user: with `/v1`, or
    without."""


@dataclass(frozen=True)
class OnWire:
    """What a request needs to declare one tool that a provider runs itself."""

    tool: Mapping[str, Any] | None = None
    """Its entry in the list of tools; None if it has none."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request itself."""
    beta: str = ""
    """The beta that a header has to name."""
    include: str = ""
    """What to ask for besides, so that the answer says what the tool did."""


@dataclass(frozen=True)
class Target:
    """Where a request goes, and in which form."""

    wire_name: str
    provider: str
    bare_name: str
    family: Family
    key_variable: str
    """The variable that a user sets to change the key; empty if there is none."""
    address: str
    """For messages: the server's address as it was given, else the provider's host, else the name
    of its API."""
    owner: str
    """For messages: who accepts or refuses the key, the provider or the address of a self-hosted
    server."""
    api_key: str | None = field(repr=False)
    """None: litellm takes it from the environment itself."""
    context_window: int | None
    max_tokens: int | None
    """How long an answer may be; None: as long as its server lets it be."""
    facts: Mapping[str, Any]
    """litellm's entry for the model; empty if it has none."""
    endpoint: Endpoint | None = None
    """None: only litellm reaches it."""
    format: WireFormat = "chat"
    """What its server is sent, whoever writes it."""
    provider_tools: Mapping[str, OnWire] = field(default_factory=dict)
    """The tools of its provider's own that may be sent, by our names."""
    room: int | None = None
    """Tokens that are left in the window for thinking and answer together; None if that is not
    known."""

    @property
    def error_flag(self) -> bool:
        """A failed call's result is flagged as such on the wire."""
        return not self.provider.startswith("bedrock")


@dataclass(frozen=True)
class Provider:
    """One row of `providers.json`, which `tests/llm/provider_table.py` makes from litellm."""

    format: WireFormat | None = None
    """How it is spoken to without litellm; None if only litellm does."""
    base: str | None = None
    """The address of its own server, if it is known."""
    base_variables: tuple[str, ...] = ()
    """Variables that override the address; the first one that is set counts."""
    keys: tuple[str, ...] = ()
    """Variables of which one holds the key; the first one that is set counts."""
    key: str | None = None
    """What is sent if no key is set; such a provider needs none."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """As `Endpoint.changes`."""

    def custom_base(self, environment: Mapping[str, str]) -> str | None:
        """Return the address of the server that replaces the provider's own, if a variable names
        one."""
        return next(
            (environment[name] for name in self.base_variables if environment.get(name)), None
        )

    def found_key(self, environment: Mapping[str, str]) -> str | None:
        return next((key for name in self.keys if (key := environment.get(name, "").strip())), None)


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
DEFAULT_MAX_TOKENS = 8_192
"""Of a model of which only the window is known."""
_LARGEST_DEFAULT = 32_000
_CLAUDE_HOSTS = {"bedrock", "bedrock_converse", "vertex_ai", "azure_ai"}
_NO_KEY = "none"
"""Sent to servers that need no key, since the client libraries insist on one."""
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_PATHS: Mapping[WireFormat, str] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/v1/messages",
}
_MAY_LACK_VERSION = {"cometapi", "minimax", "mistral"}
"""Their addresses may be given without `/v1`, as Mistral's in Azure is."""
_ANYWHERE = {"ai21", "hosted_vllm", "lm_studio", "xinference"}
"""Without an address, litellm would send their requests to OpenAI, some with the key for OpenAI."""
_TOKEN = "ANTHROPIC_AUTH_TOKEN"
_OAUTH_KEY = "sk-ant-oat"
_VERSION = lazy_regex(r"gpt-(\d+)(?:\.(\d+))?(?=[.-]|$)")
_RESPONSES = "responses/"
_LITELLM_SWITCHES = (
    "USE_LITELLM_PROXY",
    "LITELLM_ANTHROPIC_DISABLE_URL_SUFFIX",
    "LITELLM_ROUTE_ALL_CHAT_OPENAI_TO_RESPONSES",
)
"""Settings of litellm's own that change where a request goes: whoever sets one means litellm."""


@lru_cache(maxsize=1)
def providers() -> Mapping[str, Provider]:
    """Return what is known about each provider, by the name before the slash."""
    rows = json.loads(Path(__file__).with_name("providers.json").read_bytes())
    listed = ("base_variables", "keys")
    return {
        name: Provider(**row | {key: tuple(row.get(key, ())) for key in listed})
        for name, row in rows.items()
    }


def key_variables(model: str, api_base: str | None) -> tuple[str, ...]:
    """Return the variables of which one must hold the model's key, the usual one first; empty if
    none is needed.

    A self-hosted server (`api_base`) needs none.
    """
    if api_base is not None or is_scripted(model):
        return ()
    provider, _ = _provider_of(model, None) or ("", "")
    return () if _row(provider).key is not None else _usual_first(provider)


def server_of(model: str, api_base: str | None, environment: Mapping[str, str]) -> str:
    """Return the host, with its port if one is given, that the model's requests go to; empty for a
    scripted model."""
    if is_scripted(model):
        return ""
    provider, _ = _provider_of(model, api_base) or (model.partition("/")[0], model)
    row = _row(provider)
    base = api_base or row.custom_base(environment) or row.base or ""
    try:
        host = urlsplit(base).netloc.rpartition("@")[2]
    except ValueError:  # not an address, which is reported when it is posted to
        host = base
    return host or f"the {provider} API"


def own_server(model: str, api_base: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the address of the user's own server, which may be asked what it can do; None for a
    hosted model."""
    if is_scripted(model):
        return None
    provider, _ = _provider_of(model, api_base) or (model.partition("/")[0], model)
    row = _row(provider)
    return api_base or row.custom_base(environment) or (row.base if provider == "ollama" else None)


def _row(provider: str) -> Provider:
    return providers().get(provider, Provider())


def _usual_first(provider: str) -> tuple[str, ...]:
    keys = _row(provider).keys
    return tuple(
        sorted(
            keys,
            key=lambda name: (name != f"{provider.upper()}_API_KEY", not name.endswith("_API_KEY")),
        )
    )


def native_target(
    name: str, api_base: str | None, api_key: str | None, environment: Mapping[str, str]
) -> Target | None:
    """Find out what `name` stands for without litellm; None if only litellm reaches it.

    Raises ModelError for a missing key or address.
    """
    named = _provider_of(name, api_base)
    if named is None or any(environment.get(switch) for switch in _LITELLM_SWITCHES):
        return None
    provider, bare = named
    row = providers()[provider]
    base = api_base or row.custom_base(environment) or row.base
    _check_address(name, provider, base, environment)
    format_ = _format(provider, bare, base)
    if base is None or format_ is None:
        return None
    bare = bare.removeprefix(_RESPONSES) if provider == "openai" else bare
    key = (
        _key(name, provider, api_base, api_key, environment)
        or row.found_key(environment)
        or row.key
        or _NO_KEY
    )
    headers = _JSON | key_headers(provider, key, environment)
    urls = (
        _urls(provider, base, format_) if base != row.base else (_url(provider, base, format_), "")
    )
    endpoint = Endpoint(format_, urls[0], headers, row.changes, urls[1])
    return _target(
        name, provider, bare, api_base, key=key, environment=environment, endpoint=endpoint
    )


def resolve_target(
    library: Any,
    name: str,
    api_base: str | None,
    api_key: str | None,
    environment: Mapping[str, str],
) -> Target:
    """Find out what `name` stands for; `library` is litellm.

    Raises ModelError for an unknown name, and for a missing key or address.
    """
    try:
        bare, provider, _, base = library.get_llm_provider(
            _wire_name(name, api_base), api_base=api_base
        )
    except Exception:
        raise ModelError(
            f"{name}: no provider has this model; write provider/model, as in openai/gpt-5, or give --api-base for"
            " your own server",
            kind="bad_request",
        ) from None
    _check_address(name, provider, base, environment)
    key = _key(name, provider, api_base, api_key, environment)
    return _target(name, provider, bare, api_base, key=key, environment=environment, base=base)


def _target(
    name: str,
    provider: str,
    bare: str,
    api_base: str | None,
    *,
    key: str | None,
    environment: Mapping[str, str],
    endpoint: Endpoint | None = None,
    base: str | None = None,
) -> Target:
    """Put together what both lanes know in the same way; `base` is the address that litellm
    knows."""
    row = _row(provider)
    wire_name = _wire_name(name, api_base)
    info = entry(name, wire_name, bare)
    own = api_base or row.custom_base(environment)
    host = urlsplit(row.base or base or "").netloc
    speaks_anthropic = provider == "anthropic" or (provider in _CLAUDE_HOSTS and "claude" in bare)
    spoken = "anthropic" if speaks_anthropic else _format(provider, bare, own or row.base) or "chat"
    return Target(
        wire_name=wire_name,
        provider=provider,
        bare_name=bare,
        family="anthropic" if speaks_anthropic else "openai",
        key_variable=next(iter(_usual_first(provider)), ""),
        address=own or host or f"the {provider} API",
        owner=own or provider,
        api_key=key,
        context_window=whole_number(info.get("max_input_tokens")),
        max_tokens=_answer_limit(info, required=spoken == "anthropic"),
        facts=info,
        endpoint=endpoint,
        format=endpoint.format if endpoint is not None else spoken,
    )


def _answer_limit(info: Mapping[str, Any], *, required: bool) -> int | None:
    """Return how long an answer may be; None if that is not known and the wire can do without."""
    known = whole_number(info.get("max_output_tokens"))
    return (
        (DEFAULT_MAX_TOKENS if required else None)
        if known is None
        else min(known, _LARGEST_DEFAULT)
    )


def _check_address(
    name: str, provider: str, base: str | None, environment: Mapping[str, str]
) -> None:
    """Raise ModelError for a model whose server nobody named."""
    if provider in _ANYWHERE and not (base or providers()["openai"].custom_base(environment)):
        set_too = "".join(
            f" or set {variable}" for variable in providers()[provider].base_variables
        )
        raise ModelError(
            f"{name}: the address of its server is not known; give --api-base{set_too}",
            kind="bad_request",
        )


def _provider_of(name: str, api_base: str | None) -> tuple[str, str] | None:
    """Return the provider and its name for the model; an address without a provider is
    OpenAI-compatible."""
    prefix, slash, rest = name.partition("/")
    if slash and prefix in providers():
        return prefix, rest
    if api_base is not None:
        return "openai", name
    provider = entry(name).get("litellm_provider") or routed_provider(name)
    return (provider, name) if provider in ("openai", "anthropic") else None


def _wire_name(name: str, api_base: str | None) -> str:
    """Return litellm's name: an address without a provider is OpenAI-compatible; Ollama's tools
    need its chat API."""
    prefix, slash, rest = name.partition("/")
    if api_base is not None and not (slash and prefix in providers()):
        return f"openai/{name}"
    return f"ollama_chat/{rest}" if prefix == "ollama" and slash else name


def _format(provider: str, bare: str, base: str | None) -> WireFormat | None:
    """Return the format of this model's requests; None if only litellm can make them."""
    info = entry(f"{provider}/{bare}", bare)
    mode = (
        info.get("mode")
        if info.get("litellm_provider") in (provider, "text-completion-openai")
        else None
    )
    match provider:
        case "openai" if mode == "responses" or bare.startswith(_RESPONSES):
            return "responses"
        case "openai" if _thinks_only_in_responses(bare) and _is_openai(base):
            return "responses"
        case "anthropic" if bare in (
            "claude-2",
            "claude-2.1",
            "claude-instant-1",
            "claude-instant-1.2",
        ):
            return None
        case _:
            return _row(provider).format if mode in (None, "chat") else None


def _thinks_only_in_responses(bare: str) -> bool:
    """Tell whether OpenAI refuses tools for this model in chat completions while it thinks, as it
    does unasked."""
    version = _VERSION.match(bare)
    return (
        version is not None
        and (int(version[1]), int(version[2] or 0)) >= (5, 4)
        and "search" not in bare
    )


def _is_openai(base: str | None) -> bool:
    try:
        host = urlsplit(base or "").hostname or ""
    except ValueError:  # not an address, which is reported when it is posted to
        return False
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def _url(provider: str, base: str, format_: WireFormat) -> str:
    """Return the address with the format's path, which it may have already; a query stays behind
    the path."""
    address, mark, query = base.partition("?")
    address, path = address.rstrip("/"), _PATHS[format_]
    if address.endswith(path):
        return address + mark + query
    version = "/v1" if provider in _MAY_LACK_VERSION and not address.endswith("/v1") else ""
    return address + version + path + mark + query


def _urls(provider: str, base: str, format_: WireFormat) -> tuple[str, str]:
    """Return where an address that the user gave may mean, the likelier one first: some write
    `/v1`, some do not."""
    given = _url(provider, base, format_)
    with_version = _url(provider, with_v1(base), format_)
    without = _url(provider, without_v1(base), format_)
    if format_ == "anthropic":
        return (without, given) if without != given else (given, "")
    if with_version != given:
        return with_version, given
    return given, without if without != given else ""


def with_v1(base: str) -> str:
    """Return an address that has no path with `/v1`; any other as it is."""
    address, mark, query = base.partition("?")
    try:
        bare = urlsplit(address).path in ("", "/")
    except ValueError:  # not an address, which is reported when it is posted to
        return base
    return f"{address.rstrip('/')}/v1{mark}{query}" if bare else base


def server_root(base: str) -> tuple[str, str]:
    """Return the address without `/v1` and the path of a format, either of which it may have, and
    its query."""
    address, mark, query = base.partition("?")
    address = address.rstrip("/")
    for path in _PATHS.values():
        address = address.removesuffix(path)
    return address.removesuffix("/v1"), mark + query


def without_v1(base: str) -> str:
    address, mark, query = base.partition("?")
    return address.rstrip("/").removesuffix("/v1") + mark + query


def key_headers(provider: str, key: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the key, and those that say on whose behalf the request is."""
    bearer = {"Authorization": f"Bearer {key}"}
    match provider:
        case "anthropic":
            version = {"anthropic-version": "2023-06-01"}
            if key.startswith(_OAUTH_KEY):
                direct = {"anthropic-dangerous-direct-browser-access": "true"}
                return version | bearer | direct | {"anthropic-beta": "oauth-2025-04-20"}
            return version | (
                bearer if key == environment.get(_TOKEN, "").strip() else {"x-api-key": key}
            )
        case "openai":
            organization = environment.get("OPENAI_ORGANIZATION") or environment.get(
                "OPENAI_ORG_ID"
            )
            named = {
                "OpenAI-Organization": organization,
                "OpenAI-Project": environment.get("OPENAI_PROJECT_ID"),
            }
        case "openrouter":
            named = {
                "HTTP-Referer": environment.get("OR_SITE_URL"),
                "X-Title": environment.get("OR_APP_NAME"),
            }
        case _:
            named = {}
    return bearer | {name: value for name, value in named.items() if value}


def _key(
    name: str,
    provider: str,
    api_base: str | None,
    api_key: str | None,
    environment: Mapping[str, str],
) -> str | None:
    """Return the key to send; None if it is in the environment. Raises ModelError naming the
    missing variable."""
    row = _row(provider)
    if api_key or row.key is not None or not row.keys or row.found_key(environment):
        return api_key
    if api_base or (provider == "openai" and row.custom_base(environment)):
        return _NO_KEY
    named = [key for key in _usual_first(provider) if key.endswith("_API_KEY")] or row.keys
    raise ModelError(f"{name}: no key; set {' or '.join(named)} in the environment", kind="auth")
