"""The `list` tool: the tree of a directory, without what the repository ignores."""

from typing import Annotated

from codeagent.core.deferred import Field
from codeagent.core.patterns import ignore_line
from codeagent.core.sanitize import spelled
from codeagent.core.tool import ToolContext, ToolResult
from codeagent.tools.arguments import DEEPEST, Count, PathText
from codeagent.tools.changes import PathArgs, ReadingTool

_DEPTH = 3


class ListArgs(PathArgs):
    path: PathText = "."
    depth: Annotated[Count, Field(le=DEEPEST)] | None = None
    glob: str | None = None


class List(ReadingTool[ListArgs]):
    name = "list"
    label = "List"
    description = (
        f"Show a directory as a tree with sizes, {_DEPTH} levels deep, without ignored files. "
        "With glob, list matching paths: *.py, src/**."
    )
    Args = ListArgs

    def target(self, args: ListArgs) -> str:
        return f"{spelled(args.path)} {args.glob}" if args.glob else spelled(args.path)

    async def run(self, args: ListArgs, ctx: ToolContext) -> ToolResult:
        from codeagent.tools.walk import TreeWalk  # once something is listed

        path = ctx.workspace.resolve(args.path, reading=False)
        glob = ignore_line(args.glob) if args.glob else None
        depth = args.depth or (DEEPEST if glob else _DEPTH)
        globs = () if glob is None else (glob,)
        walk = TreeWalk(ctx.workspace, ctx.cancel, depth, globs, denied=ctx.reading.denied)
        return await walk.result(path)
