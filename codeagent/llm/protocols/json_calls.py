"""Tells a call from other JSON: the shapes models use for one, and the exact text of the arguments in them."""

import json
import re
from collections.abc import Collection
from json.decoder import JSONDecoder

CALL_KEYS = frozenset({"name", "arguments", "parameters", "id", "call_id", "index", "type", "function", "tool_calls"})
"""What the outermost object of a call may have."""
_EXTRA = frozenset({"id", "call_id", "index", "type"})
_ARGUMENTS = ("arguments", "parameters")
_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.){1,128})"')
_NAME_IS_WITHIN = 2000
_SPACE = re.compile(r"[ \t\n\r]*")
_decoder = JSONDecoder()

Call = tuple[str, str]
"""Name, and the text of the arguments as it stood there."""


def calls_in(text: str, *, known: Collection[str] | None = None) -> list[Call] | None:
    """The calls that the JSON consists of; None where it is anything else.

    With `known`, the shape must be exact and every tool one of them, unless the key `tool_calls`
    says what it is. Without, arguments may be missing.
    """
    try:
        return _calls(text.strip(), known)
    except (ValueError, IndexError, RecursionError):
        return None


def name_in(text: str) -> str:
    """The tool that broken JSON names first, or nothing."""
    found = _NAME.search(text[:_NAME_IS_WITHIN])
    return found[1] if found else ""


def members(text: str) -> dict[str, str] | None:
    """Key → the text of its value; None for anything but one object without a key twice."""
    try:
        return _members(text.strip()) if is_object(text) else None
    except (ValueError, IndexError, RecursionError):
        return None


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _calls(text: str, known: Collection[str] | None) -> list[Call] | None:
    if text.startswith("["):
        return _all(_items(text), known)
    has = _members(text)
    if has.keys() == {"tool_calls"} and has["tool_calls"].startswith("["):
        return _all(_items(has["tool_calls"]), None)
    if "function" in has and has.keys() <= _EXTRA | {"function"} and has["function"].startswith("{"):
        return _calls(has["function"], known)
    given = [key for key in _ARGUMENTS if key in has]
    if len(given) > 1 or not has.keys() <= _EXTRA | {"name", *given} or (known is not None and not given):
        return None
    name = json.loads(has.get("name", "null"))
    if not isinstance(name, str) or not name or (known is not None and name not in known):
        return None
    return [(name, _plain(has[given[0]]) if given else "")]


def _all(items: list[str], known: Collection[str] | None) -> list[Call] | None:
    calls: list[Call] = []
    for item in items:
        found = _calls(item, known) if item.startswith("{") else None
        if found is None:
            return None
        calls += found
    return calls or None


def _plain(value: str) -> str:
    """OpenAI's own form has the arguments as JSON in a string."""
    return str(json.loads(value)) if value.startswith('"') else value


def _members(text: str) -> dict[str, str]:
    """Key → the text of its value. Raises ValueError for anything but one object without a key twice."""
    found: dict[str, str] = {}
    position = _after(text, 0, "{")
    if text[position] == "}":
        return found
    while True:
        if text[position] != '"':
            raise ValueError("a key is no string")
        key, position = _decoder.raw_decode(text, position)
        position = _after(text, _skip(text, position), ":")
        _, end = _decoder.raw_decode(text, position)
        if key in found:
            raise ValueError("a key is there twice")
        found[key] = text[position:end]
        position = _skip(text, end)
        if text[position] == "}":
            return found
        position = _after(text, position, ",")


def _items(text: str) -> list[str]:
    items: list[str] = []
    position = _after(text, 0, "[")
    while text[position] != "]":
        _, end = _decoder.raw_decode(text, position)
        items.append(text[position:end])
        position = _skip(text, end)
        if text[position] != "]":
            position = _after(text, position, ",")
    return items


def _after(text: str, position: int, character: str) -> int:
    if text[position] != character:
        raise ValueError(f"no {character} at {position}")
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()
