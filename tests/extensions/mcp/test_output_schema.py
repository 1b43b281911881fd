"""What a tool says of its structured results is checked, in bounded time, and a mismatch is
told."""

from typing import Any

from codeagent.core.messages import text_of
from codeagent.extensions.mcp.answer import result_of
from codeagent.extensions.mcp.offer import OutputSchema, offer_of
from tests.table import for_each

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["x"],
    "additionalProperties": False,
}


def promised(schema: Any) -> OutputSchema:
    offer = offer_of(
        "s", [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]
    )
    assert offer.problems == ()
    [tool] = offer.tools
    assert tool.output is not None
    return tool.output


@for_each(
    "value, said",
    [
        ({"x": 1, "tags": ["a"]}, ""),
        ({}, "x is missing"),
        ({"x": 1, "y": 2}, "y is not a key of the schema"),
        ({"x": 1, "tags": ["c"]}, "tags.0 should be 'a' or 'b'"),
        ([], "it should be an object, not a list"),
        ("x", "it should be an object, not a string"),
        (
            {"x": 1, "tags": ["c"] * 9},
            "; ".join(f"tags.{number} should be 'a' or 'b'" for number in range(5))
            + "; and 4 more faults",
        ),
    ],
)
def test_what_does_not_fit_is_said(value: Any, said: str) -> None:
    assert promised(POINT).misfits(value) == said


def test_a_server_cannot_choose_how_long_a_check_takes() -> None:
    slow = {
        "type": "object",
        "properties": {
            "all": {
                "type": "array",
                "uniqueItems": True,
                "items": {"type": "string", "pattern": "^(a|a)*$"},
            },
            "pattern": {"type": "string"},
        },
    }
    output = promised(slow)
    assert (
        output.misfits({"all": ["a" * 40 + "b"] * 20, "pattern": 7})
        == "pattern should be a valid string"
    )
    assert output.misfits({"all": [{}] * 1_000_000}) == "it is too large to be checked"


def test_a_tool_whose_output_schema_cannot_be_used_is_used_and_said_to_be_unchecked() -> None:
    for schema in (
        {"type": "string"},
        [],
        {"type": "object", "$ref": "#/$defs/x"},
        {"type": "object", "$ref": "#"},
        {"type": "object", "a": "x" * 100_000},
    ):
        offer = offer_of(
            "s", [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]
        )
        assert [tool.output for tool in offer.tools] == [None]
        [problem] = offer.problems
        assert (
            problem.level == "warning" and "not checked against its output schema: " in problem.text
        )


def test_keys_that_only_a_pattern_names_fit() -> None:
    schema = {"type": "object", "patternProperties": {"^x-": {}}, "additionalProperties": False}
    assert promised(schema).misfits({"x-y": 1}) == ""


def test_an_error_needs_no_structured_result_and_a_text_that_fits_stays_as_it_is() -> None:
    answer = {"content": [{"type": "text", "text": "1"}], "structuredContent": {"x": 1}}
    assert text_of(result_of("s", answer, promised(POINT).misfits).content) == "1"
    told = text_of(result_of("s", {"content": []}, promised(POINT).misfits).content)
    assert "does not match the schema of s: it is missing" in told
