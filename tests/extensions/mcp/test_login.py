"""A login to a server is made once in a browser, kept, used and refreshed by later sessions, and
never shown."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata
from pydantic import AnyUrl

from codeagent.core.errors import ConfigError
from codeagent.core.redact import Redactor
from codeagent.extensions.mcp.config import LoginClient, ServerConfig, login_name
from codeagent.extensions.mcp.login import Callback, KeptLogin, _registered, begin_login
from tests.extensions.mcp.authorized import Authority, authorized_server


class MemoryStore:
    """Stands in for a `config.keys.KeyStore`."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def find(self, variable: str) -> str | None:
        return self.kept.get(variable)

    def keep_secret(self, variable: str, value: str) -> str:
        assert value.isascii() and value.isprintable() and " " not in value
        self.kept[variable] = value
        return "memory"

    def forget(self, variable: str) -> None:
        self.kept.pop(variable, None)

    def content(self, config: ServerConfig) -> dict[str, Any]:
        return dict(json.loads(base64.b64decode(self.kept[login_name(config)])))

    def expire(self, config: ServerConfig) -> None:
        """Make the kept token one that has expired."""
        old = self.content(config) | {"expires": 1}
        self.kept[login_name(config)] = base64.b64encode(json.dumps(old).encode()).decode()


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def config(authority: Authority) -> Iterator[ServerConfig]:
    with authorized_server(authority) as url:
        yield ServerConfig("private-one", url=url)


@asynccontextmanager
async def reached(config: ServerConfig, auth: httpx2.Auth) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(auth=auth) as http,
        Client(streamable_http_client(config.url, http_client=http)) as client,
    ):
        yield client


