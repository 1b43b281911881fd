"""The `list` tool: the tree of a directory, without what the repository ignores."""

from typing import Annotated

from codeagent.changes.keys import path_key
from codeagent.core.deferred import Field
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Tool, ToolArgs, ToolContext, ToolResult
from codeagent.core.wildmatch import ignore_line
from codeagent.tools.arguments import DEEPEST, Count, PathText

_DEPTH = 3


class ListArgs(ToolArgs):
    path: PathText = "."
    depth: Annotated[Count, Field(le=DEEPEST)] | None = None
    glob: str | None = None


class List(Tool[ListArgs]):
    name = "list"
    label = "List"
    description = (
        f"Show a directory as a tree with sizes, {_DEPTH} levels deep, without ignored files. "
        "With glob, list matching paths: *.py, src/**."
    )
    Args = ListArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def approval_key(self, args: ListArgs) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=True)

    def target(self, args: ListArgs) -> str:
        return f"{spelled(args.path)} {args.glob}" if args.glob else spelled(args.path)

    async def run(self, args: ListArgs, ctx: ToolContext) -> ToolResult:
        from codeagent.tools.walk import TreeWalk  # once something is listed

        path = ctx.workspace.resolve(args.path, reading=False)
        glob = ignore_line(args.glob) if args.glob else None
        depth = args.depth or (DEEPEST if glob else _DEPTH)
        globs = () if glob is None else (glob,)
        walk = TreeWalk(ctx.workspace, ctx.cancel, depth, globs, denied=ctx.denied)
        return await walk.result(path)
