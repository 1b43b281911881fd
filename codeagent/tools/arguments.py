"""From the raw text of a call's arguments to a checked model, or a message the model can repair them from."""

import json
import math
import re
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from codeagent.core.tool import InvalidArgs, Tool
from codeagent.tools.schema import arguments_schema

_PREVIEW = 200
_LONGEST_SCHEMA = 1500
_LONGEST_NUMBER = 100
_MOST_ERRORS = 20
_EXACT_FLOATS = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Unreadable(Exception):
    """The text is JSON that must not be accepted; the message says why."""


def parse_arguments(tool: Tool[Any], raw: str) -> BaseModel:
    """The tool's `Args`. Empty text means no arguments; nothing else is guessed.

    Raises InvalidArgs, and nothing but that, with every error and the schema in its text.
    """
    arguments = _decoded(tool.name, raw)
    try:
        args: BaseModel = tool.Args.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        known = list(tool.Args.model_fields)
        problems = [_problem(tool.name, details, known) for details in error.errors(include_url=False)]
        lines = list(dict.fromkeys(problems))[:_MOST_ERRORS]
        raise InvalidArgs("\n".join([*lines, _excerpt(tool)])) from None
    return args


def _decoded(name: str, raw: str) -> dict[str, Any]:
    if not raw.strip():
        return {}
    decoder = json.JSONDecoder(
        object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
    )
    try:
        value = decoder.decode(raw.strip())
        lone = _SURROGATE.search(json.dumps(value, ensure_ascii=False))
    except json.JSONDecodeError as error:
        raise InvalidArgs(
            f"the arguments of '{name}' are not valid JSON: {error.msg} at character {error.pos + 1}"
            f"{_around(raw.strip(), error.pos)}. Send one JSON object."
        ) from None
    except RecursionError:
        raise InvalidArgs(f"the arguments of '{name}' are nested too deeply: {_quoted(raw)}") from None
    except _Unreadable as error:
        raise InvalidArgs(f"the arguments of '{name}' cannot be used: {error}") from None
    if not isinstance(value, dict):
        kind = _kind(value)
        raise InvalidArgs(f"the arguments of '{name}' must be one JSON object, not {kind}: {_quoted(raw)}")
    if lone is not None:
        raise InvalidArgs(f"the arguments of '{name}' hold half a character, \\u{ord(lone[0]):04x} without its partner")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"the key {twice[:_PREVIEW]!r} is there twice")
    return out


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise _Unreadable(f"the number {text[:20]}… has {len(text)} digits")
    return int(text)


def _float(text: str) -> float | int:
    """A whole number may be written 5.0 where an integer is wanted."""
    number = float(text)
    if not math.isfinite(number):
        raise _Unreadable(f"the number {text[:_LONGEST_NUMBER]} is too large")
    return int(number) if number.is_integer() and abs(number) < _EXACT_FLOATS else number


def _constant(text: str) -> float:
    raise _Unreadable(f"{text} is not JSON")


def _problem(tool: str, error: ErrorDetails, known: list[str]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            return f"Validation Error: Missing required argument '{where}' for tool '{tool}'"
        case "extra_forbidden":
            close = get_close_matches(where, known, n=2, cutoff=0.4)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            return f"Validation Error: Unknown argument '{where[:_PREVIEW]}' for tool '{tool}'{hint}"
        case "value_error":
            what = error["msg"].removeprefix("Value error, ")
            return f"Validation Error: {f'Argument {where!r}: ' if where else ''}{what} for tool '{tool}'"
        case _:
            given = f"{_kind(error['input'])} {_quoted(_as_json(error['input']))}"
            message = error["msg"].removeprefix("Input ")
            return f"Validation Error: Argument '{where}' for tool '{tool}' {message}; got {given}"


def _excerpt(tool: Tool[Any]) -> str:
    schema = json.dumps(arguments_schema(tool.Args), ensure_ascii=False, separators=(",", ":"))
    cut = schema if len(schema) <= _LONGEST_SCHEMA else schema[:_LONGEST_SCHEMA] + "…"
    return f"The schema of '{tool.name}': {cut}"


def _around(text: str, position: int) -> str:
    start = max(0, position - _PREVIEW // 2)
    piece = text[start : start + _PREVIEW]
    return f", near {_printable(piece)!r}" if piece else ""


def _quoted(text: str) -> str:
    return repr(_printable(text[:_PREVIEW])) + ("…" if len(text) > _PREVIEW else "")


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
