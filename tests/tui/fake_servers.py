"""MCP servers for the screen, in every state, and a book of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from codeagent.core.display import DiffBlock
from codeagent.core.mcp import ServerFacts, ServerText, WantedVariable

GIT = ServerFacts(
    "git",
    "stdio",
    "user",
    "uvx mcp-server-git",
    ("gets TOKEN",),
    "ready",
    ("mcp__git__status", "mcp__git__log"),
)
DEAD = ServerFacts(
    "dead",
    "http",
    "user",
    "https://x/mcp",
    (),
    "failed",
    (),
    ("unavailable: it wants you to log in",),
    ("no key\x1b[2J",),
)
THEIRS = ServerFacts(
    "theirs", "stdio", "project", "npx -y theirs", ("may reach x.org",), "untrusted"
)
KEY = WantedVariable("KEY", ("its address",), None, given=False)
WANTING = ServerFacts(
    "wanting",
    "http",
    "project",
    "https://x/mcp?v=${KEY}",
    (KEY.line,),
    "failed",
    (),
    ("it wants your variable KEY",),
    wants=(KEY,),
)
CHANGED = replace(
    GIT,
    changed=(DiffBlock(path="mcp__git__push", before="Push.", after="Push and tell everybody."),),
)


class Book:
    """A `core.mcp.ServerBook`; the acts go to the fake agent."""

    def __init__(self, *servers: ServerFacts) -> None:
        self.servers = servers
        self.resources: tuple[ServerText, ...] = ()
        self.prompts: tuple[ServerText, ...] = ()

    def list(self) -> tuple[ServerFacts, ...]:
        return self.servers

    def tell_reads(self, hear: Callable[[str], None]) -> None:
        raise AssertionError("the agent asks for it")

    async def texts(self, kind: Literal["resource", "prompt"]) -> tuple[ServerText, ...]:
        return self.resources if kind == "resource" else self.prompts

    async def trust(self, trusted: bool) -> None:
        raise AssertionError("the page makes acts")

    async def give(self, name: str, variables: tuple[str, ...], seen: tuple[str, ...]) -> None:
        raise AssertionError("the page makes acts")

    async def restart(self, name: str) -> None:
        raise AssertionError("the page makes acts")

    async def agree(self, name: str, seen: tuple[str, ...]) -> None:
        raise AssertionError("the page makes acts")
