"""A workspace with the tools over it, and one way to call them: as the model does, with raw
JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.sandbox import Sandbox
from codeagent.core.tool import Tool, ToolResult
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.output_read import OutputRead
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.registry import ToolRegistry
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import FakeOutputs, tool_context


class Toolbox:
    """The tools of one session over one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = LocalWorkspace(root)
        self.outputs = FakeOutputs()
        self.reads = ReadTracker(self.workspace)
        self.sandbox: Sandbox | None = None
        self.updates: list[tuple[str, str]] = []
        self.registry = ToolRegistry(
            [
                Bash(self.outputs, self.reads),
                Read(self.workspace, self.reads),
                Write(self.workspace, self.reads),
                Edit(self.workspace, self.reads),
                List(self.workspace),
                Search(self.workspace, self.reads),
                OutputRead(self.outputs),
            ]
        )

    def tool(self, name: str) -> Tool[Any]:
        return self.registry.get(name)

    async def call(
        self, name: str, /, *, base: str | None = None, **arguments: object
    ) -> ToolResult:
        tool = self.tool(name)
        args = parse_arguments(tool, json.dumps(arguments))
        context = tool_context(self.workspace, self.sandbox, base=base, updates=self.updates)
        return await tool.run(args, context)

    async def text(self, name: str, /, **arguments: object) -> str:
        result = await self.call(name, **arguments)
        return "\n".join(part.text for part in result.content if part.type == "text")

    def content(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    async def preview_base(self, name: str, **arguments: object) -> str | None:
        tool = self.tool(name)
        args = parse_arguments(tool, json.dumps(arguments))
        return (await tool.preview(args, tool_context(self.workspace))).base


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    root = tmp_path / "project"
    root.mkdir()
    toolbox = Toolbox(root)
    yield toolbox
    toolbox.workspace.close()
