"""Turns the raw text of a call's arguments into a checked model, or an error from which the model
can repair them."""

import copy
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from codeagent.core.coercion import kinds_of, reading, resolved
from codeagent.core.dataclass import dataclass
from codeagent.core.deferred import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
)
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import spelled, unspelled
from codeagent.core.tool import InvalidArgs, Tool
from codeagent.tools.faults import (
    LONGEST_QUOTE,
    Fault,
    kind_of,
    printable,
    quoted,
    unknown_argument,
)
from codeagent.tools.schema import tool_schema

if TYPE_CHECKING:  # no start has a call
    from pydantic_core import ErrorDetails

_LONGEST_PATH = 4096
DEEPEST = 64
"""Levels of a directory tree that a tool walks."""
Count = Annotated[int, Field(ge=1)]
_LONGEST_SCHEMA = 1500
_LONGEST_NUMBER = 100
_MOST_ERRORS = 20
_DEEPEST = 16
_EXACT_FLOATS = 2**53
_SURROGATE = lazy_regex("[\ud800-\udfff]")


def written(what: str, instead_of_nul: str = "") -> AfterValidator:
    """Check a text that must not be blank or contain a NUL, which programs cannot get; `what` is a
    noun (`command`).

    `instead_of_nul` says what to write instead of a NUL.
    """
    hint = f"; {instead_of_nul}" if instead_of_nul else ""

    def check(value: str) -> str:
        if not value.strip():
            raise ValueError(f"the {what} is empty")
        if "\0" in value:
            raise ValueError(f"the {what} cannot contain a NUL character{hint}")
        return value

    return AfterValidator(check)


def _short_enough(value: str) -> str:
    name = os.fsencode(value)
    if len(name) > _LONGEST_PATH or any(len(part) > 255 for part in name.split(b"/")):
        raise ValueError("the path is too long")
    return value


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    from codeagent.core.budget import as_seconds  # few models write a duration as text

    return as_seconds(value)


AS_SECONDS = BeforeValidator(_seconds)
"""Makes a number of seconds accept text such as `30s` as well; it goes after the limits of the
number."""
PathText = Annotated[
    str,
    written("path"),
    AfterValidator(unspelled),
    AfterValidator(_short_enough),
    PlainSerializer(spelled),
]
"""Relative to the workspace, or absolute inside it; written as `spelled` does, and read as the path
itself."""


class _Unreadable(Exception):
    """The text is JSON but cannot be accepted; the message says why."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call as they will be used."""

    args: BaseModel
    read_as: tuple[str, ...] = ()
    """What was read differently from what the model wrote, a sentence each."""
    dropped: tuple[str, ...] = ()
    """Dropped arguments that the tool does not have, a sentence each for the model."""


def parse_arguments(tool: Tool[Any], raw: str) -> BaseModel:
    """Return the tool's `Args`. Empty text means no arguments; nothing else is guessed.

    If the tool has a schema, its defaults are filled in. Raises only InvalidArgs, whose text has
    every error and the schema.
    """
    return _checked(tool, _decoded(tool.name, raw))


def read_arguments(tool: Tool[Any], raw: str) -> Arguments:
    """Parse a model's arguments as `parse_arguments` does, after undoing its habits if only one
    reading is possible.

    Null for an optional argument leaves it out. Text is read as the number, boolean, list or object
    that the schema requires, if it looks like one. Arguments that the tool does not have are
    dropped.
    """
    habits = _Habits(tool_schema(tool))
    arguments = habits.undone(_decoded(tool.name, raw))
    try:
        return Arguments(
            _checked(tool, arguments), tuple(habits.read_as), tuple(habits.dropped_from(tool.name))
        )
    except InvalidArgs as error:
        unknown = [fault.said(tool.name) for fault in habits.unknown]
        raise InvalidArgs("\n".join([*unknown[:_MOST_ERRORS], str(error)])) from None


def _checked(tool: Tool[Any], arguments: dict[str, Any]) -> BaseModel:
    """Check the arguments. Raises InvalidArgs."""
    if tool.schema is not None:
        from codeagent.tools.schema_check import faults_of  # few tools have a schema of their own

        arguments = with_defaults(tool.schema, arguments, only_required=tool.has_defaults)
        if faults := faults_of(tool.schema, arguments):
            raise InvalidArgs(_listed(tool, faults))
    from pydantic import ValidationError  # no start has a call

    try:
        args: BaseModel = tool.Args.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        known = list(tool.Args.model_fields)
        faults = tuple(_fault(details, known) for details in error.errors(include_url=False))
        raise InvalidArgs(_listed(tool, faults)) from None
    return args


