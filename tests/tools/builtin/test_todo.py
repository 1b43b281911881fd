"""`todo`: the model's list of steps, given whole each time."""

import json

import pytest

from codeagent.core.display import TextBlock
from codeagent.core.memory import TodoItem
from codeagent.core.messages import text_of
from codeagent.core.tool import InvalidArgs, ToolResult
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.todo import TodoTool
from tests.fakes import tool_context
from tests.table import for_each


class MemoryTodo:
    """A TodoList in memory."""

    def __init__(self) -> None:
        self.items: tuple[TodoItem, ...] = ()

    def change(self, items: tuple[TodoItem, ...]) -> None:
        self.items = items


async def write(todo: MemoryTodo, *items: object) -> ToolResult:
    tool = TodoTool(todo)
    return await tool.run(parse_arguments(tool, json.dumps({"items": items})), tool_context(None))  # type: ignore[arg-type]  # it looks at no file


async def test_the_list_is_replaced_and_shown_and_the_model_is_told_how_far_it_is() -> None:
    todo = MemoryTodo()
    await write(todo, {"text": "forgotten"})
    result = await write(
        todo,
        {"text": "read it", "state": "done"},
        {"text": "fix it", "state": "active"},
        {"text": "x"},
    )
    assert [str(item) for item in todo.items] == ["[x] read it", "[>] fix it", "[ ] x"]
    assert text_of(result.content) == "Shown to the user: 1 of 3 done."
    assert result.blocks == (TextBlock(text="[x] read it\n[>] fix it\n[ ] x"),)


async def test_an_empty_list_clears_it() -> None:
    todo = MemoryTodo()
    await write(todo, {"text": "fix it"})
    assert text_of((await write(todo)).content) == "The list is empty now."
    assert todo.items == ()


async def test_a_step_stays_on_its_line_and_is_safe_to_show() -> None:
    todo = MemoryTodo()
    await write(todo, {"text": "one\ntwo\x1b[2J"})
    assert [item.text for item in todo.items] == ["one two\\x1b[2J"]


@for_each(
    "items",
    (
        [{"text": " "}],
        [{"text": "x" * 201}],
        [{"text": "x", "state": "started"}],
        [{"text": "x"}] * 31,
        [{}],
    ),
)
async def test_what_is_not_a_list_of_steps_is_refused_and_changes_nothing(
    items: list[object],
) -> None:
    todo = MemoryTodo()
    with pytest.raises(InvalidArgs):
        await write(todo, *items)
    assert todo.items == ()
