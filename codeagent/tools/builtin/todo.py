"""The `todo` tool: the model's plan for work of several steps, as a list that the user sees."""

from typing import Annotated, Any

from codeagent.core.deferred import Field
from codeagent.core.display import TextBlock
from codeagent.core.memory import TodoItem, TodoList, TodoState, how_far
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Access, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import written

_MOST = 30
_PLACE = "\0todo"
"""The key that orders the calls; a path can never be equal to it, as it has a NUL."""
_LONGEST = 200


def _unsaid(schema: dict[str, Any]) -> None:
    """Leave out the default, which every request would send."""
    del schema["default"]


class TodoEntry(ToolArgs):
    text: Annotated[str, Field(max_length=_LONGEST), written("step")]
    state: Annotated[TodoState, Field(json_schema_extra=_unsaid)] = "pending"


class TodoArgs(ToolArgs):
    items: Annotated[tuple[TodoEntry, ...], Field(max_length=_MOST, strict=False)]


class TodoTool(Tool[TodoArgs]):
    """Does not need approval: it changes only what the user is shown."""

    name = "todo"
    label = "To-do list"
    description = "Your plan of several steps, shown to the user; the whole list each time."
    Args = TodoArgs
    permission = "auto"
    concurrency = "keyed"
    effect = "nothing"

    def __init__(self, todo: TodoList) -> None:
        self._todo = todo

    def access(self, args: TodoArgs, workspace: Workspace) -> Access:
        return Access("keyed", _PLACE)

    def approval_key(self, args: TodoArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=tuple(entry.text for entry in args.items))

    def target(self, args: TodoArgs) -> str:
        items = _items(args)
        doing = next((f"{item.text} · " for item in items if item.state == "active"), "")
        return f"{doing}{how_far(items)}" if items else "cleared"

    async def run(self, args: TodoArgs, ctx: ToolContext) -> ToolResult:
        items = _items(args)
        self._todo.change(items)
        if not items:
            return ToolResult.from_text("The list is empty now.")
        shown = TextBlock(text="\n".join(map(str, items)))
        return ToolResult.from_text(f"Shown to the user: {how_far(items)}.", blocks=(shown,))


def _items(args: TodoArgs) -> tuple[TodoItem, ...]:
    return tuple(
        TodoItem(text=one_line(entry.text, _LONGEST), state=entry.state) for entry in args.items
    )
