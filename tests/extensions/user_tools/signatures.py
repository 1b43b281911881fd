"""Signatures of functions and, written out by hand, what a model is told of their arguments."""

from typing import Any

PRELUDE = '''
import collections.abc, dataclasses, datetime, decimal, enum, pathlib, typing, uuid
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import *
from uuid import UUID
from pydantic import Base64Bytes, BaseModel, Field
from codeagent import ToolContext

class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Size(str, enum.Enum):
    S = "s"

class Mixed(enum.Enum):
    A = "a"
    B = 2

class Movie(TypedDict):
    title: str
    year: NotRequired[int]

class Partial(TypedDict, total=False):
    title: Required[str]
    year: int

class Tree(TypedDict):
    name: str
    below: NotRequired["list[Tree]"]

class Place(NamedTuple):
    x: int
    y: int = 0

@dataclass
class Point:
    x: int
    y: int = 0

@dataclass
class Line:
    start: Point
    end: Point
    tags: list[str] = field(default_factory=list)

@dataclass
class Node:
    value: int
    next: "Node | None" = None

class User(BaseModel):
    """Someone."""
    name: str = Field(description="The name.", min_length=1)
    age: int | None = None

class Team(BaseModel):
    lead: User
    members: list[User] = []

class Folder(BaseModel):
    name: str
    folders: list["Folder"] = []

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int

class Dog(BaseModel):
    kind: Literal["dog"]

UserId = NewType("UserId", int)
Names = list[str]
Short = Annotated[str, Field(max_length=5)]
Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
'''

STRING, INTEGER, NUMBER, BOOLEAN = (
    {"type": kind} for kind in ("string", "integer", "number", "boolean")
)
STRINGS = {"type": "array", "items": STRING}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}
USER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name.", "minLength": 1},
        "age": INTEGER,
    },
    "required": ["name"],
}
MOVIE = {
    "type": "object",
    "properties": {"title": STRING, "year": INTEGER},
    "required": ["title"],
    "additionalProperties": False,
}
CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat", "type": "string"}, "lives": INTEGER},
    "required": ["kind", "lives"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"const": "dog", "type": "string"}},
    "required": ["kind"],
}
DECIMAL = {"anyOf": [NUMBER, STRING]}

INTEGERS_BY_NAME = {"type": "object", "additionalProperties": INTEGER}
PAIR = {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}
PLACE = {
    "type": "array",
    "prefixItems": [INTEGER, {"type": "integer", "default": 0}],
    "minItems": 1,
    "maxItems": 2,
}
LINE = {
    "type": "object",
    "properties": {"start": POINT, "end": POINT, "tags": STRINGS},
    "required": ["start", "end"],
    "additionalProperties": False,
}
TEAM = {
    "type": "object",
    "properties": {"lead": USER, "members": {"type": "array", "items": USER, "default": []}},
    "required": ["lead"],
}


def again(name: str) -> dict[str, Any]:
    """Where a type holds itself: it is written out once."""
    return {"type": "object", "description": f"as {name} above"}


FOLDER = {
    "type": "object",
    "properties": {
        "name": STRING,
        "folders": {"type": "array", "items": again("Folder"), "default": []},
    },
    "required": ["name"],
}
NODE = {
    "type": "object",
    "properties": {"value": INTEGER, "next": again("Node")},
    "required": ["value"],
    "additionalProperties": False,
}
TREE = {
    "type": "object",
    "properties": {"name": STRING, "below": {"type": "array", "items": again("Tree")}},
    "required": ["name"],
    "additionalProperties": False,
}

