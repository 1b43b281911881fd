"""MCP servers for the screen, in every state, and a book of them."""

from dataclasses import replace

from codeagent.agent.parts import ConversationPart
from codeagent.core.display import DiffBlock
from codeagent.core.runtime import OfferedText, TextKind
from codeagent.extensions.mcp.config import ListedServers, ServerStatus, WantedVariable

GIT = ServerStatus(
    "git",
    "stdio",
    "user",
    "uvx mcp-server-git",
    ("gets TOKEN",),
    "ready",
    ("mcp__git__status", "mcp__git__log"),
)
DEAD = ServerStatus(
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
THEIRS = ServerStatus(
    "theirs", "stdio", "project", "npx -y theirs", ("may reach x.org",), "untrusted"
)
KEY = WantedVariable("KEY", ("its address",), None, given=False)
WANTING = ServerStatus(
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


class Book(ConversationPart, ListedServers):
    """Servers of which the page sees what a test says; the acts go to the fake agent."""

    def __init__(self, *servers: ServerStatus) -> None:
        self.servers = servers
        self.resources: tuple[OfferedText, ...] = ()
        self.prompts: tuple[OfferedText, ...] = ()

    def list(self) -> tuple[ServerStatus, ...]:
        return self.servers

    async def texts(self, kind: TextKind) -> tuple[OfferedText, ...]:
        return self.resources if kind == "resource" else self.prompts
