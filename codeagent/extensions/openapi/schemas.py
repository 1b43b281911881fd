"""Converts schemas of a document to the JSON Schema of a tool's arguments: references resolved,
bounded, in one draft.

OpenAPI 3.0 has its own keywords (`nullable`, a boolean `exclusiveMinimum`), and documents contain
much that a model does not need. A recursive type is written out once; below that it is an object
that names it. The result is valid by construction: checking it against the meta-schema would take a
third of a second for a large one.
"""

import json
from typing import Any

from codeagent.core.sanitize import one_line
from codeagent.extensions.openapi.document import MOST_STEPS, ApiDocument
from codeagent.extensions.openapi.reading import BadDocument
from codeagent.tools.schema_check import pattern_problem

_MOST_NODES = 1_500
"""The most schemas of one tool; beyond that, a schema is any object."""
_MOST_VALUES = 500
"""The most values of an `enum`; a longer one is left to the server."""
_DEEPEST = 12
_LONGEST_DESCRIPTION = 400
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_KEPT = frozenset(
    {
        "multipleOf",
        "maximum",
        "minimum",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "enum",
        "const",
        "format",
        "contentMediaType",
        "contentEncoding",
    }
)
"""Keywords that are kept; not `default`, as a filled-in default would be sent and override the
server's."""
_LISTS = ("allOf", "anyOf", "oneOf")


class Schemas:
    """Converts the schemas of an operation, with one budget for all."""

    def __init__(self, document: ApiDocument) -> None:
        self._document = document
        self._left = _MOST_NODES

    def converted(self, node: Any) -> dict[str, Any]:
        """Return the schema of an argument. Raises BadDocument for a reference that leads
        nowhere."""
        return self._schema(node, (), 0)

    def _schema(self, node: Any, within: tuple[str, ...], depth: int) -> dict[str, Any]:
        if node is False:
            return {"not": {}}
        if not isinstance(node, dict):
            return {}
        self._left -= 1
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self._referenced(reference, node, within, depth)
        if depth >= _DEEPEST or self._left < 0:
            kind = node.get("type")
            return {"type": kind} if isinstance(kind, str) and kind in _TYPES else {}
        out = {key: value for key, value in node.items() if key in _KEPT}
        if isinstance(values := node.get("enum"), list) and not 0 < len(values) <= _MOST_VALUES:
            del out["enum"]
        _take_type(node, out)
        _take_bounds(node, out)
        if text := described(node):
            out["description"] = text
        if isinstance(pattern := node.get("pattern"), str) and pattern_problem(pattern) is None:
            out["pattern"] = pattern
        self._take_inner(node, out, within, depth)
        return _merged(out)

    def _referenced(
        self, reference: str, node: dict[str, Any], within: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        name = reference.rpartition("/")[2]
        if reference in within:
            return {"type": "object", "description": f"as {one_line(name, 60)} above"}
        if len(within) > _DEEPEST + MOST_STEPS:
            raise BadDocument(
                f"a reference leads to references without end: {one_line(reference, 200)}"
            )
        target = self._document.target(reference)
        found = self._schema(target, (*within, reference), depth)
        said = node.get("description")
        return (
            {**found, "description": one_line(said, _LONGEST_DESCRIPTION)}
            if isinstance(said, str)
            else found
        )

    def _take_inner(
        self, node: dict[str, Any], out: dict[str, Any], within: tuple[str, ...], depth: int
    ) -> None:
        properties = node.get("properties")
        if isinstance(properties, dict):
            kept = {name: one for name, one in properties.items() if not self._is_read_only(one)}
            out["properties"] = {
                name: self._schema(one, within, depth + 1) for name, one in kept.items()
            }
            out.setdefault("type", "object")
        required = node.get("required")
        if isinstance(required, list):
            known = out.get("properties")
            needed = [
                name
                for name in required
                if isinstance(name, str) and (known is None or name in known)
            ]
            out |= {"required": list(dict.fromkeys(needed))} if needed else {}
        if "items" in node:
            out["items"] = self._schema(node["items"], within, depth + 1)
        more = node.get("additionalProperties")
        if isinstance(more, dict):
            out["additionalProperties"] = self._schema(more, within, depth + 1)
        elif more is False:
            out["additionalProperties"] = False
        for key in _LISTS:
            if isinstance(parts := node.get(key), list) and parts:
                # Read-only properties are left out, so two alternatives may look alike, and `oneOf`
                # would refuse both.
                name = "anyOf" if key == "oneOf" and "anyOf" not in node else key
                out[name] = [self._schema(part, within, depth + 1) for part in parts]

    def _is_read_only(self, node: Any) -> bool:
        try:
            return self._document.follow(node).get("readOnly") is True
        except BadDocument:
            return False


def described(node: dict[str, Any]) -> str:
    """Return the description of a schema or a parameter in one line, with the server's default."""
    text = node.get("description")
    said = one_line(text, _LONGEST_DESCRIPTION) if isinstance(text, str) else ""
    default = node.get("default")
    if not isinstance(default, str | int | float) or default == "":
        return said
    return f"{said} Default: {one_line(json.dumps(default), 60)}.".strip()


def _take_type(node: dict[str, Any], out: dict[str, Any]) -> None:
    given = node.get("type")
    listed = given if isinstance(given, list) else [given]
    kinds = list(dict.fromkeys(kind for kind in listed if isinstance(kind, str) and kind in _TYPES))
    if node.get("nullable") is True and kinds and "null" not in kinds:
        kinds.append("null")
        if isinstance(out.get("enum"), list) and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
    if kinds:
        out["type"] = kinds[0] if len(kinds) == 1 else kinds


def _take_bounds(node: dict[str, Any], out: dict[str, Any]) -> None:
    """Convert `exclusiveMinimum: true` of 3.0 and the number of 3.1; drop bounds that are not
    numbers."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        value = node.get(exclusive)
        if value is True and bound in out:
            out[exclusive] = out.pop(bound)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            out[exclusive] = value
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        if key in out and (isinstance(out[key], bool) or not isinstance(out[key], int | float)):
            del out[key]
    for key in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"):
        if key in out and (
            isinstance(out[key], bool) or not isinstance(out[key], int) or out[key] < 0
        ):
            del out[key]
    if not (isinstance(out.get("multipleOf", 1), int | float) and out.get("multipleOf", 1) > 0):
        del out["multipleOf"]
    texts = ("format", "contentMediaType", "contentEncoding")
    for key, kind in (("uniqueItems", bool), ("enum", list), *((text, str) for text in texts)):
        if key in out and not isinstance(out[key], kind):
            del out[key]


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge `allOf` into one object if its parts are plain objects, as not every provider accepts
    it."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    own = {key: value for key, value in schema.items() if key != "allOf"}
    plain = {"type", "properties", "required", "description"}
    if not all(
        set(part) <= plain and part.get("type", "object") == "object" for part in [*parts, own]
    ):
        return (
            {**parts[0], **own}
            if len(parts) == 1 and not set(parts[0]) & (set(own) - {"description"})
            else schema
        )
    found: dict[str, Any] = {"type": "object"}
    for part in [*parts, own]:
        for name, one in part.get("properties", {}).items():
            found.setdefault("properties", {})[name] = one
        needed = [*found.get("required", []), *part.get("required", [])]
        found |= {"required": list(dict.fromkeys(needed))} if needed else {}
        found |= {"description": part["description"]} if "description" in part else {}
    return found
