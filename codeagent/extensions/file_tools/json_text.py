"""The text of a JSON document: finds values in it, and changes one without touching the rest."""

import json
import re
from collections.abc import Iterator
from functools import cached_property

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import JsonValue
from codeagent.core.text_files import Splice

_BLANK = re.compile(r"[ \t\r\n]*")
_DOTTED = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_INDENT = re.compile(r"\n([ \t]+)(?=\S)")
_LONGEST_NAME = 100
_MOST_NAMED = 20


class NotJson(Exception):
    """The text is not JSON, or a place does not exist; the message says where and what."""


@dataclass(frozen=True)
class Member:
    """An entry of an object or a list, by offsets in the text."""

    name: str
    """Its key, or its index."""
    begin: int
    """Where its key begins, or its value in a list."""
    start: int
    """Where its value begins."""
    end: int


@dataclass(frozen=True)
class Value:
    """One value in the text."""

    start: int
    end: int


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


@dataclass(frozen=True)
class JsonText:
    """A document that is valid JSON."""

    text: str

    @classmethod
    def checked(cls, text: str) -> "JsonText":
        """Check a text. Raises NotJson with line and column."""
        document = cls(text)
        try:
            end = document._skip(document._decode(document._skip(0)))
        except json.JSONDecodeError as error:
            raise NotJson(
                f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from None
        except (ValueError, RecursionError) as error:
            raise NotJson(f"it is not JSON: {error}") from None
        if end != len(text):
            raise NotJson(
                f"it is not one JSON document: more text begins on line {text.count(chr(10), 0, end) + 1}"
            )
        return document

    @cached_property
    def indent(self) -> str:
        """The indentation of one level; empty if the document is on one line."""
        found = _INDENT.search(self.text)
        return found[1] if found is not None else ""

    @property
    def root(self) -> Value:
        start = self._skip(0)
        return Value(start, self._decode(start))

    def find(self, place: tuple[str, ...]) -> Value:
        """Return the value at a place. Raises NotJson, which names what there is instead."""
        found = self.root
        for depth, name in enumerate(place):
            found = self._below(found, name, place[:depth])
        return found

    def value_at(self, place: tuple[str, ...]) -> Value | None:
        try:
            return self.find(place)
        except NotJson:
            return None

    def kind(self, value: Value) -> str:
        """Return `object`, `list`, or `value` for anything else."""
        return {"{": "object", "[": "list"}.get(self.text[value.start], "value")

    def members(self, value: Value) -> Iterator[Member]:
        """Return the entries of an object or a list, in order; empty for anything else."""
        kind = self.kind(value)
        at, index = self._skip(value.start + 1), 0
        while kind != "value" and self.text[at] not in "]}":
            begin, name = at, str(index)
            if kind == "object":
                name, at = _DECODER.raw_decode(self.text, at)
                at = self._skip(self._skip(at) + 1)
            start, at = at, self._decode(at)
            yield Member(name, begin, start, at)
            at, index = self._skip(at), index + 1
            if self.text[at] == ",":
                at = self._skip(at + 1)

    def set(self, place: tuple[str, ...], value: JsonValue, *, ascii_only: bool) -> Splice:
        """Return the splice that sets a value: replacing the old one, as a new key, or with `-` at
        the end of a list.

        If `ascii_only`, other characters are written as escapes. Raises NotJson.
        """

        def written(depth: int) -> str:
            if not self.indent:
                return json.dumps(value, ensure_ascii=ascii_only)
            text = json.dumps(value, indent=self.indent, ensure_ascii=ascii_only)
            return text.replace("\n", self._newline + self.indent * depth)

        if not place:
            root = self.root
            return Splice(root.start, root.end, written(0))
        parent, name, depth = self.find(place[:-1]), place[-1], len(place)
        there = self._member(parent, name, place[:-1])
        if there is not None:
            return Splice(there.start, there.end, written(depth))
        if self.kind(parent) == "value":
            raise NotJson(
                f"{pointer(place)} cannot be set: {pointer(place[:-1])} {self._said(parent)}"
            )
        if self.kind(parent) == "list" and name != "-":
            raise NotJson(
                f"{pointer(place)} does not exist; {pointer((*place[:-1], '-'))} adds to the end of the list"
            )
        key = json.dumps(name, ensure_ascii=ascii_only) if self.kind(parent) == "object" else ""
        return self._added(parent, key, written(depth), depth)

    def remove(self, place: tuple[str, ...]) -> Splice:
        """Return the splice that removes a value, with its key and one comma. Raises NotJson."""
        if not place:
            raise NotJson("the whole document cannot be removed; remove the file")
        parent = self.find(place[:-1])
        members = list(self.members(parent))
        there = self._member(parent, place[-1], place[:-1])
        if there is None:
            raise NotJson(f"{pointer(place)} does not exist")
        at = members.index(there)
        if at + 1 < len(members):
            return Splice(there.begin, members[at + 1].begin, "")
        if at:
            return Splice(members[at - 1].end, there.end, "")
        return Splice(parent.start + 1, parent.end - 1, "")

    def _added(self, parent: Value, key: str, written: str, depth: int) -> Splice:
        members = list(self.members(parent))
        if not members:
            line = self._newline + self.indent * depth if self.indent else ""
            closing = self._newline + self.indent * (depth - 1) if self.indent else ""
            entry = f"{key}: {written}" if key else written
            return Splice(parent.start + 1, parent.end - 1, f"{line}{entry}{closing}")
        last = members[-1]
        between = self.text[
            members[-2].end if members[1:] else parent.start + 1 : last.begin
        ].replace(",", "")
        colon = ": "
        if key:
            after_key = self.text[last.begin : last.start]
            colon = after_key[len(after_key.rstrip(": \t\r\n")) :]
        if not members[1:] and not between and " " in colon:
            between = " "
        return Splice(last.end, last.end, f",{between}{key}{colon if key else ''}{written}")

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _below(self, parent: Value, name: str, place: tuple[str, ...]) -> Value:
        found = self._member(parent, name, place)
        if found is None:
            raise NotJson(
                f"{pointer((*place, name))} does not exist: {pointer(place)} {self._said(parent)}"
            )
        return Value(found.start, found.end)

    def _said(self, value: Value) -> str:
        """Describe a value, as a phrase to put after its name."""
        names = [member.name[:_LONGEST_NAME] for member in self.members(value)]
        match self.kind(value):
            case "value":
                return f"is {self.text[value.start : value.end][:_LONGEST_NAME]}"
            case "list":
                return f"has {len(names)} entries"
            case _:
                return f"has {', '.join(names[:_MOST_NAMED]) or 'no keys'}{' …' * (len(names) > _MOST_NAMED)}"

    def _member(self, parent: Value, name: str, place: tuple[str, ...]) -> Member | None:
        found = [member for member in self.members(parent) if member.name == name]
        if len(found) > 1:
            raise NotJson(
                f"the key {name[:_LONGEST_NAME]!r} is {len(found)} times in {pointer(place)}; edit the text instead"
            )
        return found[0] if found else None

    def _decode(self, at: int) -> int:
        """Return the end of the value that begins there."""
        return _DECODER.raw_decode(self.text, at)[1]

    def _skip(self, at: int) -> int:
        """Return the next offset that is not blank."""
        found = _BLANK.match(self.text, at)
        return at if found is None else found.end()


def parse_place(text: str) -> tuple[str, ...]:
    """Read a JSON pointer (`/scripts/test`) or a dotted path (`scripts.test`, `jobs[0].name`);
    empty: the root.

    Raises ValueError.
    """
    if not text:
        return ()
    if text.startswith("/"):
        if re.search(r"~(?![01])", text):
            raise ValueError(f"{text[:_LONGEST_NAME]!r} is not a JSON pointer: ~ is written ~0")
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))
    names, at = list[str](), 0
    while at < len(text):
        found = _DOTTED.match(text, at)
        if (
            found is None
            or (at > 0 and found[1] is not None and text[at] != ".")
            or (at == 0 and text[0] == ".")
        ):
            raise ValueError(
                f"{text[:_LONGEST_NAME]!r} is neither a JSON pointer such as /scripts/test nor a path such as a.b[0]"
            )
        names.append(found[1] if found[1] is not None else found[2])
        at = found.end()
    return tuple(names)


def pointer(place: tuple[str, ...]) -> str:
    """Return the place as a JSON pointer, or in words for the root."""
    if not place:
        return "the document"
    return "".join(
        "/" + name.replace("~", "~0").replace("/", "~1")[:_LONGEST_NAME] for name in place
    )