def first_of(group: BaseException) -> str:
    """The text of the one error in groups of groups."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return str(group)


def browser(opened: list[str], tasks: set[asyncio.Task[None]]) -> Callable[[str], None]:
    """Opens an address as a browser would: follows the way back to the callback."""

    async def visit(url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as http:
            opened.append((await http.get(url)).text)

    def show(url: str) -> None:
        tasks.add(asyncio.create_task(visit(url)))

    return show


async def log_in(
    config: ServerConfig, store: MemoryStore, redactor: Redactor
) -> tuple[str, list[str]]:
    """Where the login is kept, and what the browser showed at the end."""
    opened: list[str] = []
    tasks: set[asyncio.Task[None]] = set()
    async with Callback(0 if config.client is None else config.client.port) as callback:
        show = browser(opened, tasks)
        auth, login = await begin_login(config, store, redactor.learn, show, callback)
        try:
            async with reached(config, auth) as client:
                assert (await client.list_tools()).tools[0].name == "whoami"
        finally:
            await asyncio.wait(tasks)
    return login.where, opened


async def use(config: ServerConfig, store: MemoryStore) -> Any:
    async with reached(config, KeptLogin(config, store, Redactor({}).learn)) as client:
        result = await client.call_tool("whoami", {})
        return result.content[0].text


async def test_a_login_is_kept_and_a_later_session_uses_it(
    config: ServerConfig, store: MemoryStore
) -> None:
    redactor = Redactor({})
    where, shown = await log_in(config, store, redactor)
    assert where == "memory" and "You are logged in" in shown[0]
    assert await use(config, store) == "you are in"
    tokens = store.content(config)["tokens"]
    for name in ("access_token", "refresh_token"):
        assert redactor.clean(f"x {tokens[name]} y") == "x [secret private-one token] y"


async def test_a_token_that_has_expired_is_refreshed_and_the_new_one_is_kept(
    config: ServerConfig, store: MemoryStore, authority: Authority
) -> None:
    await log_in(config, store, Redactor({}))
    store.expire(config)
    assert await use(config, store) == "you are in" and authority.refreshed == 1
    assert await use(config, store) == "you are in" and authority.refreshed == 1


async def test_a_session_uses_what_another_one_refreshed(
    config: ServerConfig, store: MemoryStore, authority: Authority
) -> None:
    await log_in(config, store, Redactor({}))
    store.expire(config)
    login = KeptLogin(config, store, Redactor({}).learn)
    await login._look()
    assert await use(config, store) == "you are in" and authority.refreshed == 1
    async with reached(config, login) as client:
        assert (await client.call_tool("whoami", {})).content[0].text == "you are in"
    assert authority.refreshed == 1


async def test_without_a_login_the_next_step_is_said(
    config: ServerConfig, store: MemoryStore
) -> None:
    with pytest.raises(BaseExceptionGroup) as failed:
        await use(config, store)
    assert first_of(failed.value) == "it wants you to log in: codeagent mcp login private-one"


async def test_a_login_that_is_no_longer_valid_asks_for_a_new_one(
    config: ServerConfig, store: MemoryStore, authority: Authority
) -> None:
    await log_in(config, store, Redactor({}))
    authority.access.clear()
    authority.refresh.clear()
    store.expire(config)
    with pytest.raises(BaseExceptionGroup) as failed:
        await use(config, store)
    assert "codeagent mcp login private-one" in first_of(failed.value)


async def test_a_login_that_the_server_refuses_says_why_and_keeps_nothing(
    config: ServerConfig, store: MemoryStore, authority: Authority
) -> None:
    authority.refuses = True
    with pytest.raises(BaseExceptionGroup) as failed:
        await log_in(config, store, Redactor({}))
    assert "the login was refused: access_denied" in first_of(failed.value) and store.kept == {}


@pytest.mark.parametrize("method", ["client_secret_basic", "none"])
async def test_a_configured_client_is_used_and_none_is_registered(
    config: ServerConfig, store: MemoryStore, authority: Authority, method: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    secret = "" if method == "none" else "s3cr3t-of-the-client"
    authority.clients["our-id"] = OAuthClientInformationFull(
        client_id="our-id",
        client_secret=secret or None,
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        token_endpoint_auth_method=method,
    )
    config = replace(config, client=LoginClient("our-id", secret, port))
    await log_in(config, store, Redactor({}))
    assert list(authority.clients) == ["our-id"]
    assert "s3cr3t" not in json.dumps(store.content(config))
    assert await use(config, store) == "you are in"
    store.expire(config)
    assert await use(config, store) == "you are in" and authority.refreshed == 1
    with pytest.raises(BaseExceptionGroup) as failed:
        await use(replace(config, client=LoginClient("another-id")), store)
    assert "codeagent mcp login private-one" in first_of(failed.value)


@pytest.mark.parametrize(
    ("taken", "method"),
    [
        (None, "client_secret_basic"),
        (["client_secret_post", "client_secret_basic"], "client_secret_basic"),
        (["private_key_jwt", "client_secret_post"], "client_secret_post"),
    ],
)
def test_a_secret_is_sent_as_the_server_takes_it(taken: list[str] | None, method: str) -> None:
    said = {
        "issuer": "https://x",
        "authorization_endpoint": "https://x/a",
        "token_endpoint": "https://x/t",
    }
    metadata = OAuthMetadata.model_validate(
        {**said, "token_endpoint_auth_methods_supported": taken}
    )
    assert _registered(LoginClient("id", "secret"), metadata).token_endpoint_auth_method == method


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1.*change callbackPort"):
            async with Callback(port):
                pass


def test_a_login_is_for_one_address_only() -> None:
    one, other = (
        ServerConfig("a-b", url="https://one/mcp"),
        ServerConfig("a-b", url="https://other/mcp"),
    )
    assert login_name(one) != login_name(other) and login_name(one).startswith("MCP_A_B_")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "javascript:alert(1)", "calc.exe", "ftp://x/"]
)
async def test_only_an_address_of_the_web_is_ever_shown(url: str, store: MemoryStore) -> None:
    shown: list[str] = []
    async with Callback() as callback:
        config = ServerConfig("one", url="https://x/mcp")
        auth, _ = await begin_login(config, store, lambda name, value: None, shown.append, callback)
        assert auth.context.redirect_handler is not None
        with pytest.raises(Exception, match="not a web address"):
            await auth.context.redirect_handler(url)
    assert shown == []


async def test_what_comes_to_the_port_without_the_right_state_is_turned_away() -> None:
    async with Callback() as callback, httpx2.AsyncClient() as http:
        callback.expect("right")
        for query in ("code=x", "code=x&state=wrong", "state=&x=y", "error=no&state=wrong"):
            assert (await http.get(f"{callback.url}?{query}")).status_code == 404
        assert (await http.post(f"{callback.url}?code=x&state=right")).status_code == 404
        assert (
            await http.get(f"{callback.url.replace('callback', 'other')}?code=x&state=right")
        ).status_code == 404
        assert (await http.get(f"{callback.url}?code=good&state=right")).status_code == 200
        assert (await callback.wait()).code == "good"
        assert (await http.get(f"{callback.url}?code=again&state=right")).status_code == 404


async def test_nothing_but_loopback_is_listened_on() -> None:
    async with Callback() as callback:
        assert (
            urlsplit(callback.url).hostname == "127.0.0.1"
            and parse_qs(urlsplit(callback.url).query) == {}
        )
