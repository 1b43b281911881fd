"""The `toolset_list` tool: the sets of further tools that the model can turn on, and what is in
each."""

from typing import Annotated

from codeagent.core.deferred import Field
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Access, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.core.toolbox import ToolsetSummary
from codeagent.tools.source import ListedTool
from codeagent.tools.toolsets import Toolsets

_PAGE = 40
"""Tools, or toolsets, on one page."""
_WIDTH = 160
_SECONDS = 3.0
"""Seconds that a list of all toolsets waits for those that are starting."""
_NAMED = 50
"""Characters for the names of toolsets in the description."""


class ToolsetListArgs(ToolArgs):
    name: Annotated[str, Field(max_length=200)] = ""
    search: Annotated[str, Field(max_length=200)] = ""
    page: Annotated[int, Field(ge=1, le=1000)] = 1


class ToolsetList(Tool[ToolsetListArgs]):
    """Does not need approval: it shows names and summaries."""

    name = "toolset_list"
    label = "Toolsets"
    Args = ToolsetListArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    repeatable = True

    def __init__(self, toolsets: Toolsets) -> None:
        """The description names the current toolsets and never changes, as the model was told
        it."""
        self._toolsets = toolsets
        known = one_line(", ".join(toolsets.available.all()), _NAMED)
        self.description = f"List sets of further tools ({known}); with name, the tools of one."

    def access(self, args: ToolsetListArgs, workspace: Workspace) -> Access:
        return Access("shared", "")

    def approval_key(self, args: ToolsetListArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.name,))

    async def run(self, args: ToolsetListArgs, ctx: ToolContext) -> ToolResult:
        words = args.search.lower().split()
        if args.name:
            toolset = await self._toolsets.available.ready(args.name)
            head = self._line(
                next(one for one in self._toolsets.facts() if one.name == toolset.name)
            )
            lines = [_tool(tool) for tool in toolset.tools if _fits(words, tool)]
            return ToolResult.from_text("\n".join([head, *_page(lines, args.page, "tools")]))
        await self._toolsets.sources.all_started(_SECONDS)
        lines = [self._line(facts) for facts in self._toolsets.facts()]
        if words:
            lines = self._found(words)
        return ToolResult.from_text(
            "\n".join(_page(lines, args.page, "tools" if words else "toolsets"))
        )

    def _found(self, words: list[str]) -> list[str]:
        """Return every tool with these words, once, with the smallest toolset that has it."""
        found: dict[tuple[str, str], str] = {}
        for one in sorted(self._toolsets.available.all().values(), key=lambda one: -len(one.tools)):
            fitting = (tool for tool in one.tools if _fits(words, tool))
            found |= {(one.source, tool.name): f"{one.name}: {_tool(tool)}" for tool in fitting}
        return list(found.values())

    def _line(self, facts: ToolsetSummary) -> str:
        about = f": {one_line(facts.about, _WIDTH)}" if facts.about else ""
        return f"{facts.name} ({_state(facts)}){about}"


def _state(facts: ToolsetSummary) -> str:
    match facts.state:
        case "failed":
            state = f"failed, tried again later: {facts.reason}"
        case "starting":
            state = "starting"
        case "waiting" | "ready":
            state = "off"
    count = f"{facts.tools} tool{'s' * (facts.tools != 1)}"
    if facts.in_use:
        count, state = (
            f"{facts.in_use} of {count} in use",
            state if facts.state in ("failed", "starting") else "",
        )
    return ", ".join(part for part in (state, count) if part)


def _tool(tool: ListedTool) -> str:
    name = one_line(tool.name, 64)
    return f"- {name}: {one_line(tool.summary, _WIDTH)}" if tool.summary else f"- {name}"


def _fits(words: list[str], tool: ListedTool) -> bool:
    text = " ".join((tool.name, tool.summary, tool.path, *tool.tags)).lower()
    return all(word in text for word in words)


def _page(lines: list[str], page: int, what: str) -> list[str]:
    """Return the lines of that page, from 1, and how to see the others."""
    pages = max(1, -(-len(lines) // _PAGE))
    shown = lines[(page - 1) * _PAGE : page * _PAGE]
    if not lines:
        return [f"[no {what}]"]
    more = f"; page={page + 1} shows more, search narrows it" if page < pages else ""
    return (
        shown
        if pages == 1 and shown
        else [*shown, f"[page {page} of {pages}, {len(lines)} {what}{more}]"]
    )
