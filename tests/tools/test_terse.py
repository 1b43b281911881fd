"""What a model is shown of a built-in tool's schema, and what is checked all the same."""

from typing import Annotated

import pytest
from pydantic import Field

from codeagent.core.tool import InvalidArgs, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import parse_arguments, read_arguments
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.schema import terse


class Numbered(ToolArgs):
    lines: Annotated[int, Field(ge=1, le=10)] = 5
    minimum: str = ""


class Counting(Tool[Numbered]):
    name = "counting"
    label = "Counting"
    description = "Counts."
    Args = Numbered

    async def run(self, args: Numbered, ctx: ToolContext) -> ToolResult:
        raise AssertionError("it is only looked at, never called")


def test_bounds_and_empty_defaults_are_left_out_and_names_and_other_defaults_stay() -> None:
    (definition,) = ToolRegistry([Counting()]).definitions()
    assert definition.parameters == {
        "type": "object",
        "properties": {"lines": {"type": "integer", "default": 5}, "minimum": {"type": "string"}},
    }


def test_what_is_inside_lists_is_shortened_as_well() -> None:
    inside = {
        "type": "object",
        "properties": {"x": {"type": "integer", "minimum": 0}},
        "additionalProperties": False,
    }
    shorter = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert terse({"anyOf": [inside, {"type": "array", "items": inside, "maxItems": 3}]}) == {
        "anyOf": [shorter, {"type": "array", "items": shorter}]
    }


def test_what_is_left_out_is_checked_and_named_all_the_same() -> None:
    with pytest.raises(InvalidArgs, match="less than or equal to 10"):
        parse_arguments(Counting(), '{"lines": 11}')
    (dropped,) = read_arguments(Counting(), '{"more": 1}').dropped
    assert "has no argument 'more'" in dropped


def test_what_people_wrote_is_shown_as_they_wrote_it() -> None:
    tool = Counting()
    tool.source = "python"
    (definition,) = ToolRegistry([tool]).definitions()
    assert definition.parameters["additionalProperties"] is False
    assert definition.parameters["properties"]["lines"]["maximum"] == 10