def with_defaults(schema: Any, value: Any, *, only_required: bool = False) -> Any:
    """Return the value with missing parts filled from the schema's defaults, at all levels of
    properties and items."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        needed = (required if isinstance(required, list) else ()) if only_required else known
        filled = {
            name: with_defaults(known.get(name), one, only_required=only_required)
            for name, one in value.items()
        }
        for name, inner in known.items():
            if (
                name in needed
                and name not in filled
                and isinstance(inner, dict)
                and "default" in inner
            ):
                filled[name] = copy.deepcopy(inner["default"])
        return filled
    if isinstance(value, list):
        return [
            with_defaults(schema.get("items"), item, only_required=only_required) for item in value
        ]
    return value


class _Habits:
    """Undoes habits of models, if the schema leaves no doubt about what is meant."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self.read_as: list[str] = []
        self.unknown: list[Fault] = []

    def undone(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._object(arguments, self._schema, "", 0)

    def dropped_from(self, tool: str) -> Iterator[str]:
        for fault in self.unknown:
            yield f"{tool} has no argument '{fault.where[:LONGEST_QUOTE]}', so it ran without{fault.text}"

    def _object(
        self, given: dict[str, Any], about: Mapping[str, Any], where: str, depth: int
    ) -> dict[str, Any]:
        known = about.get("properties")
        if not isinstance(known, Mapping) or depth > _DEEPEST:
            return given
        closed, required = about.get("additionalProperties") is False, about.get("required") or ()
        kept: dict[str, Any] = {}
        for name, value in given.items():
            place = f"{where}.{name}" if where else name
            inner = known.get(name)
            if inner is None and closed:
                self.unknown.append(unknown_argument(place, name, known))
            elif (
                value is not None
                or name in required
                or "null" in (kinds_of(inner, self._schema) or {"null"})
            ):
                kept[name] = self._value(value, inner, place, depth + 1)
        return kept

    def _value(self, value: Any, about: object, where: str, depth: int) -> Any:
        kinds = kinds_of(about, self._schema)
        if isinstance(value, str) and kinds and "string" not in kinds:
            value = self._read(value, kinds, where)
        inner = self._single(about)
        match value:
            case dict():
                return self._object(value, inner, where, depth)
            case list() if isinstance(inner.get("items"), Mapping) and depth <= _DEEPEST:
                return [
                    self._value(item, inner["items"], f"{where}.{at}", depth + 1)
                    for at, item in enumerate(value)
                ]
            case _:
                return value

    def _read(self, text: str, kinds: Collection[str], where: str) -> Any:
        found = reading(text, kinds)
        if found is None:
            return text
        try:
            value = _decoder().decode(found)
        except (ValueError, RecursionError, _Unreadable):
            return text
        self.read_as.append(f"{where}: the text {quoted(text)} was read as {kind_of(value)}")
        return value

    def _single(self, about: object) -> Mapping[str, Any]:
        """Return the only type that a value may have besides null; empty if there are several."""
        for _ in range(_DEEPEST):
            if not isinstance(about, Mapping):
                return {}
            forms = [form for key in ("anyOf", "oneOf", "allOf") for form in about.get(key) or ()]
            forms = [
                form
                for form in forms
                if not (isinstance(form, Mapping) and form.get("type") == "null")
            ]
            if isinstance(about.get("$ref"), str):
                about = resolved(about["$ref"], self._schema)
            elif len(forms) == 1:
                about = forms[0]
            else:
                return {} if forms else about
        return {}


def _listed(tool: Tool[Any], faults: tuple[Fault, ...]) -> str:
    lines = list(dict.fromkeys(fault.said(tool.name) for fault in faults))
    more = [f"… and {len(lines) - _MOST_ERRORS} more"] if len(lines) > _MOST_ERRORS else []
    return "\n".join([*lines[:_MOST_ERRORS], *more, _excerpt(tool)])


def _decoded(name: str, raw: str) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        value = _decoder().decode(raw.strip())
        lone = _SURROGATE.search(json.dumps(value, ensure_ascii=False))
    except json.JSONDecodeError as error:
        raise InvalidArgs(
            f"the arguments of '{name}' are not valid JSON: {error.msg} at character {error.pos + 1}"
            f"{_around(raw.strip(), error.pos)}. Send one JSON object."
        ) from None
    except RecursionError:
        raise InvalidArgs(
            f"the arguments of '{name}' are nested too deeply: {quoted(raw)}"
        ) from None
    except _Unreadable as error:
        raise InvalidArgs(f"the arguments of '{name}' cannot be used: {error}") from None
    if not isinstance(value, dict):
        kind = kind_of(value)
        raise InvalidArgs(
            f"the arguments of '{name}' must be one JSON object, not {kind}: {quoted(raw)}"
        )
    if lone is not None:
        raise InvalidArgs(
            f"the arguments of '{name}' hold half a character, \\u{ord(lone[0]):04x} without its partner"
        )
    return value


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"the key {twice[:LONGEST_QUOTE]!r} appears twice")
    return out


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise _Unreadable(f"the number {text[:20]}… has {len(text)} digits")
    return int(text)


def _float(text: str) -> float | int:
    """Read a number; an integer may be written as 5.0."""
    number = float(text)
    if not math.isfinite(number):
        raise _Unreadable(f"the number {text[:_LONGEST_NUMBER]} is too large")
    return int(number) if number.is_integer() and abs(number) < _EXACT_FLOATS else number


def _constant(text: str) -> float:
    raise _Unreadable(f"{text} is not JSON")


def _fault(error: "ErrorDetails", known: list[str]) -> Fault:
    where = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            return Fault(where, "", "missing")
        case "extra_forbidden":
            return unknown_argument(where, where, known)
        case "value_error":
            return Fault(where, error["msg"].removeprefix("Value error, "), "broken")
        case _:
            return Fault(where, error["msg"], given=error["input"])


def _excerpt(tool: Tool[Any]) -> str:
    schema = json.dumps(tool_schema(tool), ensure_ascii=False, separators=(",", ":"))
    cut = schema if len(schema) <= _LONGEST_SCHEMA else schema[:_LONGEST_SCHEMA] + "…"
    return f"The schema of '{tool.name}': {cut}"


def _around(text: str, position: int) -> str:
    start = max(0, position - LONGEST_QUOTE // 2)
    piece = text[start : start + LONGEST_QUOTE]
    return f", near {printable(piece)!r}" if piece else ""
