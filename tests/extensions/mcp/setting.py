"""Servers of the tests, started on this machine, and what is left of them afterwards."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codeagent.core.approval_events import Asker
from codeagent.core.tool import Tool, ToolContext, ToolError, ToolResult
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.host import ServerHost
from codeagent.extensions.mcp.source import McpSource
from codeagent.sandbox.programs import MachinePrograms
from codeagent.tools.arguments import parse_arguments
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import tool_context

HOSTILE = Path(__file__).with_name("hostile.py")


@dataclass
class Setting:
    """A server's source, and what was heard of it."""

    source: McpSource
    folder: Path
    changes: asyncio.Event = field(default_factory=asyncio.Event)
    progress: list[str] = field(default_factory=list)
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.source.list().tools]

    @property
    def problems(self) -> str:
        return "\n".join(problem.text for problem in self.source.list().problems)

    async def start(self) -> None:
        async with asyncio.timeout(60):
            await self.source.start(self.changes.set)

    async def call(self, name: str = "echo", **arguments: Any) -> ToolResult:
        """Raises ToolError."""
        tool = self.tool(name)
        args = parse_arguments(tool, json.dumps(arguments))
        return await tool.run(args, self.context())

    def tool(self, name: str) -> Tool[Any]:
        return self.source.get(f"mcp__{self.source.name}__{name}")

    def context(self) -> ToolContext:
        async def on_progress(text: str) -> None:
            self.progress.append(text)
            self._heard.set()

        return replace(tool_context(LocalWorkspace(self.folder)), on_progress=on_progress)

    async def heard(self) -> None:
        """Return once there is more progress."""
        self._heard.clear()
        await self._heard.wait()

    async def until(self, what: Any) -> None:
        """Return once `what()` is true, which is looked at after each change of the listing."""
        async with asyncio.timeout(60):
            while not what():
                self.changes.clear()
                await self.changes.wait()


@asynccontextmanager
async def serving(
    folder: Path, config: ServerConfig, asker: Asker | None = None
) -> AsyncIterator[Setting]:
    """A source of that server, not started yet; closed afterwards. It runs on the machine, wherever
    it asks for."""
    (root := folder / "project").mkdir(exist_ok=True)
    start = MachinePrograms(root, {"PATH": "/usr/bin:/bin"}, folder / "own").start
    source = McpSource(config, ServerHost(root, {config.where: start}, folder / "pins", asker))
    try:
        yield Setting(source, folder)
    finally:
        async with asyncio.timeout(60):
            await source.close()


@asynccontextmanager
async def hostile(
    behaviour: str, folder: Path, asker: Asker | None = None, **fields: Any
) -> AsyncIterator[Setting]:
    """The server of hostile.py, started; `fields` replace what a ServerConfig has."""
    config = ServerConfig(
        "hostile", sys.executable, (str(HOSTILE), behaviour, str(folder)), where="machine"
    )
    async with serving(folder, replace(config, **fields), asker) as setting:
        await setting.start()
        yield setting


async def answer_of(setting: Setting, name: str = "echo", **arguments: Any) -> str:
    """What the model reads, an error or not."""
    try:
        result = await setting.call(name, **arguments)
    except ToolError as error:
        return "\n".join(
            [str(error), *(part.text for part in error.content if part.type == "text")]
        )
    return "\n".join(
        part.text if part.type == "text" else f"<{part.media_type}>" for part in result.content
    )
