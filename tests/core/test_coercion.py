"""Values without types get those of the schema, or stay what they are."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.coercion import as_json
from tests.table import for_each

Schema = dict[str, Any]


def coerced(text: str, about: Schema, **definitions: Schema) -> Any:
    return json.loads(as_json(text, {"properties": {"x": about}, "$defs": definitions}, "x"))


@for_each(
    ("text", "about", "value"),
    [
        ("5", {"type": "integer"}, 5),
        (" -5\n", {"type": "integer"}, -5),
        ("123456789012345678901234567890", {"type": "integer"}, 123456789012345678901234567890),
        ("1.5e3", {"type": "number"}, 1500.0),
        ("True", {"type": "boolean"}, True),
        ("null", {"type": ["string", "null"]}, None),
        ('["a", 1]', {"type": "array"}, ["a", 1]),
        ('{"a": {}}', {"type": "object"}, {"a": {}}),
        ("3", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3),
        ("3", {"enum": [1, 2, 3]}, 3),
        ("5", {"type": ["string", "integer"]}, 5),
        ("5.5", {"anyOf": [{"type": "string"}, {"type": "number"}]}, 5.5),
        ("true", {"type": ["string", "boolean"]}, True),
        ('["a"]', {"anyOf": [{"type": "string"}, {"type": "array"}]}, ["a"]),
        ('[\\"a\\", \\"b \\\\\\"c\\"]', {"type": "array"}, ["a", 'b "c']),
        ('{\\"a\\": 1}', {"type": "object"}, {"a": 1}),
        ('{"a": 1}', {"$ref": "#/$defs/Thing"}, {"a": 1}),
    ],
)
def test_a_value_becomes_what_the_schema_asks_for(text: str, about: Schema, value: object) -> None:
    assert coerced(text, about, Thing={"type": "object"}) == value


@for_each(
    ("text", "about"),
    [
        ("soon", {"type": "integer"}),
        ("007", {"type": "integer"}),
        ("NaN", {"type": "number"}),
        ("yes", {"type": "boolean"}),
        ("[1, 2", {"type": "array"}),
        ("{'a': 1}", {"type": "object"}),
        ("[1]", {"type": "object"}),
        ("5.5", {"type": ["string", "integer"]}),
        ("5", {"enum": ["5", 6]}),
        ('[\\"a]', {"type": "array"}),
        ("5", {}),
        ("5", {"$ref": "#/$defs/Missing"}),
    ],
)
def test_what_does_not_fit_stays_a_string(text: str, about: Schema) -> None:
    assert coerced(text, about) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_string_is_never_touched(text: str) -> None:
    assert coerced(text, {"type": "string"}) == text


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    assert coerced("5", {"$ref": "#/$defs/Loop"}, Loop={"$ref": "#/$defs/Loop"}) == "5"
