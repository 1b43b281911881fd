"""What a card shows of a call is what the server gets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codeagent.core.display import TextBlock
from codeagent.core.tool import ToolContext
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.described import DescribedServer
from codeagent.extensions.mcp.offer import OfferedTool, offer_of
from codeagent.extensions.mcp.server_tool import ServerProgress, ServerTool
from codeagent.tools.arguments import read_arguments
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import tool_context

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "sort": {"type": ["string", "null"], "default": None},
        "filter": {
            "type": "object",
            "properties": {"deleted": {"type": "boolean", "default": True}},
        },
        "kind": {"type": "string", "default": "all"},
    },
    "required": ["query", "kind"],
}


class Server(DescribedServer):
    """Remembers what it was called with."""

    def __init__(self) -> None:
        super().__init__(ServerConfig("notes", "true"))
        self.called: list[Mapping[str, Any]] = []

    async def call(
        self, tool: str, arguments: Mapping[str, Any], ctx: ToolContext, progress: ServerProgress
    ) -> Mapping[str, Any]:
        self.called.append(arguments)
        return {"content": []}

    async def outdated(self, offered: OfferedTool, *, asked: bool) -> str:
        return ""

    def instructions(self, agent: str) -> str:
        return ""


async def test_arguments_that_were_not_given_are_neither_shown_nor_sent(tmp_path: Path) -> None:
    server, context = Server(), tool_context(LocalWorkspace(tmp_path))
    [offered] = offer_of("notes", [{"name": "find", "inputSchema": SCHEMA}]).tools
    tool = ServerTool(offered, server)
    args = read_arguments(tool, json.dumps({"query": "x", "filter": {}})).args
    preview = await tool.preview(args, context)
    await tool.run(args, context)
    [block] = preview.blocks
    assert isinstance(block, TextBlock)
    sent = {"query": "x", "filter": {}, "kind": "all"}
    assert json.loads(block.text.removeprefix("find ").partition("\n\n")[0]) == sent
    assert server.called == [sent]
    assert preview.target == "query='x', filter={}, kind='all'"
    assert tool.approval_key(args).parts == (json.dumps(sent, sort_keys=True),)
