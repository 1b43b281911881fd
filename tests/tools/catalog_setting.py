"""A workspace and a user's folder with tool files of one word per tool."""

from pathlib import Path
from typing import Any

from codeagent.core.tool import Tool, ToolArgs, ToolContext, ToolResult
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.folders import Loaded, ToolFile, ToolFolder


class Plain(Tool[ToolArgs]):
    label = "Plain"
    description = "Does nothing."
    Args = ToolArgs

    def __init__(self, name: str, origin: str = "", source: str = "builtin") -> None:
        self.name = name
        self.origin = origin
        self.source = source

    async def run(self, args: ToolArgs, ctx: ToolContext) -> ToolResult:
        return ToolResult.from_text(self.name)


class Lines:
    """Makes a tool of each line of a `.txt` file; a line `!` is an error."""

    suffixes = (".txt",)

    def __init__(self) -> None:
        self.loads: list[str] = []

    def load(self, file: ToolFile) -> Loaded:
        self.loads.append(file.shown)
        names = file.content.decode().split()
        if "!" in names:
            return Loaded(problems=(ToolProblem(f"{file.shown}:1", "it is broken"),))
        return Loaded(tuple(Plain(name, f"{file.shown}:1", "lines") for name in names))


class Trusting:
    def __init__(self) -> None:
        self.digest = ""

    def trusts(self, digest: str) -> bool:
        return digest == self.digest

    def trust(self, digest: str) -> None:
        self.digest = digest

    def forget(self) -> None:
        self.digest = ""


class Setting:
    """A workspace and a user's folder."""

    def __init__(self, base: Path) -> None:
        self.project = base / "project"
        self.user = base / "user"
        (self.project / ".codeagent" / "tools").mkdir(parents=True)
        self.user.mkdir()
        self.loader = Lines()
        self.trust = Trusting()

    def write(self, where: str, name: str, text: str) -> None:
        folder = self.user if where == "user" else self.project / ".codeagent" / "tools"
        (folder / name).write_text(text)

    def catalog(self, **more: Any) -> ToolCatalog:
        folders = (
            ToolFolder(self.user, (), "user", (".txt",)),
            ToolFolder(self.project, (".codeagent", "tools"), "project", (".txt",)),
        )
        builtin = [Plain("read"), Plain("bash")]
        return ToolCatalog(builtin, folders, [self.loader], trust=self.trust, **more)
