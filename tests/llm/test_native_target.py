"""What a name stands for is the same in both lanes: address, key, limits, family, and the error for
a missing key."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from codeagent.core.errors import ModelError
from codeagent.llm import litellm_model
from codeagent.llm.catalog import entry
from codeagent.llm.providers import Target, key_variables, native_target, providers, resolve_target
from tests.llm.provider_table import environment, sent
from tests.table import for_each

OWN = "http://own.example:8080/v1"
KEYS = {name: f"sk-{name.lower()}" for row in providers().values() for name in row.keys}


def native(name: str, api_base: str | None = None, **variables: str) -> Target:
    target = native_target(name, api_base, None, variables)
    assert target is not None and target.endpoint is not None
    return target


def names(library: Any) -> list[str]:
    """Some hundred models that both lanes can reach: a few of each provider, and all of the two
    largest."""
    found: dict[str, list[str]] = {}
    for name, info in library.model_cost.items():
        provider = info.get("litellm_provider")
        if (
            info.get("mode") in ("chat", "responses")
            and providers().get(provider)
            and providers()[provider].format
        ):
            found.setdefault(provider, []).append(name)
    some = [
        name
        for provider, all_ in found.items()
        for name in all_[: 200 if provider in ("openai", "anthropic") else 6]
    ]
    # litellm does not know whose a tuned o-series model is, though it is in its table.
    return [
        name for name in some if not name.startswith("ft:") and native_target(name, OWN, None, {})
    ]


def known(target: Target) -> dict[str, Any]:
    """What both lanes must agree on; the key is compared by itself, and `responses/` is not in a
    model's name."""
    told = asdict(target) | {"bare_name": target.bare_name.removeprefix("responses/")}
    return {name: value for name, value in told.items() if name not in ("api_key", "endpoint")}


def outcome(find: Any, *arguments: Any) -> dict[str, Any] | str | None:
    try:
        target = find(*arguments)
    except ModelError as error:
        return f"{error.kind}: {error}"
    return None if target is None else known(target)


@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize(
    ("api_base", "variables"),
    [
        (None, {}),
        (None, KEYS),
        (OWN, {}),
        (OWN, KEYS),
        (None, KEYS | {name: OWN for row in providers().values() for name in row.base_variables}),
        (None, {"OPENAI_BASE_URL": OWN}),
    ],
    ids=[
        "nothing",
        "keys",
        "own server",
        "own server and keys",
        "other addresses",
        "another OpenAI",
    ],
)
def test_both_lanes_say_the_same_of_a_model(
    api_base: str | None, variables: Mapping[str, str]
) -> None:
    library = litellm_model._import()
    asked = names(library)
    assert len(asked) > 200
    with environment(**variables):
        for name in [
            *asked,
            "some-model",
            "openai/some-model",
            "groq/some-model",
            "anthropic/some-model",
        ]:
            found = outcome(native_target, name, api_base, None, variables)
            if found is not None:
                assert found == outcome(resolve_target, library, name, api_base, None, variables), (
                    name
                )


@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize(
    "variables", [{}, {"OPENAI_BASE_URL": OWN}], ids=["its own address", "another"]
)
@pytest.mark.parametrize(
    "name",
    [
        *(
            "openai/gpt-4.1",
            "gpt-4.1",
            "openai/gpt-5",
            "openai/gpt-5.6",
            "openai/gpt-5-pro",
            "openai/responses/some-one",
        ),
        *(
            "groq/llama-3.3-70b-versatile",
            "mistral/devstral-latest",
            "openrouter/z-ai/glm-4.6",
            "xai/grok-4",
        ),
        *(
            "together_ai/Qwen/Qwen3-Coder",
            "cerebras/gpt-oss-120b",
            "deepinfra/Qwen/QwQ-32B",
            "llamafile/some-model",
        ),
    ],
)
async def test_the_url_is_the_one_litellm_posts_to(name: str, variables: dict[str, str]) -> None:
    library = litellm_model._import()
    with environment(**KEYS, **variables):
        one = await sent(library, name, None, None, key=None)
    assert one is not None
    endpoint = native(name, None, **KEYS, **variables).endpoint
    assert endpoint is not None and endpoint.url == one.url
    assert endpoint.headers["Authorization"] == one.headers["authorization"]


