"""Cuts a large schema to what is needed to call the tool; arguments are still checked against the
whole of it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolDefinition

SAID = ' (Shortened: toolset_use with do="detail" shows it whole.)'
"""Ends the description of a tool whose definition was cut."""
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords with schemas by name."""
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames")
_SHARED = ("$defs", "definitions")
_UNSAID = frozenset(
    {
        "title",
        "examples",
        "example",
        "$comment",
        "markdownDescription",
        "externalDocs",
        "xml",
        "default",
    }
)
_TIGHTER_IF_CUT = frozenset(
    {"not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "maxContains"}
)
"""Keywords that would refuse more if what they refer to were cut."""
_FEW = 8
"""Values of an `enum` that are named once it is too long."""
_WHOLE = 1_000


@dataclass(frozen=True)
class Cut:
    """How much of a schema is left."""

    words: int = _WHOLE
    """The most characters of a description of the arguments themselves."""
    inner_words: int = _WHOLE
    """The same for what is inside an argument."""
    depth: int = _WHOLE
    """How deep it goes; the arguments are at 1. What is deeper only has its type."""
    values: int = _WHOLE
    """The most values of an `enum`; a longer one becomes its type, with a few values as
    examples."""
    optional: int = _WHOLE
    """The most optional keys of an object."""


_CUTS = (
    Cut(inner_words=100),
    Cut(words=200, inner_words=60),
    Cut(words=120, inner_words=0),
    *(Cut(words=120, inner_words=0, depth=depth) for depth in (8, 6, 5, 4, 3)),
    *(Cut(words=120, inner_words=0, depth=3, values=values) for values in (50, 20)),
    Cut(words=80, inner_words=0, depth=2, values=20),
    Cut(words=60, inner_words=0, depth=1, values=20),
    Cut(words=0, inner_words=0, depth=1, values=_FEW),
    *(
        Cut(words=0, inner_words=0, depth=1, values=_FEW, optional=most)
        for most in (100, 50, 20, 10, 5, 0)
    ),
)
"""From the least cut to the most: descriptions, then depth, then values, then optional
arguments."""


def definition_bytes(definition: ToolDefinition) -> int:
    """Return the bytes of the definition, as UTF-8 JSON without spaces."""
    return _bytes([definition.name, definition.description, definition.parameters])


def cut_definition(definition: ToolDefinition, most: int) -> ToolDefinition:
    """Return the definition with at most so many bytes if that is possible, else the smallest there
    is."""
    room = max(most // 3, 2 * len(SAID))
    text = definition.description
    said = (
        f"{one_line(text, room - len(SAID))}{SAID}"
        if len(text) + len(SAID) > room
        else f"{text}{SAID}"
    )
    found = definition
    for cut in _CUTS:
        found = replace(
            definition, description=said, parameters=cut_schema(definition.parameters, cut)
        )
        if definition_bytes(found) <= most:
            break
    return found


def cut_schema(schema: Mapping[str, Any], cut: Cut) -> dict[str, Any]:
    """Return the schema cut so far; it takes everything that the whole one takes."""
    found: dict[str, Any] = _Cutter(schema, cut).node(dict(schema), 0)
    return _without_unused(found)


def _bytes(value: Any) -> int:
    return len(
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode(
            "utf-8", "replace"
        )
    )


class _Cutter:
    def __init__(self, root: Mapping[str, Any], cut: Cut) -> None:
        self._root = root
        self._cut = cut

    def node(self, node: Any, depth: int) -> Any:
        if not isinstance(node, dict):
            return node
        if depth > self._cut.depth or (depth == self._cut.depth and _has_inner(node)):
            return self._bare(node, depth)
        out = self._own(node, depth)
        for key in _NAMED:
            if isinstance(inner := node.get(key), dict):
                within = 1 if key in _SHARED else depth + 1
                out[key] = {name: self.node(one, within) for name, one in inner.items()}
        for key in _LISTED:
            if isinstance(inner := node.get(key), list):
                out[key] = [self.node(one, depth) for one in inner]
        for key in _SINGLE:
            if key in node:
                out[key] = self.node(node[key], depth + 1)
        if (forms := out.pop("oneOf", None)) is not None:
            out.setdefault("anyOf", forms)  # of alternatives that were cut, more than one may fit
        return self._fewer(out)

    def _own(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return the keywords that hold no schema."""
        left_out = {*_NAMED, *_LISTED, *_SINGLE, *_UNSAID, *_TIGHTER_IF_CUT}
        out = {key: value for key, value in node.items() if key not in left_out}
        self._take_description(out, depth)
        if isinstance(values := out.get("enum"), list) and len(values) > self._cut.values:
            del out["enum"]
            few = ", ".join(map(str, values[:_FEW]))
            out["description"] = one_line(
                f"{out.get('description', '')} One of {len(values)} values: {few}, …", 300
            )
            out["description"] = out["description"].strip()
        return out

    def _take_description(self, out: dict[str, Any], depth: int) -> None:
        room = self._cut.words if depth <= 1 else self._cut.inner_words
        if isinstance(text := out.pop("description", None), str) and room > 0:
            out["description"] = text if len(text) <= room else one_line(text, room)

    def _bare(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return the type, and for a list that of its items, which some providers ask for."""
        found = self._followed(node)
        kind = found.get("type")
        if not isinstance(kind, str | list):
            return {}
        out: dict[str, Any] = {"type": kind}
        if kind == "array" and isinstance(items := found.get("items"), dict):
            inner = self._followed(items).get("type")
            out["items"] = {"type": inner} if isinstance(inner, str | list) else {}
        if depth <= 1 and "description" in node:
            out["description"] = node["description"]
            self._take_description(out, depth)
        return out

    def _followed(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return what a reference within the schema leads to, one step; `{}` if it leads
        nowhere."""
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        found: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _fewer(self, node: dict[str, Any]) -> dict[str, Any]:
        properties = node.get("properties")
        if not isinstance(properties, dict):
            return node
        needed = node.get("required")
        required = (
            {name for name in needed if isinstance(name, str)}
            if isinstance(needed, list)
            else set()
        )
        optional = [name for name in properties if name not in required]
        if len(optional) <= self._cut.optional:
            return node
        kept = required | set(optional[: self._cut.optional])
        rest = {key: value for key, value in node.items() if key != "additionalProperties"}
        return {
            **rest,
            "properties": {name: one for name, one in properties.items() if name in kept},
        }


def _has_inner(node: dict[str, Any]) -> bool:
    return any(node.get(key) for key in ("$ref", *_NAMED, *_LISTED, *_SINGLE))


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without shared parts that nothing refers to any more."""
    shared = {
        f"#/{key}/{name}": one for key in _SHARED for name, one in _dict(schema.get(key)).items()
    }
    if not shared:
        return schema
    plain = {key: value for key, value in schema.items() if key not in _SHARED}
    used: set[str] = set()
    waiting: list[Any] = [plain]
    while waiting:
        for reference in _references(waiting.pop()):
            place = "/".join(reference.split("/")[:3]).replace("~1", "/").replace("~0", "~")
            if reference == "#":
                return schema
            if place in shared and place not in used:
                used.add(place)
                waiting.append(shared[place])
    for key in _SHARED:
        if kept := {
            name: one for name, one in _dict(schema.get(key)).items() if f"#/{key}/{name}" in used
        }:
            plain[key] = kept
    return plain


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        yield from chain.from_iterable(map(_references, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_references, value))
