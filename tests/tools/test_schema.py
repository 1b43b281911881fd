"""Arguments are checked against a schema that somebody wrote, in the words of the package's own
tools."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.tool import InvalidArgs, OpenArgs, Tool, ToolContext, ToolResult
from codeagent.tools.arguments import parse_arguments, read_arguments, with_defaults
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.schema_check import faults_of, problems_of
from tests.table import for_each


class Schemed(Tool[OpenArgs]):
    name = "make"
    label = "Make"
    description = "Make something."
    Args = OpenArgs

    def __init__(self, schema: dict[str, object]) -> None:
        self.schema = schema  # type: ignore[assignment]  # JSON all the same

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        raise AssertionError


SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 2, "pattern": "^[a-z/]+$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "ratio": {"type": "number", "exclusiveMinimum": 0},
        "force": {"type": "boolean"},
        "level": {"enum": ["low", "high", 3]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
        "where": {
            "type": "object",
            "properties": {"line": {"type": "integer", "default": 1}, "file": {"type": "string"}},
            "required": ["file"],
            "additionalProperties": False,
        },
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "form": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                    "required": ["x"],
                },
                {"type": "string"},
            ]
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


AB: dict[str, object] = {"path": "ab"}
FETCHED = "a reference must stay inside the schema (#/…); nothing is fetched"
CIRCLE = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
TREE = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "value": {"$ref": "#/$defs/v"}},
    "$defs": {"v": {"type": "integer"}},
}


def refusal(arguments: object, schema: dict[str, object] = SCHEMA) -> list[str]:
    with pytest.raises(InvalidArgs) as caught:
        parse_arguments(Schemed(schema), json.dumps(arguments))
    *lines, excerpt = str(caught.value).split("\n")
    assert excerpt.startswith("The schema of 'make': {")
    return [line.removeprefix("Validation Error: ") for line in lines]


@for_each(
    ("arguments", "said"),
    [
        ({}, "Missing required argument 'path' @"),
        (AB | {"cuont": 1}, "Unknown argument 'cuont' @; did you mean count?"),
        ({"path": 5}, "Argument 'path' @ should be a valid string; got a number '5'"),
        ({"path": "a"}, "Argument 'path' @ should have at least 2 characters; got a string 'a'"),
        (
            {"path": "A1"},
            "Argument 'path' @ should match the pattern '^[a-z/]+$'; got a string 'A1'",
        ),
        (AB | {"count": "3"}, "Argument 'count' @ should be a valid integer; got a string '3'"),
        (
            AB | {"count": True},
            "Argument 'count' @ should be a valid integer; got a boolean 'true'",
        ),
        (
            AB | {"count": 0},
            "Argument 'count' @ should be greater than or equal to 1; got a number '0'",
        ),
        (AB | {"ratio": 0}, "Argument 'ratio' @ should be greater than 0; got a number '0'"),
        (AB | {"force": "yes"}, "Argument 'force' @ should be a valid boolean; got a string 'yes'"),
        (
            AB | {"level": "mid"},
            "Argument 'level' @ should be 'low', 'high' or 3; got a string 'mid'",
        ),
        (AB | {"tags": "x"}, "Argument 'tags' @ should be a valid list; got a string 'x'"),
        (AB | {"tags": []}, "Argument 'tags' @ should have at least 1 item; got a list '[]'"),
        (AB | {"tags": [1, 1]}, "Argument 'tags' @ should have no item twice; got a list '[1, 1]'"),
        (AB | {"tags": ["a", 5]}, "Argument 'tags.1' @ should be a valid string; got a number '5'"),
        (AB | {"where": {}}, "Missing required argument 'where.file' @"),
        (
            AB | {"where": {"file": "x", "lin": 1}},
            "Unknown argument 'where.lin' @; did you mean line?",
        ),
        (
            AB | {"either": []},
            "Argument 'either' @ should be a valid string or a valid integer; got a list '[]'",
        ),
        (
            AB | {"form": {"x": "1"}},
            "Argument 'form.x' @ should be a valid integer, in one of its forms; got a string '1'",
        ),
    ],
)
def test_each_fault_is_said_as_for_a_tool_of_the_package(
    arguments: dict[str, object], said: str
) -> None:
    assert refusal(arguments)[-1] == said.replace("@", "for tool 'make'")


def test_all_faults_come_at_once() -> None:
    assert len(refusal({"pth": "a", "count": 77, "force": 1, "where": {"line": "x"}})) == 6


def test_arguments_are_carried_as_they_came_with_the_defaults_filled_in() -> None:
    args = parse_arguments(Schemed(SCHEMA), '{"path": "ab", "where": {"file": "f"}, "ratio": 1.50}')
    assert args.model_dump() == {
        "path": "ab",
        "where": {"file": "f", "line": 1},
        "ratio": 1.5,
        "count": 3,
    }


def test_whoever_has_the_defaults_is_given_only_what_was_said_and_what_is_required() -> None:
    tool = Schemed({**SCHEMA, "required": ["path", "count"]})
    tool.has_defaults = True
    args = parse_arguments(tool, '{"path": "ab", "where": {"file": "f"}}')
    assert args.model_dump() == {"path": "ab", "where": {"file": "f"}, "count": 3}


def test_names_that_mean_something_to_the_carrier_are_arguments_like_others() -> None:
    names = ["model_dump", "model_config", "__class__", "self", "schema", "_x", "copy"]
    schema: dict[str, object] = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
    }
    given_arguments = dict.fromkeys(names, "v")
    args = parse_arguments(Schemed(schema), json.dumps(given_arguments))
    assert args.model_extra == given_arguments


def test_a_tools_own_schema_is_what_the_model_sees() -> None:
    shown = ToolRegistry([Schemed(SCHEMA)]).definitions()[0].parameters
    assert shown["properties"].keys() == SCHEMA["properties"].keys()  # type: ignore[union-attr, attr-defined]  # JSON
    assert shown["required"] == ["path"]


def test_defaults_are_copies() -> None:
    schema = {"properties": {"tags": {"default": []}}}
    with_defaults(schema, {})["tags"].append("x")
    assert with_defaults(schema, {}) == {"tags": []}


@for_each(
    ("schema", "problem"),
    [
        ([], "a schema is a mapping, not a list"),
        ({"type": "strng"}, "type: 'strng' is not valid under any of the given schemas"),
        (
            {"properties": {"a": {"minimum": "x"}}},
            "properties.a.minimum: 'x' is not of type 'number'",
        ),
        ({"$ref": "https://example.org/s.json"}, f"$ref: {FETCHED}"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, f"properties.a.$ref: {FETCHED}"),
        ({"$id": "https://example.org/"}, "$id: not supported here"),
        ({"$dynamicRef": "#x"}, "$dynamicRef: not supported here"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#"},
            "$schema: only https://json-schema.org/draft/2020-12/schema is supported",
        ),
        (
            {"patternProperties": {"^a": {}}},
            "patternProperties: keys matched by patterns are not supported; name the properties",
        ),
        (
            {"items": [{"pattern": "("}]},
            "items[0].pattern: the pattern does not compile: missing ), unterminated subpattern at position 0",
        ),
        ({"pattern": "a" * 501}, "pattern: the pattern is longer than 500 characters"),
        (json.loads('{"not":' * 40 + "{}" + "}" * 40), "more than 32 levels deep"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: object, problem: str) -> None:
    assert problems_of(schema) == (problem,)


def test_a_schema_of_the_draft_is_fine_and_may_refer_to_itself() -> None:
    assert problems_of(TREE) == problems_of(SCHEMA) == ()
    assert [fault.where for fault in faults_of(TREE, {"left": {"left": {"value": "x"}}})] == [
        "left.left.value"
    ]


@for_each("schema", [{"$ref": "#/$defs/gone"}, CIRCLE])
def test_a_reference_that_leads_nowhere_or_in_circles_is_a_fault_not_a_crash(
    schema: dict[str, object],
) -> None:
    [fault] = faults_of(schema, {})
    assert "the tool's schema is broken" in fault.said("make")


@for_each("pattern", [r"^(a+)+$", r"^(a|a)*$", r"(.*a){25}$", r"^(\w+\s?)*$"])
def test_a_pattern_that_takes_for_ever_is_given_up(pattern: str) -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"p": {"type": "string", "pattern": pattern}},
    }
    with pytest.raises(InvalidArgs, match="pattern"):
        parse_arguments(Schemed(schema), json.dumps({"p": "a" * 5000 + "!"}))


def test_formats_are_not_checked_and_nothing_is_fetched() -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"u": {"type": "string", "format": "uri"}},
    }
    assert faults_of(schema, {"u": "not a uri"}) == ()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["path", "count", "tags", "where", "either", "form", "x"]), JSON, max_size=4
    )
)
def test_whatever_comes_ends_as_arguments_or_as_a_message(arguments: dict[str, object]) -> None:
    try:
        text = json.dumps(arguments).encode().decode()
        args = parse_arguments(Schemed(SCHEMA), text)
    except InvalidArgs as error:
        assert "for tool 'make'" in str(error) or "the arguments of 'make'" in str(error)
        return
    assert set(arguments) <= set(args.model_extra or {})


@for_each(
    ("written", "taken"),
    [
        ({"count": "3"}, {"count": 3}),
        ({"force": "true", "ratio": "1.5"}, {"force": True, "ratio": 1.5}),
        ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
        ({"where": '{"file": "f", "line": "7"}'}, {"where": {"file": "f", "line": 7}}),
        ({"where": {"file": "f", "lin": 1, "line": None}}, {"where": {"file": "f", "line": 1}}),
        ({"force": None, "cuont": 1}, {}),
        ({"either": "5"}, {"either": "5"}),
    ],
)
def test_what_a_model_writes_out_of_habit_is_read_by_the_schema(
    written: dict[str, object], taken: dict[str, object]
) -> None:
    args = read_arguments(Schemed(SCHEMA), json.dumps(AB | written)).args
    assert args.model_dump() == {"count": 3, **AB, **taken}