@for_each(
    ("name", "variables", "headers"),
    [
        ("openai/gpt-4.1", {"OPENAI_API_KEY": "k"}, {"Authorization": "Bearer k"}),
        (
            "openai/gpt-4.1",
            {"OPENAI_API_KEY": "k", "OPENAI_ORGANIZATION": "o", "OPENAI_PROJECT_ID": "p"},
            {"Authorization": "Bearer k", "OpenAI-Organization": "o", "OpenAI-Project": "p"},
        ),
        (
            "anthropic/claude-sonnet-4-5",
            {"ANTHROPIC_API_KEY": "k"},
            {"x-api-key": "k", "anthropic-version": "2023-06-01"},
        ),
        (
            "claude-sonnet-4-5",
            {"ANTHROPIC_AUTH_TOKEN": " t\n"},
            {"Authorization": "Bearer t", "anthropic-version": "2023-06-01"},
        ),
        (
            "claude-sonnet-4-5",
            {"ANTHROPIC_API_KEY": "sk-ant-oat01-x"},
            {
                "Authorization": "Bearer sk-ant-oat01-x",
                "anthropic-version": "2023-06-01",
                "anthropic-beta": "oauth-2025-04-20",
                "anthropic-dangerous-direct-browser-access": "true",
            },
        ),
        ("openrouter/x/y", {"OPENROUTER_API_KEY": "k"}, {"Authorization": "Bearer k"}),
        (
            "openrouter/x/y",
            {"OPENROUTER_API_KEY": "k", "OR_SITE_URL": "u", "OR_APP_NAME": "a"},
            {"Authorization": "Bearer k", "HTTP-Referer": "u", "X-Title": "a"},
        ),
        (
            "groq/x",
            {"GROQ_API_KEY": " k\n", "OPENAI_ORGANIZATION": "o"},
            {"Authorization": "Bearer k"},
        ),
        ("lm_studio/x", {"LM_STUDIO_API_BASE": OWN}, {"Authorization": "Bearer fake-api-key"}),
    ],
)
def test_the_headers_carry_the_key_and_who_asks(
    name: str, variables: dict[str, str], headers: dict[str, str]
) -> None:
    endpoint = native(name, **variables).endpoint
    assert endpoint is not None
    assert endpoint.headers == headers | {
        "Content-Type": "application/json",
        "Accept": "application/json",
    }


@for_each(
    ("name", "api_base", "format_", "url"),
    [
        ("anthropic/claude-sonnet-4-5", None, "anthropic", "https://api.anthropic.com/v1/messages"),
        (
            "anthropic/claude-sonnet-4-5",
            "http://h/v1/messages",
            "anthropic",
            "http://h/v1/messages",
        ),
        ("qwen3", "http://h:8080/v1", "chat", "http://h:8080/v1/chat/completions"),
        ("meta-llama/Llama-3", "http://h:8080/v1/", "chat", "http://h:8080/v1/chat/completions"),
        ("openai/gpt-5.6", "http://h:8080/v1", "chat", "http://h:8080/v1/chat/completions"),
        (
            "openai/gpt-5.6",
            "https://eu.api.openai.com/v1",
            "responses",
            "https://eu.api.openai.com/v1/responses",
        ),
        ("openai/gpt-5.3", None, "chat", "https://api.openai.com/v1/chat/completions"),
        ("openai/gpt-5-pro", "http://h:8080/v1", "responses", "http://h:8080/v1/responses"),
        ("openai/gpt-5.6", "http://[::1", "chat", "http://[::1/chat/completions"),
    ],
)
def test_the_format_follows_from_the_model_and_the_server(
    name: str, api_base: str | None, format_: str, url: str
) -> None:
    endpoint = native(name, api_base, **KEYS).endpoint
    assert endpoint is not None and (endpoint.format, endpoint.url) == (format_, url)


