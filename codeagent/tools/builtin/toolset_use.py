"""The `toolset_use` tool: turns on a toolset, whose tools are then called like any other (FEATURES F23)."""

from typing import Annotated

from pydantic import Field

from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Access, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.source import ListedTool
from codeagent.tools.toolsets import MOST_AT_ONCE, Toolsets

_WIDTH = 160


class ToolsetUseArgs(ToolArgs):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    tools: Annotated[tuple[str, ...], Field(max_length=MOST_AT_ONCE)] = ()


class ToolsetUse(Tool[ToolsetUseArgs]):
    """Does not need approval: every call of a tool that it turns on is checked separately."""

    name = "toolset_use"
    label = "Use toolset"
    description = "Turn on a toolset, or some of its tools; call them from your next answer on."
    Args = ToolsetUseArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(self, toolsets: Toolsets) -> None:
        self._toolsets = toolsets

    def access(self, args: ToolsetUseArgs, workspace: Workspace) -> Access:
        return Access("shared", "")

    def approval_key(self, args: ToolsetUseArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.name,))

    async def run(self, args: ToolsetUseArgs, ctx: ToolContext) -> ToolResult:
        choice, picked = await self._toolsets.use(args.name, args.tools)
        toolset = self._toolsets.all()[args.name]
        taken = [tool.name for tool in picked if self._toolsets.taken(toolset, tool.name)]
        lines = [f"{args.name} is on. From your next answer on you can call:"]
        lines += [_line(tool) for tool in picked if tool.name not in taken]
        lines += [f"Not in use, because another tool has the name: {', '.join(taken)}"] if taken else []
        if toolset.instructions is not None and (instructions := toolset.instructions(ctx.agent)):
            lines += ["", instructions]
        return ToolResult.from_text("\n".join(lines), details=choice.details)


def _line(tool: ListedTool) -> str:
    return f"- {one_line(tool.name, 64)}: {one_line(tool.summary, _WIDTH)}"
