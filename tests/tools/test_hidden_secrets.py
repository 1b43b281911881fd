"""No tool reads a file of secrets through a link with a harmless name, whatever its author knows."""

from collections.abc import Callable

import pytest

from codeagent.core.errors import WorkspaceError
from codeagent.core.ports import Workspace
from codeagent.core.tool import Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.registry import ToolRegistry
from tests.fakes import put
from tests.toolbox import Toolbox

Opening = Callable[[Workspace, str], str]


class Args(ToolArgs):
    path: str


class Show(Tool[Args]):
    name = "show"
    label = "Show"
    description = "Show a file."
    Args = Args
    source = "package"

    def __init__(self, path_to_open: Opening) -> None:
        self._path_to_open = path_to_open

    async def run(self, args: Args, ctx: ToolContext) -> ToolResult:
        with ctx.workspace.open(self._path_to_open(ctx.workspace, args.path)) as file:
            return ToolResult.from_text(file.read().decode())


OPENINGS: dict[str, Opening] = {
    "as asked": lambda workspace, path: path,
    "normalized": lambda workspace, path: workspace.relative(path),
    "resolved": lambda workspace, path: workspace.resolve(path),
}
LINKS = {"notes": ".env", "deep/notes": "../.ssh/id", "again": "notes", "folder/id": None}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
async def test_a_new_tool_is_refused_a_hidden_secret(box: Toolbox, opening: Opening) -> None:
    box.registry = ToolRegistry([Show(opening)])
    put(box.root, ".env", "TOKEN=1")
    put(box.root, ".ssh/id", "TOKEN=2")
    (box.root / "deep").mkdir()
    (box.root / "folder").symlink_to(".ssh")
    for path, target in LINKS.items():
        if target is not None:
            (box.root / path).symlink_to(target)
        for asked in (path, f"./{path}", f".ssh/../{path}", str(box.root / path)):
            with pytest.raises(WorkspaceError, match=r"is a link, and .* by its own name"):
                await box.call("show", path=asked)
    assert await box.text("show", path=".env") == "TOKEN=1"
    assert await box.text("show", path=".ssh/id") == "TOKEN=2"


async def test_a_link_that_took_the_place_of_the_file_is_refused_when_it_is_opened(
    box: Toolbox,
) -> None:
    put(box.root, ".env", "TOKEN=1")
    put(box.root, "notes", "harmless")

    def swapped(workspace: Workspace, path: str) -> str:
        resolved = workspace.resolve(path)
        (box.root / "notes").unlink()
        (box.root / "notes").symlink_to(".env")
        return resolved

    box.registry = ToolRegistry([Show(swapped)])
    with pytest.raises(WorkspaceError, match="notes is a link"):
        await box.call("show", path="notes")
