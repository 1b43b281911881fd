"""What is known of hosted models before litellm is there, and how servers on this machine are found."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from codeagent.core.errors import ModelError
from codeagent.llm import litellm_model
from codeagent.llm.providers import (
    _PROVIDERS,
    OFFERED,
    LocalServer,
    _entry,
    ask_ports,
    context_window,
    key_variables,
    native_target,
    try_key,
)

OK = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"data": [{"id": "qwen3"}, {"id": "gpt-oss"}]}'
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize("name", OFFERED)
def test_what_is_offered_exists_calls_tools_and_needs_a_known_key(name: str) -> None:
    assert _entry(name)["supports_function_calling"] and (context_window(name) or 0) >= 100_000
    assert key_variables(name, None)


@pytest.mark.xdist_group("litellm")  # the worker that imports it
def test_the_variables_are_those_litellm_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = litellm_model._import()
    for name in set(os.environ) - {"PATH", "HOME"}:
        monkeypatch.delenv(name)
    names = [f"{provider}/some-model" for provider in _PROVIDERS]
    missing = {name: set(litellm.validate_environment(name)["missing_keys"]) for name in names}
    assert {name: set(key_variables(name, None)) for name in names} == missing


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("claude-sonnet-4-5", ("ANTHROPIC_API_KEY",)),
        ("gpt-5", ("OPENAI_API_KEY",)),
        ("ollama/qwen3", ()),
        ("nobody/knows", ()),
        ("unheard-of", ()),
        ("demo", ()),
        ("script:x.json", ()),
    ],
)
def test_a_well_known_name_alone_is_enough_and_local_ones_need_no_key(name: str, variables: tuple[str, ...]) -> None:
    assert key_variables(name, None) == variables


def test_a_server_of_ones_own_is_asked_without_a_key() -> None:
    assert key_variables("openai/gpt-5", "http://127.0.0.1:8080/v1") == ()


def test_the_window_is_known_with_and_without_the_provider() -> None:
    assert context_window("anthropic/claude-sonnet-4-5") == context_window("claude-sonnet-4-5") == 200_000
    assert context_window("nobody/knows") is None


def test_litellm_is_not_imported_for_it() -> None:
    code = (
        "import sys; from codeagent.llm.providers import context_window;"
        " print(context_window('gpt-5'), 'litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "272000 False"


@asynccontextmanager
async def provider(status: int) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers everything with that status; its address, and the heads of the requests it got."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


@pytest.mark.parametrize(
    ("status", "outcome"), [(200, "accepted"), (401, "refused"), (403, "refused"), (500, "unknown"), (302, "unknown")]
)
@pytest.mark.parametrize(
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
        assert tried.outcome == outcome and "127.0.0.1" in tried.said and "sk-canary" not in tried.said
        (head,) = heads
        assert head.startswith(path) and header.lower() in head.lower()


async def test_a_key_that_cannot_be_tried_is_not_refused() -> None:
    async with provider(200) as (address, _):
        pass
    tried = await try_key("OPENAI_API_KEY", "sk-canary", {"OPENAI_API_BASE": address})
    assert tried.outcome == "unknown" and "cannot reach 127.0.0.1" in tried.said
    assert (await try_key("COHERE_API_KEY", "sk-canary", {})).outcome == "unknown"


@asynccontextmanager
async def listening(answer: bytes | Serve, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A port that answers every connection so."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not isinstance(answer, bytes):
            await answer(reader, writer)
            return
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
    assert all(request.startswith(b"GET /v1/models HTTP/1.0\r\n") for request in requests)


async def found(port: int) -> tuple[LocalServer, ...]:
    return await ask_ports({"A server": port}, 0.3)


async def test_a_server_is_found_with_its_models_and_address() -> None:
    async with listening(OK) as port:
        assert await found(port) == (LocalServer("A server", f"http://127.0.0.1:{port}/v1", ("qwen3", "gpt-oss")),)


async def test_one_on_ipv6_alone_is_found_too() -> None:
    async with listening(OK, "::1") as port:
        [server] = await found(port)
        assert server.api_base == f"http://[::1]:{port}/v1"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 301 Moved\r\nLocation: http://203.0.113.9/v1/models\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n<html>a web page</html>",
        b'HTTP/1.1 200 OK\r\n\r\n{"data": []}',
        b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": 7}, "x", {"id": "\\u001b[2J"}, {"id": ""}]}',
        b"HTTP/1.1 200 OK\r\n\r\n[1, 2]",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\xff\xfe\x00",
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2 << 20),
    ],
    ids=lambda answer: repr(answer[:60]),
)
async def test_anything_else_that_listens_is_no_server(answer: bytes) -> None:
    async with listening(answer) as port:
        assert await found(port) == ()


async def test_one_that_never_answers_is_given_up_and_holds_up_no_other() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with listening(silent) as slow, listening(OK) as quick:
        async with asyncio.timeout(5):
            servers = await ask_ports({"slow": slow, "quick": quick}, 0.2)
    assert [server.name for server in servers] == ["quick"]


async def test_a_port_nobody_listens_on_is_no_error() -> None:
    async with listening(OK) as port:
        pass
    assert await found(port) == ()


def test_a_request_goes_straight_to_openai_anthropic_or_a_server_of_ones_own() -> None:
    keys = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a"}

    def endpoint(name: str, api_base: str | None = None) -> tuple[str, str, str | None]:
        target = native_target(name, api_base, None, keys)
        assert target is not None and target.endpoint is not None
        headers = target.endpoint.headers
        return target.endpoint.format, target.endpoint.url, headers.get("x-api-key") or headers.get("Authorization")

    assert endpoint("openai/gpt-4.1") == ("chat", "https://api.openai.com/v1/chat/completions", "Bearer sk-o")
    assert endpoint("anthropic/claude-sonnet-4-5") == ("anthropic", "https://api.anthropic.com/v1/messages", "sk-a")
    assert endpoint("qwen3", "http://h:8080/v1") == ("chat", "http://h:8080/v1/chat/completions", "Bearer sk-o")


def test_a_missing_key_is_named_before_any_request() -> None:
    with pytest.raises(ModelError, match=r"openai/gpt-4\.1: no key; set OPENAI_API_KEY in the environment"):
        native_target("openai/gpt-4.1", None, None, {})


def test_only_litellm_reaches_the_others() -> None:
    assert native_target("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", None, None, {}) is None
