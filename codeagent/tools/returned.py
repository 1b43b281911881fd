"""From what a person's function returned to the one result of its call."""

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from codeagent.core.tool import Failed, ToolResult

NOTHING = "(no output)"
_MAY_BE = (
    "a tool may return text, None, anything that can be written as JSON (numbers, lists, dicts, dataclasses, pydantic "
    "models), or a codeagent.ToolResult"
)


def as_result(value: Any, printed: str) -> ToolResult:
    """`printed` stands before the text; a ToolResult stays as it is. Raises Failed where nothing can be made of it."""
    if isinstance(value, ToolResult):
        return value
    text = as_text(value)
    if printed.strip():
        text = f"{printed.rstrip()}\n{text}" if text != NOTHING else printed.rstrip()
    return ToolResult.from_text(text)


def as_text(value: Any) -> str:
    """Text as it is, other values as JSON. Raises Failed."""
    match value:
        case None | "":
            return NOTHING
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case bytes() | bytearray() | memoryview():
            return f"({len(value)} bytes, which a model cannot read; return text)"
        case _:
            return _as_json(value)


def _as_json(value: Any) -> str:
    try:
        plain = to_jsonable_python(value, by_alias=True)
        text = json.dumps(plain, ensure_ascii=False, indent=2)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise Failed(f"it returned {type(value).__name__}, which cannot be shown ({reason}): {_MAY_BE}") from None
    return text.encode("utf-8", "backslashreplace").decode()
