"""Whatever a function declares: the value a model sends is the value the function gets."""

import datetime
import decimal
import enum
import functools
import json
import pathlib
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from codeagent.core.tool import ToolContext
from codeagent.extensions.user_tools.function_schema import FunctionSchema, function_schema
from codeagent.extensions.user_tools.function_tool import FunctionTool
from codeagent.tools.arguments import parse_arguments
from tests.effort import times


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclass
class Point:
    x: int
    label: str | None = None
    below: "list[Point]" = field(default_factory=list)


class User(BaseModel):
    name: str
    born: datetime.date | None = None
    tags: set[str] = set()


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Spot(NamedTuple):
    x: int
    y: float


UserId = NewType("UserId", int)

WHOLE = st.integers(-(2**53), 2**53)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
POINT = st.recursive(
    st.builds(Point, WHOLE, st.none() | TEXT),
    lambda inner: st.builds(Point, WHOLE, TEXT, st.lists(inner, max_size=3)),
)
USER = st.builds(User, name=TEXT, born=st.none() | st.dates(), tags=st.sets(TEXT, max_size=3))
MOVIE = st.fixed_dictionaries({"title": TEXT}, optional={"year": WHOLE})
PLAIN = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)

VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, WHOLE),
    (float, NUMBER),
    (str, TEXT),
    (bool, st.booleans()),
    (Any, PLAIN),
    (int | None, st.none() | WHOLE),
    (int | str, WHOLE | TEXT),
    (list[str], st.lists(TEXT)),
    (set[int], st.sets(WHOLE)),
    (frozenset[str], st.frozensets(TEXT)),
    (tuple[int, str], st.tuples(WHOLE, TEXT)),
    (tuple[Colour, ...], st.lists(st.sampled_from(Colour)).map(tuple)),
    (dict[str, list[int]], st.dictionaries(TEXT, st.lists(WHOLE, max_size=3))),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (Colour, st.sampled_from(Colour)),
    (Point, POINT),
    (User, USER),
    (list[User | Point], st.lists(USER, max_size=2)),
    (Movie, MOVIE),
    (Spot, st.builds(Spot, WHOLE, NUMBER)),
    (UserId, WHOLE),
    (Annotated[int, Field(ge=0)], st.integers(0, 2**53)),
    (datetime.date, st.dates()),
    (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    (datetime.time, st.times()),
    (uuid.UUID, st.uuids()),
    (pathlib.Path, TEXT.filter(lambda text: "\0" not in text).map(pathlib.Path)),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3)),
]


@functools.cache
def written(at: int, way: str) -> tuple[FunctionSchema, TypeAdapter[Any]]:
    """A function with the parameter x of the type at that place in VALUES, and what writes such a
    value as JSON."""

    def plain(x: Any) -> None:
        """Takes it."""

    def by_position(x: Any, /) -> None:
        """Takes it."""

    def by_name(*, x: Any) -> None:
        """Takes it."""

    function = {"plain": plain, "by position": by_position, "by name": by_name}[way]
    hint = VALUES[at][0]
    function.__annotations__["x"] = hint
    return function_schema(function), TypeAdapter(hint)


def received(at: int, value: Any, way: str) -> Any:
    """What the function gets when a model sends the value as JSON."""
    schema, adapter = written(at, way)
    text = json.dumps({"x": adapter.dump_python(value, mode="json")})
    tool = FunctionTool.__new__(FunctionTool)
    tool.name, tool.Args = "plain", schema.model
    args = parse_arguments(tool, text)
    assert isinstance(args, schema.model)
    positional, named = schema.call(args, ToolContext.__new__(ToolContext))
    return positional[0] if positional else named["x"]


@pytest.mark.parametrize("at", range(len(VALUES)), ids=[str(hint) for hint, _ in VALUES])
@settings(max_examples=times(20))
@given(data=st.data())
def test_values_arrive_equal_and_of_their_type(at: int, data: st.DataObject) -> None:
    value = data.draw(VALUES[at][1])
    got = received(at, value, data.draw(st.sampled_from(["plain", "by position", "by name"])))
    assert got == value
    assert type(got) is type(value) or isinstance(value, float)
