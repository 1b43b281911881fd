"""The `toolset_use` tool: turns a toolset on or off, or shows the whole definitions of its
tools."""

import json
from typing import Annotated, Literal, Self

from codeagent.core.deferred import Field, model_validator
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Access, Tool, ToolArgs, ToolContext, ToolDefinition, ToolResult
from codeagent.tools.source import ListedTool
from codeagent.tools.toolsets import MOST_AT_ONCE, Toolsets

_WIDTH = 160


class ToolsetUseArgs(ToolArgs):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    tools: Annotated[tuple[str, ...], Field(max_length=MOST_AT_ONCE)] = ()
    do: Literal["on", "off", "detail"] = "on"

    @model_validator(mode="after")
    def _detail_of_something(self) -> Self:
        if self.do == "detail" and not self.tools:
            raise ValueError("detail needs the names of the tools to show")
        return self


class ToolsetUse(Tool[ToolsetUseArgs]):
    """Does not need approval: every call of a tool that it turns on is checked separately."""

    name = "toolset_use"
    label = "Use toolset"
    description = "Turn a toolset, or some of its tools, on or off from your next answer on."
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
        match args.do:
            case "on":
                return await self._on(args, ctx)
            case "off":
                choice = self._toolsets.turn_off(args.name, args.tools)
                what = ", ".join(args.tools) or args.name
                return ToolResult.from_text(
                    f"From your next answer on, {what} is off.", details=choice.details
                )
            case "detail":
                found = await self._toolsets.shown(args.name, args.tools)
                return ToolResult.from_text("\n\n".join(map(_whole, found)))

    async def _on(self, args: ToolsetUseArgs, ctx: ToolContext) -> ToolResult:
        choice, picked = await self._toolsets.use(args.name, args.tools)
        toolset = self._toolsets.available.all()[args.name]
        taken = [tool.name for tool in picked if self._toolsets.taken(toolset, tool.name)]
        lines = [f"{args.name} is on. From your next answer on you can call:"]
        lines += [_line(tool) for tool in picked if tool.name not in taken]
        lines += (
            [f"Not in use, because another tool has the name: {', '.join(taken)}"] if taken else []
        )
        if toolset.instructions is not None and (instructions := toolset.instructions(ctx.agent)):
            lines += ["", instructions]
        return ToolResult.from_text("\n".join(lines), details=choice.details)


def _whole(tool: ToolDefinition) -> str:
    arguments = json.dumps(tool.parameters, indent=1, ensure_ascii=False, default=str)
    return f"{tool.name}: {tool.description}\n{arguments}"


def _line(tool: ListedTool) -> str:
    return f"- {one_line(tool.name, 64)}: {one_line(tool.summary, _WIDTH)}"
