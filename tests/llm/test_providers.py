"""What is known of hosted models and their keys before litellm is there."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from codeagent.llm import litellm_model
from codeagent.llm.catalog import context_window, entry, spellings
from codeagent.llm.key_trial import try_key
from codeagent.llm.providers import OFFERED, key_variables, server_of
from tests.effort import part
from tests.llm import provider_table
from tests.table import for_each


@for_each("name", OFFERED)
def test_what_is_offered_exists_calls_tools_and_needs_a_known_key(name: str) -> None:
    assert (
        entry(*spellings(name))["supports_function_calling"]
        and (context_window(name) or 0) >= 100_000
    )
    assert key_variables(name, None)


@pytest.mark.soak(tried=100)
@pytest.mark.xdist_group("litellm")  # the worker that imports it
async def test_the_table_is_what_the_installed_litellm_says() -> None:
    library, kept = litellm_model._import(), json.loads(provider_table.FILE.read_text())
    names = provider_table.providers(library)
    asked = part(names, 20)
    made = await provider_table.table(library, asked)
    advice = "run `python -m tests.llm.provider_table` and read the changes"
    assert (names, made) == ([*kept], {name: kept[name] for name in asked}), advice
    assert provider_table.text(kept) == provider_table.FILE.read_text()


@for_each(
    ("name", "variables"),
    [
        ("claude-sonnet-4-5", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
        ("lm_studio/qwen3", ()),
        ("gpt-5", ("OPENAI_API_KEY",)),
        ("ollama/qwen3", ()),
        ("nobody/knows", ()),
        ("unheard-of", ()),
        ("demo", ()),
        ("script:x.json", ()),
    ],
)
def test_a_well_known_name_alone_is_enough_and_local_ones_need_no_key(
    name: str, variables: tuple[str, ...]
) -> None:
    assert key_variables(name, None) == variables


def test_a_server_of_ones_own_is_asked_without_a_key() -> None:
    assert key_variables("openai/gpt-5", "http://127.0.0.1:8080/v1") == ()


@asynccontextmanager
async def provider(status: int) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers everything with that status; its address, and the heads of the requests
    it got."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


@for_each(
    ("status", "outcome"),
    [(200, "accepted"), (401, "refused"), (403, "refused"), (500, "unknown"), (302, "unknown")],
)
@for_each(
    ("variable", "base", "path", "header"),
    [
        ("ANTHROPIC_API_KEY", "ANTHROPIC_API_BASE", "GET /v1/models ", "x-api-key: sk-canary"),
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GET /models ", "Authorization: Bearer sk-canary"),
    ],
)
async def test_a_key_is_tried_once_at_its_provider(
    variable: str, base: str, path: str, header: str, status: int, outcome: str
) -> None:
    async with provider(status) as (address, heads):
        tried = await try_key(variable, "sk-canary", {base: address})
        assert (
            tried.outcome == outcome and "127.0.0.1" in tried.said and "sk-canary" not in tried.said
        )
        (head,) = heads
        assert head.startswith(path) and header.lower() in head.lower()


async def test_a_key_that_cannot_be_tried_is_not_refused() -> None:
    async with provider(200) as (address, _):
        pass
    tried = await try_key("OPENAI_API_KEY", "sk-canary", {"OPENAI_API_BASE": address})
    assert tried.outcome == "unknown" and "cannot reach 127.0.0.1" in tried.said
    assert (await try_key("COHERE_API_KEY", "sk-canary", {})).outcome == "unknown"


@for_each(
    ("model", "api_base", "server"),
    [
        ("openai/gpt-5", None, "api.openai.com"),
        ("anthropic/claude-sonnet-5-5", None, "api.anthropic.com"),
        ("qwen", "http://user:secret@127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("ollama/qwen", None, "localhost:11434"),
        ("bedrock/x", None, "the bedrock API"),
        ("x", "http://[", "http://["),
        ("demo", None, ""),
        ("script:x.json", None, ""),
    ],
)
def test_the_server_of_a_model_is_known_before_anything_is_sent(
    model: str, api_base: str | None, server: str
) -> None:
    assert server_of(model, api_base, {}) == server
