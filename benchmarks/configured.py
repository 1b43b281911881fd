"""What is configured and not used: the first request and the first frame beside it, against a bare
configuration."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from benchmarks.measure import CODEAGENT, Figure, model_server, ms, run
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, terminal
from benchmarks.served import HOST, served

T = TypeVar("T")
ANSWER = [{"text": "done"}]
_SILENT = {
    "command": sys.executable,
    "args": ["-c", "import sys; sys.stdin.read()"],
    "where": "machine",
}
"""An MCP server that never answers: whoever waits for it waits long."""
_CONFIG = """\
[toolsets]
offer = ["files", "messages", "triggers", "web", "agents"]
[toolsets.groups.orders]
source = "shop"
paths = ["/thing7*"]
"""
_TIMES = 7


def figures() -> Iterator[Figure]:
    with place() as bare, place() as servers, place() as everything:
        for here in (servers, everything):
            _add_servers(here)
        _add_the_rest(everything)
        yield from _requests("five MCP servers", bare, servers)
        yield from _requests("everything", bare, everything)
        yield from _frames(bare, servers)


def _requests(what: str, bare: BenchEnvironment, here: BenchEnvironment) -> Iterator[Figure]:
    """Runs of both in turn: the time to the first request, and its size."""
    without, beside = _in_turn(
        lambda: served(HOST, ANSWER, bare), lambda: served(HOST, ANSWER, here)
    )
    first, least = (
        statistics.median(one.to_first_request for one in runs) for runs in (beside, without)
    )
    yield Figure(
        f"to first request, {what} unused",
        ms(first),
        f"without {ms(least)}",
        first / least,
        "<= 1.5",
    )
    size, small = (runs[0].log[0]["bytes"] / 1024 for runs in (beside, without))
    yield Figure("… its size", f"{size:.2f} KB", f"without {small:.2f} KB", size / small, "<= 8 KB")


def _frames(bare: BenchEnvironment, servers: BenchEnvironment) -> Iterator[Figure]:
    with model_server(ANSWER) as server:
        command = [
            *CODEAGENT,
            "--model",
            "openai/bench",
            "--api-base",
            server.base_url,
            "--sandbox",
            "off",
        ]

        def first(here: BenchEnvironment) -> float:
            started = time.monotonic()
            with terminal(command, here.workspace, here.env) as screen:
                screen.until(READY)
                screen.echo()
                return time.monotonic() - started

        without, beside = _in_turn(lambda: first(bare), lambda: first(servers))
    typed, least = statistics.median(beside), statistics.median(without)
    name = "to a typed character, five MCP servers"
    yield Figure(name, ms(typed), f"without {ms(least)}", typed / least, "<= 1.1")


def _in_turn(one: Callable[[], T], other: Callable[[], T]) -> tuple[list[T], list[T]]:
    pairs = [(one(), other()) for _ in range(_TIMES)][1:]
    return [first for first, _ in pairs], [second for _, second in pairs]


def _add_servers(here: BenchEnvironment) -> None:
    folder = here.home / "XDG_CONFIG_HOME" / "codeagent"
    folder.mkdir(parents=True)
    servers = {f"server{number}": _SILENT for number in range(5)}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def _add_the_rest(here: BenchEnvironment) -> None:
    """Every built-in set, two agents, and a document of a thousand operations."""
    folder = here.home / "XDG_CONFIG_HOME" / "codeagent"
    (folder / "config.toml").write_text(_CONFIG)
    (folder / "agents").mkdir()
    for name in ("reviewer", "tester"):
        text = f"---\nname: {name}\ndescription: Looks at a change.\n---\nYou look at changes.\n"
        (folder / "agents" / f"{name}.md").write_text(text)
    operation = {"responses": {"200": {"description": "ok"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example.org"}],
        "paths": {
            f"/thing{number}": {"get": operation, "post": operation} for number in range(500)
        },
    }
    (here.workspace / "shop.json").write_text(json.dumps(document))
    command = [
        *CODEAGENT,
        "tools",
        "add",
        "openapi",
        "shop.json",
        "--name",
        "shop",
        "--host",
        "shop.example.org",
    ]
    if run(command, cwd=here.workspace, env=here.env).code:
        raise RuntimeError("the document could not be added")
