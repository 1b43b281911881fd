"""Makes `codeagent/llm/providers.json` from the installed litellm: `python -m
tests.llm.provider_table`.

Each provider is asked with an empty environment where its requests go, which variables change that,
and what litellm would send; nothing leaves this process. A provider has a format if that is what
litellm would send to an OpenAI-compatible server of one's own: then the same body goes there
without litellm.
"""

import asyncio
import copy
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import codeagent.llm
from codeagent.core.budget import Effort
from codeagent.core.messages import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from codeagent.core.model import ModelRequest
from codeagent.core.tool import ToolDefinition
from codeagent.llm import litellm_model
from codeagent.llm.wire import thinking_arguments, to_messages, to_tools

FILE = Path(codeagent.llm.__file__).with_name("providers.json")
OWN = "http://own.example/v1"
KEY = "sk-canary"
PATH = "/chat/completions"
SIGN_IN = {"chatgpt", "github_copilot"}
"""Asking for their address opens a browser."""
ONLY_LITELLM = SIGN_IN | {
    # Their sign-in is more than a key, or their address depends on an account.
    *(
        "azure",
        "azure_ai",
        "azure_text",
        "bedrock",
        "bedrock_mantle",
        "cloudflare",
        "databricks",
        "datarobot",
    ),
    *(
        "gigachat",
        "heroku",
        "oci",
        "predibase",
        "sagemaker",
        "sagemaker_chat",
        "sagemaker_nova",
        "sap",
        "snowflake",
    ),
    *("vertex_ai", "vertex_ai_beta", "watsonx", "watsonx_text"),
    # litellm translates names of models there, or what they take as reasoning.
    *("fireworks_ai", "tencent"),
    # Not one provider.
    *("aiohttp_openai", "custom", "custom_openai", "litellm_proxy", "openai_like"),
}
ADAPTED = {"deepseek", "moonshot"}
"""`native/chat.py` writes what is special to them; `tests/llm/native/test_bodies.py` compares
it."""
CHANGES: tuple[dict[str, Any], ...] = ({}, {"stream_options": None}, {"usage": {"include": True}})
"""What a native provider's body may have besides, or, with null, lack; the first that fits."""
QUESTION = ModelRequest(
    system="You are.",
    messages=(
        UserMessage(
            content=(TextPart(text="look"), ImagePart(media_type="image/png", data="iVBORw0KGgo="))
        ),
        AssistantMessage(
            text="ok",
            calls=tuple(
                ToolCall(id=f"call_{n}2345678", name="read", arguments='{"path":"a"}') for n in "12"
            ),
            stop="tool_calls",
        ),
        ToolMessage(call_id="call_12345678", name="read", content=(TextPart(text="A"),)),
        ToolMessage(
            call_id="call_22345678", name="read", content=(TextPart(text="B"),), is_error=True
        ),
        AssistantMessage(
            calls=(ToolCall(id="call_32345678", name="read", arguments="{}"),), stop="tool_calls"
        ),
        ToolMessage(call_id="call_32345678", name="read", content=(TextPart(text="C"),)),
        UserMessage(content=(TextPart(text="go"), TextPart(text="on"))),
    ),
    tools=(
        ToolDefinition(
            name="read",
            description="Read.",
            parameters={
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
        ),
    ),
)


@dataclass
class Sent:
    """One request that litellm would have posted."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any]


@contextmanager
def environment(**variables: str) -> Iterator[set[str]]:
    """An environment of only these variables; yields the names that are looked up in it."""
    asked: set[str] = set()

    class Watched(dict[str, str]):
        def get(self, name: Any, default: Any = None) -> Any:
            asked.add(name)
            return super().get(name, default)

        def __getitem__(self, name: str) -> str:
            asked.add(name)
            return super().__getitem__(name)

        def __contains__(self, name: object) -> bool:
            asked.add(str(name))
            return super().__contains__(name)

    with mock.patch.object(os, "environ", Watched(variables)):
        yield asked


async def sent(
    library: Any,
    name: str,
    effort: Effort | None,
    api_base: str | None,
    *,
    key: str | None = KEY,
    tools: bool = True,
) -> Sent | None:
    """Return the request that litellm would send for the question; None if it refuses to make one.

    For providers from its list in JSON, litellm lets only models that its table knows have tools;
    we let the server say that.
    """
    import httpx
    from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport
    from litellm.llms.openai_like.json_loader import JSONProviderRegistry

    posted: list[Sent] = []

    async def keep(self: Any, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        posted.append(Sent(str(request.url), dict(request.headers), body))
        return httpx.Response(400, json={"error": {"message": "kept"}}, request=request)

    arguments = {
        "model": name,
        "messages": to_messages(QUESTION, "openai"),
        "tools": copy.deepcopy(to_tools(QUESTION.tools, "openai")) if tools else None,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8192,
        "max_retries": 0,
        "_skip_mcp_handler": True,
        "api_base": api_base,
        "api_key": key,
    } | thinking_arguments(effort, "openai", 8192, {})
    with mock.patch.object(LiteLLMAiohttpTransport, "handle_async_request", keep):
        try:
            await asyncio.wait_for(library.acompletion(**arguments), 20)
        except Exception as error:
            refused = "UnsupportedParams" in type(error).__name__ and "['tools']" in str(error)
            if tools and refused and JSONProviderRegistry.exists(name.partition("/")[0]):
                return await sent(library, name, effort, api_base, key=key, tools=False)
    return posted[0] if len(posted) == 1 else None


@dataclass
class Row:
    """What is known of one provider."""

    format: str | None = None
    """How it is spoken to without litellm; None if only litellm does."""
    base: str | None = None
    base_variables: list[str] = field(default_factory=list)
    """What replaces the base, the first one that is set."""
    keys: list[str] = field(default_factory=list)
    """Where a key is found, the first one that is set."""
    key: str | None = None
    """What is sent if there is no key."""
    changes: dict[str, Any] = field(default_factory=dict)


KNOWN = {
    "anthropic": Row(
        "anthropic", "https://api.anthropic.com", ["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"]
    ),
    "gemini": Row(None, "https://generativelanguage.googleapis.com"),
    "openai": Row("chat", "https://api.openai.com/v1", ["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
}
"""Those whose address litellm does not tell beforehand; `tests/llm/test_native_target.py` compares
what they get."""
TOKENS = {"anthropic": ["ANTHROPIC_AUTH_TOKEN"]}
"""What litellm takes in place of a key without missing it."""
Address = tuple[str | None, str | None]
"""Base and key."""


async def addresses(library: Any, provider: str) -> Row:
    """Ask litellm where the provider is, and which variables it looks up for that."""
    name = f"{provider}/some-model"

    async def named() -> Address:
        try:
            _, found, key, base = library.get_llm_provider(name)
        except Exception:
            return None, None
        return (base, key) if found == provider else (None, None)

    async def posted() -> Address:
        one = await sent(library, name, None, None, key=None)
        if one is None or not one.url.endswith(PATH):
            return None, None
        return one.url.removesuffix(PATH), one.headers.get("authorization", "").removeprefix(
            "Bearer "
        ) or None

    row = await _probed(named, "")
    if row.base is None:
        row = await _probed(posted, provider.upper()[:6])
    if row.base is not None and "api.openai.com" in row.base:
        row.base = None  # of a server of one's own: nothing of it may go to OpenAI
    return row


def needed_keys(library: Any, provider: str) -> list[str]:
    """Return the variables of which litellm misses one in an empty environment."""
    with environment():
        missing = (
            []
            if provider in SIGN_IN
            else library.validate_environment(f"{provider}/some-model")["missing_keys"]
        )
    return [name for name in missing if name.endswith("_API_KEY")]


async def _probed(found: Callable[[], Awaitable[Address]], prefix: str) -> Row:
    """Look which variables `found` asks for, and which of them change what it returns; the stronger
    ones first."""
    with environment() as asked:
        base, key = await found()
    names = [
        name
        for name in sorted(asked)
        if re.fullmatch("[A-Z][A-Z0-9_]+", name) and name.startswith(prefix)
    ]
    row = Row(base=base, key=key)
    while names:
        values = {name: f"http://{name.lower()}.example/v1" for name in names}
        with environment(**values):
            changed_base, changed_key = await found()
        strong = [name for name in names if values[name] in (changed_base, changed_key)]
        row.base_variables += [name for name in strong if values[name] == changed_base]
        row.keys += [name for name in strong if values[name] == changed_key]
        names = [name for name in names if name not in strong] if strong else []
    return row


async def native_changes(library: Any, provider: str, row: Row) -> dict[str, Any] | None:
    """Return how the provider's body differs from an OpenAI-compatible server's; None if only
    litellm can make it."""
    fitting = list(CHANGES)
    for effort, base in ((None, OWN), ("high", OWN), *(((None, row.base),) if row.base else ())):
        with environment():
            one = await sent(library, f"{provider}/some-model", effort, base)
        if one is None or one.url != base.rstrip("/") + PATH:
            return None
        keyed = {name.lower(): value for name, value in one.headers.items() if KEY in value}
        if keyed != {"authorization": f"Bearer {KEY}"}:
            return None
        plain = await _plain(library, effort, "tools" in one.body)
        fitting = [change for change in fitting if one.body == changed(plain, change)]
    return fitting[0] if fitting else None


_plain_bodies: dict[tuple[Effort | None, bool], dict[str, Any]] = {}


async def _plain(library: Any, effort: Effort | None, tools: bool) -> dict[str, Any]:
    """Return the body for an OpenAI-compatible server of one's own."""
    if (effort, tools) not in _plain_bodies:
        with environment():
            one = await sent(library, "openai/some-model", effort, OWN, tools=tools)
        assert one is not None
        _plain_bodies[effort, tools] = one.body
    return _plain_bodies[effort, tools]


def changed(body: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (body | change).items() if value is not None}


def providers(library: Any) -> list[str]:
    from litellm.llms.openai_like.json_loader import JSONProviderRegistry

    names = {str(provider.value) for provider in library.provider_list} | set(
        JSONProviderRegistry.list_providers()
    )
    return sorted(names)


async def table(library: Any, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what litellm says of each of these providers."""
    rows = {}
    for name in names:
        asked = needed_keys(library, name) + TOKENS.get(name, [])
        row = Row(keys=asked)
        if name in KNOWN:
            row = replace(KNOWN[name], keys=asked)
        elif name not in ONLY_LITELLM:
            found = await addresses(library, name)
            changes = {} if name in ADAPTED else await native_changes(library, name, found)
            if changes is not None:
                row = replace(
                    found,
                    format="chat",
                    changes=changes,
                    keys=list(dict.fromkeys((*found.keys, *asked))),
                )
            else:
                row = replace(row, base=found.base, base_variables=found.base_variables)
        rows[name] = {key: value for key, value in vars(row).items() if value}
    return rows


def text(rows: dict[str, dict[str, Any]]) -> str:
    """Return the file: one provider per line."""
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        + "\n}\n"
    )


if __name__ == "__main__":
    installed = litellm_model._import()
    FILE.write_text(text(asyncio.run(table(installed, providers(installed)))))
