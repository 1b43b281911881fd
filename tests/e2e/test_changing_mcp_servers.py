"""What a user does about MCP servers during a conversation: trusts a project's, starts one again, agrees to changes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from mcp.server.auth.provider import AccessToken

from codeagent.bootstrap import Place, open_runtime
from codeagent.config.settings import SandboxSettings, Settings
from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, TrustServers
from codeagent.core.mcp import ServerBook, ServerFacts
from codeagent.core.runtime import AgentHandle
from tests.e2e.product import Product
from tests.tools.mcp.authorized import Authority, authorized_server

SERVER = Path(__file__).parents[1] / "tools/mcp/hostile.py"


@asynccontextmanager
async def conversation(product: Product, **variables: str) -> AsyncIterator[tuple[AgentHandle, ServerBook]]:
    environment = {"PATH": "/usr/bin:/bin", **variables}
    place = Place(product.workspace, product.home / "state", environment, config_dir=product.home / "own")
    settings = Settings(model=product.script({"text": "Done."}), sandbox=SandboxSettings(kind="off"))
    runtime = await open_runtime(settings, place, resume=None, tell=print, observer=lambda event: None, attended=True)
    try:
        assert runtime.agent.servers is not None
        yield runtime.agent, runtime.agent.servers
    finally:
        await runtime.close()


@contextmanager
def private_server() -> Iterator[str]:
    """Yield the address of a server that answers to those who send `Authorization: Bearer hush-hush`."""
    authority = Authority()
    with authorized_server(authority) as url:
        authority.access["hush-hush"] = AccessToken(token="hush-hush", client_id="one", scopes=[], resource=url)
        yield url


def put(path: Path, servers: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


async def until(book: ServerBook, what: Callable[[ServerFacts], object]) -> ServerFacts:
    """Return the one server once that is true of it."""
    async with asyncio.timeout(60):
        while True:
            [server] = book.list()
            if what(server):
                return server
            await asyncio.sleep(0.01)


async def test_a_projects_server_is_started_by_trusting_it_as_it_was_shown(product: Product) -> None:
    with authorized_server(None) as url:
        put(product.workspace / ".mcp.json", {"theirs": {"url": url}})
        async with conversation(product) as (agent, book):
            assert [(server.state, server.shown) for server in book.list()] == [("untrusted", url)]
            put(product.workspace / ".mcp.json", {"theirs": {"url": f"{url}?other=1"}})
            refused = await agent.finish(TrustServers(True))
            assert refused is not None and "has changed since it was shown" in refused.reason
            assert book.list()[0].state == "untrusted" and "other" in book.list()[0].shown
            put(product.workspace / ".mcp.json", {"theirs": {"url": url}})
            assert await agent.finish(TrustServers(True)) is not None
            assert await agent.finish(TrustServers(True)) is None
            assert (await until(book, lambda server: server.state == "ready")).tools == ("mcp__theirs__whoami",)
        async with conversation(product) as (agent, book):
            await until(book, lambda server: server.state == "ready")
            assert await agent.finish(TrustServers(False)) is None
            assert book.list()[0].state == "untrusted"


async def test_tools_that_changed_are_used_once_the_user_agreed(product: Product) -> None:
    server = product.home / "server.py"
    server.write_text(SERVER.read_text())
    command = {"command": sys.executable, "args": [str(server), "Server", str(product.home)], "where": "machine"}
    put(product.home / "own/mcp.json", {"it": command})
    async with conversation(product) as (agent, book):
        assert (await until(book, lambda one: one.state == "ready")).tools == ("mcp__it__echo",)
        server.write_text(SERVER.read_text().replace("Say it back.", "Send it to everybody."))
        assert await agent.finish(RestartServer("it")) is None
        changed = await until(book, lambda one: one.changed)
        assert changed.tools == () and "Send it to everybody." in changed.changed[0].after
        other = await agent.finish(AgreeToServer("it", ("what it said a moment ago",)))
        assert other is not None and "it has changed again since it was shown" in other.reason
        seen = tuple(one.after for one in changed.changed)
        assert await agent.finish(AgreeToServer("it", seen)) is None
        assert book.list()[0].tools == ("mcp__it__echo",) and book.list()[0].changed == ()
        again = await agent.finish(AgreeToServer("it", seen))
        assert again is not None and "nothing of it waits" in again.reason


async def test_what_cannot_be_started_says_why(product: Product) -> None:
    put(product.home / "own/mcp.json", {"a": {"command": "x", "disabled": True}, "b": {"command": "${GONE}"}})
    async with conversation(product) as (agent, book):
        assert [server.state for server in book.list()] == ["disabled", "failed"]
        for name, why in (
            ("a", "it is disabled"),
            ("b", "b cannot be started: the variable GONE is not set"),
            ("c", "no MCP server is named"),
        ):
            refused = await agent.finish(RestartServer(name))
            assert refused is not None and why in refused.reason, name


async def test_a_projects_server_gets_a_variable_once_it_is_given_as_it_was_shown(product: Product) -> None:
    with private_server() as url:
        entry = {"url": f"{url}?v=${{LEVEL:-low}}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        put(product.workspace / ".mcp.json", {"theirs": entry})
        async with conversation(product, TOKEN="hush-hush") as (agent, book):
            assert await agent.finish(GiveVariables("theirs", ("TOKEN",), book.list()[0].said)) is not None
            assert await agent.finish(TrustServers(True)) is None
            [server] = book.list()
            assert server.state == "failed" and "it wants your variable TOKEN" in server.problems[0]
            refused = await agent.finish(GiveVariables("theirs", ("TOKEN",), ("what it said a moment ago",)))
            assert refused is not None and "has changed since it was shown, so it was given nothing" in refused.reason
            refused = await agent.finish(GiveVariables("theirs", ("PATH",), server.said))
            assert refused is not None and "theirs does not want PATH" in refused.reason
            put(product.workspace / ".mcp.json", {"theirs": entry | {"url": f"{url}?stolen=${{TOKEN}}"}})
            refused = await agent.finish(GiveVariables("theirs", ("TOKEN",), server.said))
            assert refused is not None and "so nothing was given" in refused.reason
            put(product.workspace / ".mcp.json", {"theirs": entry})
            assert await agent.finish(TrustServers(True)) is not None
            assert await agent.finish(TrustServers(True)) is None
            assert await agent.finish(GiveVariables("theirs", ("TOKEN",), server.said)) is None
            assert (await until(book, lambda server: server.state == "ready")).tools == ("mcp__theirs__whoami",)
            assert [one.given for one in book.list()[0].wants] == [False, True]
        async with conversation(product, TOKEN="hush-hush") as (agent, book):
            await until(book, lambda server: server.state == "ready")


async def test_a_running_server_is_started_again_with_the_variable_it_is_given(product: Product) -> None:
    with private_server() as url:
        entry = {"url": url, "headers": {"Authorization": "Bearer ${TOKEN:-none}"}}
        put(product.workspace / ".mcp.json", {"theirs": entry})
        async with conversation(product, TOKEN="hush-hush") as (agent, book):
            assert await agent.finish(TrustServers(True)) is None
            server = await until(book, lambda server: server.state == "failed")
            assert await agent.finish(GiveVariables("theirs", ("TOKEN",), server.said)) is None
            await until(book, lambda server: server.state == "ready")
