"""The tools `glob` and `tree`, which show more of a directory at once than `list`."""

from typing import Annotated

from codeagent.core.deferred import Field
from codeagent.core.patterns import ignore_line
from codeagent.core.sanitize import spelled
from codeagent.core.tool import InvalidArgs, ToolContext, ToolResult
from codeagent.tools.arguments import DEEPEST, Count, PathText
from codeagent.tools.changes import PathArgs, ReadingTool
from codeagent.tools.walk import TreeWalk

_MOST_LINES = 2000
_MOST_IN_ONE = 300
_DEPTH = 8


class _FolderArgs(PathArgs):
    path: PathText = "."


class GlobArgs(_FolderArgs):
    patterns: Annotated[tuple[str, ...], Field(min_length=1, max_length=50)]


class TreeArgs(_FolderArgs):
    depth: Annotated[Count, Field(le=DEEPEST)] = _DEPTH
    folders: bool = False


class Glob(ReadingTool[GlobArgs]):
    name = "glob"
    label = "Glob"
    description = (
        "List the paths of all files that match one of several patterns, with sizes: *.py, src/**/test_*; "
        "!*_pb2.py leaves some out. Ignored files are not looked at."
    )
    Args = GlobArgs

    def target(self, args: GlobArgs) -> str:
        return f"{spelled(args.path)} {' '.join(args.patterns)}"

    async def run(self, args: GlobArgs, ctx: ToolContext) -> ToolResult:
        globs = [(pattern, ignore_line(pattern)) for pattern in args.patterns]
        empty = next((pattern for pattern, glob in globs if glob is None), None)
        if empty is not None:
            raise InvalidArgs(
                f"{empty!r} is not a pattern; write one such as *.py or src/**/test_*"
            )
        found = tuple(glob for _, glob in globs if glob is not None)
        walk = TreeWalk(
            ctx.workspace,
            ctx.cancel,
            DEEPEST,
            found,
            denied=ctx.reading.denied,
            most_lines=_MOST_LINES,
        )
        return await walk.result(ctx.workspace.resolve(args.path, reading=False))


class Tree(ReadingTool[TreeArgs]):
    name = "tree"
    label = "Tree"
    description = (
        f"Show a directory as a tree, {_DEPTH} levels deep unless depth says otherwise. With folders, only its "
        "directories, each with the number of files below it."
    )
    Args = TreeArgs

    async def run(self, args: TreeArgs, ctx: ToolContext) -> ToolResult:
        walk = TreeWalk(
            ctx.workspace,
            ctx.cancel,
            args.depth,
            only_folders=args.folders,
            denied=ctx.reading.denied,
            most_lines=_MOST_LINES,
            most_in_one=_MOST_IN_ONE,
        )
        return await walk.result(ctx.workspace.resolve(args.path, reading=False))
