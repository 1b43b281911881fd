"""What is said about a tool that works and could be better."""

from typing import Any

from codeagent.core.tool import OpenArgs, Tool, ToolContext, ToolResult
from codeagent.tools.files.lint import lint
from tests.table import for_each

GOOD = "Counts the words of a text file."
DESCRIBED = {"type": "string", "description": "A path."}


class Made(Tool[OpenArgs]):
    label = ""
    Args = OpenArgs

    def __init__(self, name: str, description: str, **properties: object) -> None:
        self.name, self.description = name, description
        self.schema = {"type": "object", "properties": properties}  # type: ignore[dict-item]  # plain JSON

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        raise AssertionError("it is only looked at, never called")


def said(name: str = "word_count", description: str = GOOD, **properties: object) -> list[str]:
    problems = lint(Made(name, description, **properties), "tools/x.py:3")
    assert all(
        problem.level == "warning" and problem.where == "tools/x.py:3" for problem in problems
    )
    return [problem.text for problem in problems]


def test_a_good_tool_is_left_alone() -> None:
    assert said(path=DESCRIBED) == []


@for_each("name", ["run", "do", "Tool", "data", "x", "_a"])
def test_a_name_that_says_nothing_is_named(name: str) -> None:
    [text] = said(name)
    assert text == f"the name {name} does not say what the tool does; the model chooses by the name"


@for_each("name", ["Bash", "read_", "ask-user", "outputRead", "search-memory", "joblist"])
def test_a_name_close_to_that_of_a_built_in_tool_is_named(name: str) -> None:
    [text] = said(name)
    assert "easily confused with a built-in tool" in text


@for_each("description", ["Counts.", "Word count", "count the words"])
def test_a_description_has_to_be_a_sentence(description: str) -> None:
    [text] = said(description=description)
    assert text.startswith("the description of word_count is not a sentence")


def test_parameters_without_a_description_are_listed_in_one_line() -> None:
    [text] = said(
        path={"type": "string"}, limit={"type": "integer", "description": ""}, deep=DESCRIBED
    )
    assert text == "word_count does not describe 'path', 'limit'; say what belongs there"


def test_a_long_list_is_cut() -> None:
    [text] = said(**{f"p{number}": {"type": "string"} for number in range(9)})
    assert "'p0', 'p1', 'p2', 'p3', 'p4' and 4 more" in text


@for_each(
    "node",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {}},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "items": {"type": "object"}},
        {"anyOf": [{"type": "string"}, {}]},
    ],
)
def test_what_may_hold_anything_is_named(node: dict[str, Any]) -> None:
    [text] = said(value={**node, "description": "A value."})
    assert (
        text == "'value' of word_count can hold anything; a narrower type would catch wrong calls"
    )


@for_each(
    "node",
    [
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"enum": ["a", "b"]},
        {"const": 1},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    ],
)
def test_what_is_bounded_is_left_alone(node: dict[str, Any]) -> None:
    assert said(value={**node, "description": "A value."}) == []


def test_more_than_twenty_parameters_are_too_many() -> None:
    assert said(**{f"p{number}": DESCRIBED for number in range(20)}) == []
    [text] = said(**{f"p{number}": DESCRIBED for number in range(21)})
    assert text.startswith("word_count has 21 parameters")
