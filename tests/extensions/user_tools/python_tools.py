"""Tool files as people write them, loaded and called as the model does."""

import json
import threading
from pathlib import Path
from typing import Any, Literal

from codeagent.core.messages import text_of
from codeagent.core.sandbox import Sandbox
from codeagent.core.tool import Tool, ToolResult
from codeagent.core.toolbox import ToolProblem
from codeagent.extensions.user_tools.function_tool import THREAD_NAME
from codeagent.extensions.user_tools.python import PythonLoader
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import Loaded, ToolFile
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import FakeOutputs, tool_context

SHOWN = ".codeagent/tools/mine.py"
HEAD = "from codeagent import *\n"


class Author:
    """Someone who writes a tool file and tries it out."""

    def __init__(self, root: Path, import_seconds: float = 10) -> None:
        self.workspace = LocalWorkspace(root)
        self.outputs = FakeOutputs()
        self.reads = ReadTracker(self.workspace)
        self.loader = PythonLoader(self.outputs, import_seconds)
        self.sandbox: Sandbox | None = None
        self.updates: list[tuple[str, str]] = []

    def load(
        self, source: str | bytes, shown: str = SHOWN, place: Literal["project", "user"] = "project"
    ) -> Loaded:
        content = source.encode() if isinstance(source, str) else source
        return self.loader.load(ToolFile(Path("/nowhere") / shown, shown, content, place))

    def errors(self, source: str | bytes) -> list[str]:
        """What keeps the file out of use, as people read it."""
        loaded = self.load(source)
        found = [str(problem) for problem in loaded.problems if problem.level == "error"]
        assert not found or loaded.tools == ()
        return found

    def warnings(self, source: str) -> list[ToolProblem]:
        return [problem for problem in self.load(source).problems if problem.level == "warning"]

    def tool(self, source: str, name: str | None = None) -> Tool[Any]:
        loaded = self.load(source)
        assert loaded.tools, [str(problem) for problem in loaded.problems]
        return next(tool for tool in loaded.tools if name in (None, tool.name))

    async def call(self, tool: Tool[Any], /, **arguments: object) -> ToolResult:
        args = parse_arguments(tool, json.dumps(arguments))
        return await tool.run(
            args, tool_context(self.workspace, self.sandbox, updates=self.updates)
        )

    async def text(self, source: str, /, **arguments: object) -> str:
        """The text for the model, of the file's first tool."""
        return text_of((await self.call(self.tool(source), **arguments)).content)


def threads_ended() -> None:
    """Wait for functions that were left to themselves: what they print is heard until then."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(10)
