"""From the raw text of a call's arguments to a checked model, or a message the model can repair them from."""

import json
import math
import re
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from codeagent.core.tool import InvalidArgs, Tool
from codeagent.tools.schema_check import faults_of, tool_schema, with_defaults
from codeagent.tools.wording import LONGEST_QUOTE, Fault, kind_of, nearest_names, printable, quoted

_LONGEST_SCHEMA = 1500
_LONGEST_NUMBER = 100
_MOST_ERRORS = 20
_EXACT_FLOATS = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Unreadable(Exception):
    """The text is JSON that must not be accepted; the message says why."""


def parse_arguments(tool: Tool[Any], raw: str) -> BaseModel:
    """The tool's `Args`. Empty text means no arguments; nothing else is guessed.

    Where the tool brings a schema, what it says holds when an argument is left out is filled in. Raises InvalidArgs,
    and nothing but that, with every error and the schema in its text.
    """
    arguments = _decoded(tool.name, raw)
    if tool.schema is not None:
        arguments = with_defaults(tool.schema, arguments)
        if faults := faults_of(tool.schema, arguments):
            raise InvalidArgs(_listed(tool, faults))
    try:
        args: BaseModel = tool.Args.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        known = list(tool.Args.model_fields)
        faults = tuple(_fault(details, known) for details in error.errors(include_url=False))
        raise InvalidArgs(_listed(tool, faults)) from None
    return args


def _listed(tool: Tool[Any], faults: tuple[Fault, ...]) -> str:
    lines = list(dict.fromkeys(fault.said(tool.name) for fault in faults))
    more = [f"… and {len(lines) - _MOST_ERRORS} more"] if len(lines) > _MOST_ERRORS else []
    return "\n".join([*lines[:_MOST_ERRORS], *more, _excerpt(tool)])


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
        raise InvalidArgs(f"the arguments of '{name}' are nested too deeply: {quoted(raw)}") from None
    except _Unreadable as error:
        raise InvalidArgs(f"the arguments of '{name}' cannot be used: {error}") from None
    if not isinstance(value, dict):
        kind = kind_of(value)
        raise InvalidArgs(f"the arguments of '{name}' must be one JSON object, not {kind}: {quoted(raw)}")
    if lone is not None:
        raise InvalidArgs(f"the arguments of '{name}' hold half a character, \\u{ord(lone[0]):04x} without its partner")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"the key {twice[:LONGEST_QUOTE]!r} is there twice")
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


def _fault(error: ErrorDetails, known: list[str]) -> Fault:
    where = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            return Fault(where, "", "missing")
        case "extra_forbidden":
            return Fault(where, nearest_names(where, known), "unknown")
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