@for_each(
    ("name", "api_base", "url"),
    [
        ("groq/x", "http://h/v1/", "http://h/v1/chat/completions"),
        ("groq/x", "http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("qwen3", "http://h/v1/chat/completions/", "http://h/v1/chat/completions"),
        (
            "qwen3",
            "http://[::1]:8080/v1?version=2",
            "http://[::1]:8080/v1/chat/completions?version=2",
        ),
        ("anthropic/x", "http://h/", "http://h/v1/messages"),
        ("mistral/x", "https://h.azure.com", "https://h.azure.com/v1/chat/completions"),
        ("minimax/x", "http://h/v1", "http://h/v1/chat/completions"),
        ("cometapi/x", "http://h/v1/chat/completions", "http://h/v1/chat/completions"),
    ],
)
def test_an_address_may_have_the_path_a_slash_or_a_query(
    name: str, api_base: str, url: str
) -> None:
    endpoint = native(name, api_base, **KEYS).endpoint
    assert endpoint is not None and endpoint.url == url


def test_a_key_is_not_part_of_what_a_target_looks_like() -> None:
    assert "sk-openai" not in repr(native("openai/gpt-5", **KEYS))


@for_each(
    "name",
    [
        *(
            "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
            "azure/gpt-5",
            "vertex_ai/gemini-3-pro",
            "ollama/qwen3",
        ),
        *(
            "gemini/gemini-2.5-pro",
            "fireworks_ai/glm-4p7",
            "anthropic/claude-2",
            "xai/grok-4.20-multi-agent",
        ),
        *("unheard-of", "nobody/knows", "openai/gpt-3.5-turbo-instruct"),
    ],
)
def test_only_litellm_reaches_the_others(name: str) -> None:
    assert native_target(name, None, None, KEYS) is None


@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("lm_studio/x", "give --api-base or set LM_STUDIO_API_BASE"),
        ("hosted_vllm/x", "give --api-base or set HOSTED_VLLM_API_BASE"),
        ("xinference/x", "give --api-base"),
        ("ai21/x", "give --api-base"),
    ],
)
def test_a_model_that_may_be_anywhere_needs_an_address(name: str, remedy: str) -> None:
    """litellm sends it to OpenAI, conversation and key."""
    said = f"bad_request: {name}: the address of its server is not known; {remedy}"
    assert outcome(native_target, name, None, None, KEYS) == said
    with environment(**KEYS):
        assert outcome(resolve_target, litellm_model._import(), name, None, None, KEYS) == said
        assert isinstance(
            outcome(resolve_target, litellm_model._import(), name, OWN, None, KEYS), dict
        )


@pytest.mark.parametrize(
    "switch", ["USE_LITELLM_PROXY", "LITELLM_ROUTE_ALL_CHAT_OPENAI_TO_RESPONSES"]
)
def test_a_setting_of_litellms_own_leaves_the_request_to_it(switch: str) -> None:
    assert native_target("openai/gpt-4.1", None, None, KEYS | {switch: "true"}) is None


def test_no_key_of_one_provider_goes_to_another() -> None:
    for name, row in providers().items():
        if row.format is None or row.base is None or row.key is not None:
            continue
        with pytest.raises(ModelError, match="no key; set "):
            native_target(
                f"{name}/some-model",
                None,
                None,
                {key: KEYS[key] for key in KEYS if key not in row.keys},
            )
        assert set(key_variables(f"{name}/some-model", None)) == set(row.keys)


def test_a_model_keeps_what_the_table_says_of_it() -> None:
    target = native("claude-sonnet-4-5", ANTHROPIC_API_KEY="k")
    assert target.facts == entry("claude-sonnet-4-5") and target.context_window == 200_000
    assert (target.family, target.max_tokens, target.owner, target.address) == (
        "anthropic",
        32_000,
        "anthropic",
        "api.anthropic.com",
    )
