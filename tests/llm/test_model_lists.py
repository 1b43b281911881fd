"""What providers list as their models, each in its own way."""

import asyncio
from typing import Any

import pytest

from codeagent.core.errors import ModelError
from codeagent.core.model import ModelFacts
from codeagent.llm import model_lists
from codeagent.llm.catalog import facts_of
from codeagent.llm.model_lists import lists_models, models_of
from codeagent.llm.providers import OFFERED, providers
from codeagent.llm.usage import prompt_cost
from tests.llm.test_local_servers import listening
from tests.servers import openai_server
from tests.table import for_each

BASES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "groq": "GROQ_API_BASE"}

KEYS = {"anthropic": ("x-api-key", "sk-canary")}


@for_each(
    ("provider", "path", "listed", "names"),
    [
        (
            "openai",
            "/v1/models",
            {
                "data": [
                    {"id": "gpt-5-mini", "created": 1},
                    {"id": "text-embedding-3-small", "created": 3},
                    {"id": "gpt-of-tomorrow", "created": 2},
                    {"id": "two\nlines"},
                    {"id": ""},
                    "gpt-5",
                ]
            },
            ["openai/gpt-of-tomorrow", "openai/gpt-5-mini"],
        ),
        (
            "anthropic",
            "/v1/models",
            {"data": [{"id": "claude-b"}, {"id": "claude-a"}]},
            ["anthropic/claude-b", "anthropic/claude-a"],
        ),
        (
            "groq",
            "/v1/models",
            {"models": [{"name": "models/llama"}, {"name": 3.5}]},
            ["groq/llama", "groq/3.5"],
        ),
    ],
)
async def test_models_that_answer_in_text_are_listed_the_newest_first(
    provider: str, path: str, listed: Any, names: list[str]
) -> None:
    async with openai_server([]) as fake:
        fake.facts[path] = listed
        base = fake.base_url if provider != "anthropic" else fake.base_url.removesuffix("/v1")
        found = await models_of(provider, "sk-canary", {BASES[provider]: base})
        assert [*found] == names
        [asked] = fake.asked
        header, sent = KEYS.get(provider, ("authorization", "Bearer sk-canary"))
        assert asked.headers[header] == sent


async def test_what_the_provider_says_comes_before_what_the_table_has() -> None:
    async with openai_server([]) as fake:
        fake.facts["/v1/models"] = {"data": [{"id": "gpt-5-mini", "context_window": 1000}]}
        found = await models_of("openai", "k", {"OPENAI_BASE_URL": fake.base_url})
    known = facts_of("openai/gpt-5-mini")
    assert known is not None and known.prices is not None and known.tools
    assert found == {"openai/gpt-5-mini": ModelFacts(window=1000).or_else(known)}


async def test_a_bare_list_is_read_and_a_long_one_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_lists, "_MOST", 2)
    async with openai_server([]) as fake:
        fake.facts["/v1/models"] = [{"id": name} for name in "abc"]  # type: ignore[assignment]  # as Together does
        found = await models_of("openai", "k", {"OPENAI_BASE_URL": fake.base_url})
    assert [*found] == ["openai/a", "openai/b"]


@for_each(
    ("key", "listed", "said"),
    [
        ("wrong", {"data": [{"id": "a"}]}, "the key was refused by 127.0.0.1"),
        ("right", {"data": []}, "listed no models"),
        ("right", {"error": "no"}, "listed no models"),
        ("right", None, r"listed no models \(status 404\)"),
    ],
)
async def test_a_provider_that_lists_none_says_why(key: str, listed: Any, said: str) -> None:
    async with openai_server([]) as fake:
        fake.key = "right"
        if listed is not None:
            fake.facts["/v1/models"] = listed
        with pytest.raises(ModelError, match=said):
            await models_of("openai", key, {"OPENAI_BASE_URL": fake.base_url})


async def test_a_provider_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client leaves
        writer.close()

    monkeypatch.setattr(model_lists, "_SECONDS", 0.05)
    async with listening(serve) as port:
        with pytest.raises(ModelError, match=rf"no answer from 127\.0\.0\.1:{port}"):
            await models_of("openai", "k", {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}"})


def test_providers_with_a_known_address_and_those_on_offer_list_their_models() -> None:
    listing = {name for name in providers() if lists_models(name)}
    assert {name.partition("/")[0] for name in OFFERED} <= listing
    assert not {"bedrock", "azure", "ollama", "lm_studio"} & listing


@for_each(
    ("model", "talks", "thinks"),
    [
        ("anthropic/claude-sonnet-4-5", True, True),
        ("openai/gpt-4o-mini", True, False),
        ("openai/text-embedding-3-small", False, None),
        ("nobody/knows", True, None),
    ],
)
def test_the_table_tells_chat_models_from_others(
    model: str, talks: bool, thinks: bool | None
) -> None:
    found = facts_of(model)
    assert (found is not None) == talks
    assert found is None or found.thinking == thinks


def test_a_prompt_costs_what_its_length_makes_it_cost() -> None:
    short, long = (prompt_cost("gemini/gemini-2.5-pro", size) for size in (100_000, 400_000))
    assert short is not None and long is not None and long > 4 * short
    assert prompt_cost("nobody/knows", 1000) is None
