"""Servers over streamable HTTP: a real one of the SDK, and others that misbehave on the wire."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from codeagent.extensions.mcp.config import ServerConfig
from tests.extensions.mcp.setting import Setting, answer_of, serving

Answer = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Its address, while it runs in this loop."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1)
    )
    with socket.create_server(("127.0.0.1", 0)) as accepting:
        running = asyncio.create_task(server._serve([accepting]))
        try:
            yield f"http://127.0.0.1:{accepting.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await running


def sdk_server(**options: bool) -> Starlette:
    server = MCPServer("http")

    @server.tool()
    def echo(text: str) -> str:
        """Say it back."""
        return text

    @server.tool()
    async def steps(context: Context, number: int) -> str:
        """Take steps."""
        for step in range(number):
            await context.report_progress(step + 1, number)
        return "done"

    return server.streamable_http_app(**options)


@asynccontextmanager
async def reaching(folder: Path, url: str, **fields: object) -> AsyncIterator[Setting]:
    config = ServerConfig("http", url=url, **{"timeout": 30.0, "start_timeout": 20.0, **fields})  # type: ignore[arg-type]  # by name
    async with serving(folder, config) as setting:
        await setting.start()
        yield setting


def answering(answer: Answer) -> Starlette:
    return Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])


async def test_a_server_over_http_is_listed_called_and_tells_of_its_progress(
    tmp_path: Path,
) -> None:
    for json_response in (False, True):
        async with (
            listening(sdk_server(json_response=json_response)) as url,
            reaching(tmp_path, url) as setting,
        ):
            assert (setting.source.list().state, setting.problems) == ("ready", "")
            assert await answer_of(setting, text="hi") == "hi"
            assert await answer_of(setting, "steps", number=3) == "done"
            assert json_response or setting.progress


async def test_headers_go_with_every_request(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    app = sdk_server()

    async def watching(scope, receive, send) -> None:  # type: ignore[no-untyped-def]  # ASGI
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            seen.append((headers.get(b"x-key", b"").decode(), headers[b"accept-encoding"].decode()))
        await app(scope, receive, send)

    async with (
        listening(watching) as url,
        reaching(tmp_path, url, headers={"X-Key": "secret"}) as setting,
    ):
        assert await answer_of(setting, text="hi") == "hi"
    assert len(seen) >= 4
    assert set(seen) == {("secret", "identity")}


async def test_a_server_without_a_handshake_is_used_over_http(tmp_path: Path) -> None:
    app, versions = sdk_server(), list[str]()

    async def newer(scope, receive, send) -> None:  # type: ignore[no-untyped-def]  # ASGI
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        message = await receive()
        asked = json.loads(message["body"])
        if asked["method"] == "initialize":
            data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
            error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
            body = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
            await Response(json.dumps(body), 400, media_type="application/json")(
                scope, receive, send
            )
            return
        versions.append(dict(scope["headers"])[b"mcp-protocol-version"].decode())

        first = [message]

        async def again() -> Message:
            return first.pop() if first else await receive()

        await app(scope, again, send)

    async with listening(newer) as url, reaching(tmp_path, url) as setting:
        assert (setting.source.list().state, setting.problems) == ("ready", "")
        assert await answer_of(setting, text="hi") == "hi"
        assert await answer_of(setting, "steps", number=3) == "done"
    assert set(versions) == {"2026-07-28"}


async def test_a_server_that_forgot_the_session_is_reached_again(tmp_path: Path) -> None:
    apps = [sdk_server(), sdk_server()]

    async def current(scope, receive, send) -> None:  # type: ignore[no-untyped-def]  # ASGI
        await apps[0](scope, receive, send)

    other = apps[1].router.lifespan_context(apps[1])
    async with listening(current) as url, other, reaching(tmp_path, url) as setting:
        assert await answer_of(setting, text="one") == "one"
        apps.reverse()
        assert "whether the call took effect is unknown" in await answer_of(setting, text="two")
        await setting.until(lambda: setting.source.list().state == "ready")
        assert await answer_of(setting, text="three") == "three"


@pytest.mark.parametrize(
    ("said", "reached"),
    [
        ("Bad Request: No valid session ID provided", True),
        ("Session not found", True),
        ("Bad Request: Server not initialized for this session, invalid", True),
        ("text is too long", False),
    ],
)
async def test_a_server_that_answers_400_to_an_old_session_is_reached_again(
    tmp_path: Path, said: str, reached: bool
) -> None:
    app, old, opened = sdk_server(), set[bytes](), list[bytes]()

    async def restarted(scope, receive, send) -> None:  # type: ignore[no-untyped-def]  # ASGI
        headers = dict(scope.get("headers", ()))
        session = headers.get(b"mcp-session-id", b"")
        if scope["type"] == "http" and session and session not in opened:
            opened.append(session)
        if scope["type"] == "http" and scope["method"] == "POST" and session in old:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": said}}
            await Response(json.dumps(error), 400, media_type="application/json")(
                scope, receive, send
            )
            return
        await app(scope, receive, send)

    async with listening(restarted) as url, reaching(tmp_path, url) as setting:
        assert await answer_of(setting, text="one") == "one"
        old.update(opened)
        await answer_of(setting, text="two")
        if reached:
            await setting.until(lambda: setting.source.list().state == "ready" and len(opened) > 1)
            assert await answer_of(setting, text="three") == "three"
        else:
            assert len(opened) == 1 and setting.source.list().state == "ready"


async def test_nothing_there_is_said_at_once(tmp_path: Path) -> None:
    async with reaching(tmp_path, "http://127.0.0.1:9/mcp") as setting:
        assert setting.source.list().state == "failed"
        assert "unavailable: it cannot be reached at http://127.0.0.1:9/mcp (" in setting.problems


async def hang(request: Request) -> Response:
    await asyncio.sleep(600)
    raise AssertionError


async def refuse(request: Request) -> Response:
    return Response("no", 401)


async def elsewhere(request: Request) -> Response:
    return RedirectResponse("http://localhost:9/other", 307)


async def compressed(request: Request) -> Response:
    body = gzip.compress(b" " * (64 << 20) + b"{}")
    return Response(body, media_type="application/json", headers={"Content-Encoding": "gzip"})


async def endless(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b" " * (1 << 20)
            await asyncio.sleep(0)

    return StreamingResponse(pieces(), media_type="application/json")


async def endless_event(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"event: message\ndata: "
        while True:
            yield b"x" * (1 << 20)
            await asyncio.sleep(0)

    return StreamingResponse(pieces(), media_type="text/event-stream")


async def a_page(request: Request) -> Response:
    return Response("<html>\x1b]0;owned\x07</html>", media_type="text/html")


async def another_answer(request: Request) -> Response:
    number = json.loads(await request.body()).get("id")
    return Response(
        json.dumps({"jsonrpc": "2.0", "id": number, "result": []}), media_type="application/json"
    )


async def test_a_server_that_misbehaves_on_the_wire_does_no_harm(tmp_path: Path) -> None:
    cases: dict[Answer, str] = {
        hang: "within 1 s",
        refuse: "unavailable: ",
        elsewhere: "not followed",
        compressed: "unavailable: ",
        endless: "unavailable: ",
        endless_event: "unavailable: ",
        a_page: "text/html",
        another_answer: "unavailable: ",
    }
    for answer, expected in cases.items():
        seconds = 1.0 if answer is hang else 20.0
        async with (
            listening(answering(answer)) as url,
            reaching(tmp_path, url, start_timeout=seconds) as setting,
        ):
            assert setting.source.list().state == "failed", answer
            assert expected in setting.problems, answer
            assert setting.names == []
