"""How model servers on this machine are found."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from codeagent.llm.local_servers import KeyWanted, LocalServer, ask_ports, server_at
from tests.table import for_each

OK = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"data": [{"id": "qwen3"}, {"id": "gpt-oss"}]}'
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


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
    assert all(request.startswith(b"GET /v1/models HTTP/1.1\r\n") for request in requests)


async def found(port: int) -> tuple[LocalServer, ...]:
    return await ask_ports({"A server": port}, 0.3)


async def test_a_server_is_found_with_its_models_and_address() -> None:
    async with listening(OK) as port:
        assert await found(port) == (
            LocalServer("A server", f"http://127.0.0.1:{port}/v1", ("qwen3", "gpt-oss")),
        )


async def test_one_on_ipv6_alone_is_found_too() -> None:
    async with listening(OK, "::1") as port:
        [server] = await found(port)
        assert server.api_base == f"http://[::1]:{port}/v1"


@for_each(
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


@for_each("suffix", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
async def test_a_named_server_is_asked_for_its_models_with_or_without_the_version_in_its_address(
    suffix: str,
) -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        found = asked[-1] == b"/v1/models"
        writer.write(OK if found else b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with listening(serve) as port:
        server = await server_at(f"http://127.0.0.1:{port}{suffix}")
        assert server == LocalServer(
            f"127.0.0.1:{port}", f"http://127.0.0.1:{port}/v1", ("qwen3", "gpt-oss")
        )


@for_each(("key", "found"), [(None, False), ("wrong", False), ("right", True)])
async def test_a_named_server_that_wants_a_key_lists_its_models_only_with_that(
    key: str | None, found: bool
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        allowed = b"Bearer right\r\n" in head
        writer.write(OK if allowed else b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with listening(serve) as port:
        server = await server_at(f"http://127.0.0.1:{port}", key)
        listed = LocalServer(
            f"127.0.0.1:{port}", f"http://127.0.0.1:{port}/v1", ("qwen3", "gpt-oss")
        )
        assert server == (listed if found else KeyWanted(f"127.0.0.1:{port}"))


@for_each("answer", [b"HTTP/1.1 500 No\r\n\r\n", b"SSH-2.0\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>"])
async def test_a_named_server_that_lists_no_models_has_none(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with listening(serve) as port:
        assert await server_at(f"http://127.0.0.1:{port}") is None
    assert await server_at("http://127.0.0.1:1") is None


def test_the_first_screen_asks_servers_and_providers_without_loading_a_second_http_library() -> (
    None
):
    code = (
        "import asyncio, sys\n"
        "import codeagent.commands.launcher\n"
        "from codeagent.llm.local_servers import server_at\n"
        "from codeagent.llm.key_trial import try_key\n"
        "asyncio.run(server_at('http://127.0.0.1:1'))\n"
        "asyncio.run(try_key('OPENAI_API_KEY', 'sk-canary', {'OPENAI_API_BASE': 'http://127.0.0.1:1'}))\n"
        "print('httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