# signature → properties, and the names that are required
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    # plain
    ("", {}, []),
    ("x: int", {"x": INTEGER}, ["x"]),
    ("x: float", {"x": NUMBER}, ["x"]),
    ("x: str", {"x": STRING}, ["x"]),
    ("x: bool", {"x": BOOLEAN}, ["x"]),
    ("x: None", {"x": {"type": "null"}}, ["x"]),
    ("x: Any", {"x": {}}, ["x"]),
    ("x: object", {"x": {}}, ["x"]),
    ("x: int, y: str", {"x": INTEGER, "y": STRING}, ["x", "y"]),
    # defaults
    ("x: int = 5", {"x": {"type": "integer", "default": 5}}, []),
    ("x: int = 0", {"x": {"type": "integer", "default": 0}}, []),
    ("x: str = ''", {"x": {"type": "string", "default": ""}}, []),
    ("x: bool = True", {"x": {"type": "boolean", "default": True}}, []),
    ("x: bool = False", {"x": BOOLEAN}, []),
    ("x: float = 1", {"x": {"type": "number", "default": 1}}, []),
    ("x: int, y: int = 2", {"x": INTEGER, "y": {"type": "integer", "default": 2}}, ["x"]),
    ("x: list[str] = []", {"x": {**STRINGS, "default": []}}, []),
    ("x: dict[str, int] = {'title': 1}", {"x": {**INTEGERS_BY_NAME, "default": {"title": 1}}}, []),
    ("x: Path = Path('.')", {"x": {"type": "string", "format": "path", "default": "."}}, []),
    (
        "x: Colour = Colour.RED",
        {"x": {"type": "string", "enum": ["red", "blue"], "default": "red"}},
        [],
    ),
    ("x: Point = Point(1)", {"x": {**POINT, "default": {"x": 1, "y": 0}}}, []),
    (
        "x: int = Field(5, ge=1, description='How many.')",
        {"x": {"type": "integer", "minimum": 1, "default": 5, "description": "How many."}},
        [],
    ),
    ("x: list[str] = Field(default_factory=list)", {"x": STRINGS}, []),
    ("x: int = Field(ge=1)", {"x": {"type": "integer", "minimum": 1}}, ["x"]),
    # optional and unions
    ("x: Optional[int] = None", {"x": INTEGER}, []),
    ("x: int | None = None", {"x": INTEGER}, []),
    ("x: int | None", {"x": {"anyOf": [INTEGER, {"type": "null"}]}}, ["x"]),
    ("x: int | None = 5", {"x": {"anyOf": [INTEGER, {"type": "null"}], "default": 5}}, []),
    ("x: int | str", {"x": {"anyOf": [INTEGER, STRING]}}, ["x"]),
    ("x: Union[int, str, None] = None", {"x": {"anyOf": [INTEGER, STRING]}}, []),
    (
        "x: list[int | None]",
        {"x": {"type": "array", "items": {"anyOf": [INTEGER, {"type": "null"}]}}},
        ["x"],
    ),
    ("x: Point | None = None", {"x": POINT}, []),
    ("x: Cat | Dog", {"x": {"anyOf": [CAT, DOG]}}, ["x"]),
    ("x: Pet", {"x": {"oneOf": [CAT, DOG]}}, ["x"]),
    # collections
    ("x: list", {"x": {"type": "array", "items": {}}}, ["x"]),
    ("x: list[str]", {"x": STRINGS}, ["x"]),
    ("x: Names", {"x": STRINGS}, ["x"]),
    (
        "x: List[List[int]]",
        {"x": {"type": "array", "items": {"type": "array", "items": INTEGER}}},
        ["x"],
    ),
    ("x: Sequence[str]", {"x": STRINGS}, ["x"]),
    ("x: set[str]", {"x": {**STRINGS, "uniqueItems": True}}, ["x"]),
    ("x: frozenset[str]", {"x": {**STRINGS, "uniqueItems": True}}, ["x"]),
    ("x: dict", {"x": {"type": "object", "additionalProperties": True}}, ["x"]),
    ("x: dict[str, int]", {"x": INTEGERS_BY_NAME}, ["x"]),
    ("x: dict[str, Any]", {"x": {"type": "object", "additionalProperties": True}}, ["x"]),
    ("x: dict[str, Point]", {"x": {"type": "object", "additionalProperties": POINT}}, ["x"]),
    ("x: tuple[int, ...]", {"x": {"type": "array", "items": INTEGER}}, ["x"]),
    ("x: tuple[int, str]", {"x": PAIR}, ["x"]),
    ("x: Place", {"x": PLACE}, ["x"]),
    # choices
    ("x: Literal['a', 'b']", {"x": {"type": "string", "enum": ["a", "b"]}}, ["x"]),
    ("x: Literal['a']", {"x": {"type": "string", "const": "a"}}, ["x"]),
    ("x: Literal[1, 2]", {"x": {"type": "integer", "enum": [1, 2]}}, ["x"]),
    ("x: Literal['a', 1]", {"x": {"enum": ["a", 1]}}, ["x"]),
    (
        "x: Literal['a', 'b'] = 'a'",
        {"x": {"type": "string", "enum": ["a", "b"], "default": "a"}},
        [],
    ),
    ("x: Colour", {"x": {"type": "string", "enum": ["red", "blue"]}}, ["x"]),
    ("x: Level", {"x": {"type": "integer", "enum": [1, 2]}}, ["x"]),
    ("x: Size", {"x": {"type": "string", "enum": ["s"]}}, ["x"]),
    ("x: Mixed", {"x": {"enum": ["a", 2]}}, ["x"]),
    (
        "x: list[Colour]",
        {"x": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}},
        ["x"],
    ),
    # objects
    ("x: Movie", {"x": MOVIE}, ["x"]),
    ("x: list[Movie]", {"x": {"type": "array", "items": MOVIE}}, ["x"]),
    ("x: Partial", {"x": MOVIE}, ["x"]),
    ("x: Point", {"x": POINT}, ["x"]),
    ("x: Line", {"x": LINE}, ["x"]),
    ("x: User", {"x": USER}, ["x"]),
    ("x: Team", {"x": TEAM}, ["x"]),
    # what holds itself: written out once
    ("x: Folder", {"x": FOLDER}, ["x"]),
    ("x: Node", {"x": NODE}, ["x"]),
    ("x: Tree", {"x": TREE}, ["x"]),
    # Annotated
    (
        "x: Annotated[int, 'How many.']",
        {"x": {"type": "integer", "description": "How many."}},
        ["x"],
    ),
    (
        "x: Annotated[int, Field(ge=1, le=9)]",
        {"x": {"type": "integer", "minimum": 1, "maximum": 9}},
        ["x"],
    ),
    (
        "x: Annotated[int, Field(description='How many.')] = 2",
        {"x": {"type": "integer", "description": "How many.", "default": 2}},
        [],
    ),
    ("x: Annotated[list[str], Field(default_factory=list)]", {"x": STRINGS}, []),
    (
        "x: Annotated[str | None, 'Who.'] = None",
        {"x": {"type": "string", "description": "Who."}},
        [],
    ),
    ("x: Short", {"x": {"type": "string", "maxLength": 5}}, ["x"]),
    ("x: Annotated[str, Field(pattern='^a')]", {"x": {"type": "string", "pattern": "^a"}}, ["x"]),
    ("x: Annotated[int, Field(alias='how-many')]", {"how-many": INTEGER}, ["how-many"]),
    # ways to pass
    ("*, x: int", {"x": INTEGER}, ["x"]),
    ("x: int, /, y: int", {"x": INTEGER, "y": INTEGER}, ["x", "y"]),
    ("*, x: int = 1, y: str", {"x": {"type": "integer", "default": 1}, "y": STRING}, ["y"]),
    # text that stands for something else
    ("x: UserId", {"x": INTEGER}, ["x"]),
    ("x: date", {"x": {"type": "string", "format": "date"}}, ["x"]),
    ("x: datetime.datetime", {"x": {"type": "string", "format": "date-time"}}, ["x"]),
    ("x: datetime.time", {"x": {"type": "string", "format": "time"}}, ["x"]),
    ("x: datetime.timedelta", {"x": {"type": "string", "format": "duration"}}, ["x"]),
    ("x: UUID", {"x": {"type": "string", "format": "uuid"}}, ["x"]),
    ("x: Path", {"x": {"type": "string", "format": "path"}}, ["x"]),
    ("x: Decimal", {"x": DECIMAL}, ["x"]),
    ("x: Base64Bytes", {"x": {"type": "string", "format": "base64"}}, ["x"]),
    # the context is nobody's argument
    ("ctx: ToolContext", {}, []),
    ("ctx: ToolContext, x: int", {"x": INTEGER}, ["x"]),
    (
        "x: int, ctx: 'ToolContext', y: int = 1",
        {"x": INTEGER, "y": {"type": "integer", "default": 1}},
        ["x"],
    ),
    ("x: int, *, ctx: Optional[ToolContext] = None", {"x": INTEGER}, ["x"]),
    ("ctx: Annotated[ToolContext, 'the call'], /", {}, []),
    # hints as text, and names that pydantic uses itself
    ("x: 'list[Point]'", {"x": {"type": "array", "items": POINT}}, ["x"]),
    ("x: list['Point']", {"x": {"type": "array", "items": POINT}}, ["x"]),
    ("json: str, copy: int", {"json": STRING, "copy": INTEGER}, ["json", "copy"]),
    ("schema: bool", {"schema": BOOLEAN}, ["schema"]),
    ("_x: int, __y: int = 1", {"_x": INTEGER, "__y": {"type": "integer", "default": 1}}, ["_x"]),
    ("model_config: str", {"model_config": STRING}, ["model_config"]),
    ("model_dump_: int", {"model_dump_": INTEGER}, ["model_dump_"]),
    ("self: int, cls: int", {"self": INTEGER, "cls": INTEGER}, ["self", "cls"]),
]
