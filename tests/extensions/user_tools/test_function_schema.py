"""What a model is told of a function: signatures and the JSON Schema of each, written out by
hand."""

import functools
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from codeagent.core.tool import ToolContext
from codeagent.extensions.user_tools.function_schema import NotATool, function_schema
from codeagent.tools.schema import arguments_schema
from tests.extensions.user_tools.signatures import CASES, PRELUDE
from tests.table import for_each

MODULE = "tool_of_a_test"


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


@functools.cache
def prelude() -> dict[str, Any]:
    """The classes that signatures name, made in a module of the name that each of them is in
    later."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(PRELUDE, module.__dict__)
    return module.__dict__


def made(
    signature: str, docstring: str = "Does something.", *, future: bool = False
) -> Callable[..., Any]:
    """The function, in a module that is known as it is while a file is loaded: classes look up
    their hints there."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    module.__dict__.update(prelude())
    head = "from __future__ import annotations\n" if future else ""
    source = f'{head}def tool({signature}):\n    """{docstring}"""\n'
    exec(compile(source, "tool.py", "exec"), module.__dict__)
    function: Callable[..., Any] = module.__dict__["tool"]
    return function


@for_each("future", [False, True])
@for_each(("signature", "properties", "required"), CASES)
def test_a_signature_becomes_this_schema(
    signature: str, properties: dict[str, Any], required: list[str], future: bool
) -> None:
    function = made(signature, future=future)
    expected: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        expected["required"] = required
    assert arguments_schema(function_schema(function).model) == expected


def test_there_are_enough_signatures() -> None:
    assert len({signature for signature, _, _ in CASES}) == len(CASES) >= 60


def reasons(signature: str, docstring: str = "Does something.") -> list[str]:
    with pytest.raises(NotATool) as caught:
        function_schema(made(signature, docstring))
    return list(caught.value.reasons)


REFUSED = [
    ("x", ["parameter 'x' has no type hint, as in x: str"]),
    (
        "x, y=1",
        [
            "parameter 'x' has no type hint, as in x: str",
            "parameter 'y' has no type hint, as in y: str",
        ],
    ),
    ("*args: int", ["*args cannot be described to a model; name the parameters, or take one list"]),
    (
        "**more: int",
        ["**more cannot be described to a model; name the parameters, or take one list"],
    ),
    (
        "x: bytes",
        ["'x' holds bytes, which JSON does not have; take str, or pydantic.Base64Bytes for base64"],
    ),
    (
        "x: list[bytes]",
        ["'x' holds bytes, which JSON does not have; take str, or pydantic.Base64Bytes for base64"],
    ),
    ("x: 'Nowhere'", ["the type hint of 'x' cannot be resolved: name 'Nowhere' is not defined"]),
    (
        "x: int = 'a'",
        ["the default of 'x', 'a', does not fit its type: Input should be a valid integer"],
    ),
    (
        "x: list[str] = ()",
        ["the default of 'x', (), does not fit its type: Input should be a valid list"],
    ),
    (
        "x: int = Field('a')",
        ["the default of 'x', 'a', does not fit its type: Input should be a valid integer"],
    ),
    (
        "x: str = None",
        [
            "the default of 'x', None, does not fit its type: Input should be a valid string; write x: … | None = None"
        ],
    ),
    (
        "a: ToolContext, b: ToolContext",
        ["a and b are both a ToolContext; only one parameter may be"],
    ),
]


@for_each(("signature", "said"), REFUSED)
def test_what_a_model_cannot_call_is_refused_with_every_reason(
    signature: str, said: list[str]
) -> None:
    assert reasons(signature) == said


@for_each(
    "signature", ["x: Callable[[int], int]", "x: type('T', (), {})", "x: collections.abc.Iterator"]
)
def test_a_type_that_json_schema_cannot_say_is_refused_by_name(signature: str) -> None:
    [said] = reasons(signature)
    assert said.startswith("the type of 'x' cannot be described in JSON Schema: ")


def test_a_function_without_a_docstring_is_refused_unless_it_is_described_otherwise() -> None:
    [said] = reasons("x: int", "")
    assert (
        said == "it has no docstring, which tells the model what the tool does and when to use it"
    )
    assert function_schema(made("x: int", ""), "Another text.").description == "Another text."


HEAD = "Add up.\n\n    Both are whole.\n\n    "
GOOGLE = (
    "Args:\n        x: The first.\n        y (int): The\n            second.\n\n    Returns:\n   "
    "     The sum.\n    "
)
NUMPY = "Parameters\n    ----------\n    x : int\n        The first.\n    y : int\n        The\n        second.\n    "
REST = ":param x: The first.\n    :param int y: The\n        second.\n    :returns: The sum.\n    "
EPYDOC = "@param x: The first.\n    @param y: The\n        second.\n    @return: The sum.\n    "


@for_each("docstring", [GOOGLE, NUMPY, REST, EPYDOC])
def test_descriptions_come_from_the_docstring_in_four_styles(docstring: str) -> None:
    schema = function_schema(made("x: int, y: int", HEAD + docstring))
    assert schema.description == "Add up.\n\nBoth are whole."
    described = {
        key: node["description"]
        for key, node in arguments_schema(schema.model)["properties"].items()
    }
    assert described == {"x": "The first.", "y": "The second."}


def test_what_stands_at_the_parameter_goes_before_the_docstring() -> None:
    signature = (
        "a: Annotated[int, 'Mine.'], b: int = Field(1, description='Mine.'), "
        "c: Annotated[int, Field(description='Mine.'), 'no'] = 1, d: int = 1"
    )
    text = "Add.\n\n    Args:\n        a: Theirs.\n        b: Theirs.\n        c: Theirs.\n        d: Theirs.\n    "
    properties = arguments_schema(function_schema(made(signature, text)).model)["properties"]
    assert [node["description"] for node in properties.values()] == [
        "Mine.",
        "Mine.",
        "Mine.",
        "Theirs.",
    ]


def test_what_the_docstring_describes_and_the_function_does_not_take_is_known() -> None:
    schema = function_schema(
        made("x: int", "Add.\n\n    Args:\n        x: One.\n        z: Gone.\n    ")
    )
    assert schema.undocumented == ("z",)


def test_a_docstring_that_is_only_sections_is_no_description() -> None:
    assert reasons("x: int", "\n    Args:\n        x: One.\n    ")[0].startswith(
        "it has no docstring"
    )


def test_the_context_goes_where_it_is_asked_for() -> None:
    schema = function_schema(made("x: int, ctx: ToolContext, /, y: int = 2, *, z: int = 3"))
    args = schema.model.model_validate_json(json.dumps({"x": 1, "z": 4}))
    context = ToolContext.__new__(ToolContext)
    assert schema.call(args, context) == ([1, context], {"y": 2, "z": 4})


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    schema = function_schema(made("x: list[str] = []"))
    context = ToolContext.__new__(ToolContext)
    first, second = (
        schema.call(schema.model.model_validate_json("{}"), context)[1]["x"] for _ in range(2)
    )
    assert first == second == [] and first is not second
