"""The registry names every tool once and shows the model little."""

import importlib
import json
from typing import ClassVar

import pytest

from codeagent.core.errors import ConfigError
from codeagent.core.tool import NotFound, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.builtin import NAMES
from codeagent.tools.registry import ToolRegistry
from tests.table import for_each
from tests.toolbox import Toolbox


class Inner(ToolArgs):
    value: int = 3


class NoArgs(ToolArgs):
    many: tuple[Inner, ...] = ()
    maybe: str | None = None


def make(tool_name: str, tool_source: str = "builtin") -> Tool[NoArgs]:
    class Named(Tool[NoArgs]):
        name = tool_name
        label = "x"
        description = "x"
        Args = NoArgs
        source: ClassVar[str] = tool_source

        async def run(self, args: NoArgs, ctx: ToolContext) -> ToolResult:
            raise AssertionError

    return Named()


@for_each("name", ["", "a b", "x" * 65, "é", "a.b", "a/b"])
def test_a_name_a_provider_would_reject_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="1 to 64"):
        ToolRegistry([make(name)])


def test_two_tools_of_one_name_in_a_source_are_an_error() -> None:
    with pytest.raises(ConfigError, match="two tools named a"):
        ToolRegistry([make("a"), make("a")])


def test_across_sources_the_later_is_refused_and_both_are_named() -> None:
    with pytest.raises(ConfigError, match="a of mcp:x is refused: builtin has"):
        ToolRegistry([make("a"), make("a", "mcp:x")])


def test_the_name_of_the_users_own_commands_is_refused() -> None:
    with pytest.raises(ConfigError, match="taken by the user"):
        ToolRegistry([make("shell", "mcp:x")])


def test_an_unknown_tool_is_answered_with_its_nearest() -> None:
    registry = ToolRegistry([make("read"), make("write"), make("search")])
    with pytest.raises(NotFound, match="Tool not found: Raed; did you mean read"):
        registry.get("Raed")
    with pytest.raises(NotFound, match="there are read, write, search"):
        registry.get("zzz")
    with pytest.raises(NotFound, match="did you mean search"):
        registry.get("SEARCH")


def test_definitions_are_plain_schemas_in_a_stable_order() -> None:
    definitions = ToolRegistry([make("b"), make("a")]).definitions()
    assert [definition.name for definition in definitions] == ["b", "a"]
    text = json.dumps(definitions[0].parameters)
    assert "title" not in text
    assert "$ref" not in text
    assert "null" not in text
    assert definitions[0].parameters["properties"] == {
        "many": {
            "type": "array",
            "items": {"type": "object", "properties": {"value": {"type": "integer", "default": 3}}},
        },
        "maybe": {"type": "string"},
    }


def test_the_seven_tools_cost_the_model_less_than_four_kilobytes(box: Toolbox) -> None:
    sent = [[tool.name, tool.description, tool.parameters] for tool in box.registry.definitions()]
    assert len(json.dumps(sent)) < 4000


@for_each("module", NAMES)
def test_a_built_in_tool_has_the_name_of_its_module(module: str) -> None:
    found = vars(importlib.import_module(f"codeagent.tools.builtin.{module}")).values()
    own = [
        one
        for one in found
        if isinstance(one, type) and issubclass(one, Tool) and one.__module__.endswith(module)
    ]
    assert [tool.name for tool in own] == [module]
