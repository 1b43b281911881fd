"""Calls written as JSON: where the JSON ends, whether it is a call, and the exact text of its
arguments."""

import json
import re
from collections.abc import Collection, Iterator
from json.decoder import JSONDecoder
from typing import Literal

from codeagent.llm.stream import is_object

CALL_KEYS = frozenset(
    {"name", "arguments", "parameters", "id", "call_id", "index", "type", "function", "tool_calls"}
)
"""Keys that the outermost object of a call may have."""
Call = tuple[str, str]
"""The name, and the text of the arguments as the model wrote it."""
_EXTRA = frozenset({"id", "call_id", "index", "type"})
_ARGUMENTS = ("arguments", "parameters")
_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.){1,128})"')
_NAME_IS_WITHIN = 2000
_SPACE = re.compile(r"[ \t\n\r]*")
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_ESCAPE_BEGINS = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ATOM = re.compile(r"[-+.\w]*")
_ATOM_STARTS = frozenset("-0123456789tfnNI")
_LONGEST_KEPT = 256
_Expect = Literal["value", "value or end", "key", "key or end", "colon", "comma"]
_decoder = JSONDecoder()


class JsonScanner:
    """Finds the end of a JSON object or array in text that comes in pieces, in one pass.

    It checks the structure only; numbers and words are left to the decoder. It begins at a `{` or
    `[`. `keys` and `strings` hold what a call is recognised by: the keys of the object, or of the
    objects of the array, and those of their values that are strings.
    """

    def __init__(self) -> None:
        self.state: Literal["more", "whole", "bad"] = "more"
        self.keys: list[str] = []
        self.strings: list[tuple[str, str]] = []
        self.in_string = False
        self.plain_items = False
        """An array holds something that is not an object."""
        self._open: list[str] = []
        self._expect: _Expect = "value"
        self._in_atom = self._is_key = False
        self._kept: list[str] | None = None

    def feed(self, data: str, position: int) -> int:
        """Return where it stopped: after the value, at what is not JSON, or before what is left for
        later."""
        while position < len(data) and self.state == "more":
            if self.in_string:
                end = self._string(data, position)
                if end == position:
                    break
                position = end
                continue
            found = (_ATOM if self._in_atom else _SPACE).match(data, position)
            assert found is not None
            position = found.end()
            if position == len(data):
                break
            if self._in_atom:
                self._in_atom = False
                self._expect = "comma"
            elif self._takes(data[position]):
                position += 1
            else:
                self.state = "bad"
        return position

    def _string(self, data: str, position: int) -> int:
        found = _CHARACTERS.match(data, position)
        assert found is not None
        if self._kept is not None and len(self._kept) < _LONGEST_KEPT:
            self._kept.append(found[0][:_LONGEST_KEPT])
        end = found.end()
        if end == len(data) or _ESCAPE_BEGINS.match(data, end):
            return end
        if data[end] != '"':
            self.state = "bad"
            return end
        self.in_string = False
        self._expect = "colon" if self._is_key else "comma"
        if self._kept is not None:
            text = "".join(self._kept)[:_LONGEST_KEPT]
            if self._is_key:
                self.keys.append(text)
            elif self.keys:
                self.strings.append((self.keys[-1], text))
        return end + 1

    def _takes(self, character: str) -> bool:
        """Take the character; False if it is not allowed here."""
        expect = self._expect
        if self._open == ["["] and character not in "{],":
            self.plain_items = True
        if character == '"' and expect in ("value", "value or end", "key", "key or end"):
            self.in_string = True
            self._is_key = expect.startswith("key")
            self._kept = [] if self._open in (["{"], ["[", "{"]) else None
        elif character in "{[" and expect.startswith("value"):
            self._open.append(character)
            self._expect = "key or end" if character == "{" else "value or end"
        elif character in "}]" and self._open:
            return self._takes_end(character)
        elif not self._open:
            return False
        elif character == ":" and expect == "colon":
            self._expect = "value"
        elif character == "," and expect == "comma":
            self._expect = "key" if self._open[-1] == "{" else "value"
        elif character in _ATOM_STARTS and expect.startswith("value"):
            self._in_atom = True
        else:
            return False
        return True

    def _takes_end(self, character: str) -> bool:
        empty = "key or end" if character == "}" else "value or end"
        if self._expect not in ("comma", empty) or (self._open[-1] == "{") != (character == "}"):
            return False
        self._open.pop()
        self._expect = "comma"
        if not self._open:
            self.state = "whole"
        return True


def calls_in(text: str, *, known: Collection[str] | None = None) -> list[Call] | None:
    """Return the calls that the JSON consists of; None if it is anything else.

    With `known`, the shape must be exact and every tool one of those, unless the key `tool_calls`
    says what it is. Without, arguments may be missing.
    """
    try:
        return _calls(text.strip(), known)
    except (ValueError, IndexError, RecursionError):
        return None


def name_in(text: str) -> str:
    """Return the tool that broken JSON names first, or an empty string."""
    found = _NAME.search(text[:_NAME_IS_WITHIN])
    return found[1] if found else ""


def members(text: str) -> dict[str, str] | None:
    """Map each key to the text of its value; None for anything but one object without duplicate
    keys."""
    try:
        return _members(text.strip()) if is_object(text) else None
    except (ValueError, IndexError, RecursionError):
        return None


def _calls(text: str, known: Collection[str] | None) -> list[Call] | None:
    if text.startswith("["):
        return _all(_items(text), known)
    has = _members(text)
    if has.keys() == {"tool_calls"} and has["tool_calls"].startswith("["):
        return _all(_items(has["tool_calls"]), None)
    if (
        "function" in has
        and has.keys() <= _EXTRA | {"function"}
        and has["function"].startswith("{")
    ):
        return _calls(has["function"], known)
    given = [key for key in _ARGUMENTS if key in has]
    if (
        len(given) > 1
        or not has.keys() <= _EXTRA | {"name", *given}
        or (known is not None and not given)
    ):
        return None
    name = json.loads(has.get("name", "null"))
    if not isinstance(name, str) or not name or (known is not None and name not in known):
        return None
    arguments = has[given[0]] if given else ""
    # OpenAI writes them as JSON in a string.
    return [(name, str(json.loads(arguments)) if arguments.startswith('"') else arguments)]


def _all(items: list[str], known: Collection[str] | None) -> list[Call] | None:
    calls: list[Call] = []
    for item in items:
        found = _calls(item, known) if item.startswith("{") else None
        if found is None:
            return None
        calls += found
    return calls or None


def _members(text: str) -> dict[str, str]:
    """Map each key to the text of its value. Raises ValueError as `members` returns None."""
    found: dict[str, str] = {}
    for key, value in _values(text, "{", "}"):
        if key in found:
            raise ValueError("a key occurs twice")
        found[key] = value
    return found


def _items(text: str) -> list[str]:
    return [value for _, value in _values(text, "[", "]")]


def _values(text: str, opening: str, closing: str) -> Iterator[tuple[str, str]]:
    """Yield the key, empty in an array, and the text of each value. Raises ValueError,
    IndexError."""
    key, position = "", _after(text, 0, opening)
    while text[position] != closing:
        if opening == "{":
            key, position = _decoder.raw_decode(text, position)
            position = _after(text, _skip(text, position), ":")
        _, end = _decoder.raw_decode(text, position)
        yield key, text[position:end]
        position = _skip(text, end)
        if text[position] != closing:
            position = _after(text, position, ",")


def _after(text: str, position: int, character: str) -> int:
    if text[position] != character:
        raise ValueError(f"no {character} at {position}")
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()
