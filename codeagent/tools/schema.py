"""JSON Schemas of tool arguments: made from models, and as the model is told them."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from codeagent.core.deferred import BaseModel
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Tool, ToolDefinition
from codeagent.core.toolbox import ToolProblem

_VALUES = frozenset(["default", "const", "enum", "examples"])
"""Keywords that hold data, not a schema."""
_NAMED = frozenset(["properties", "patternProperties"])
_SEEN_IN_ERRORS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "minLength", "maxLength"}
)
"""Bounds, which the model is not told in advance: a call beyond one gets a result that names it."""
_UNSAID: tuple[tuple[str, Any], ...] = (
    ("additionalProperties", False),
    ("default", ""),
    ("default", "."),
    ("default", []),
    ("default", 0),
)
"""How False is written, which equals 0 in Python."""
_SHARE = 0.2
"""Of the model's window, for the definitions of toolsets."""
_USUAL_WINDOW = 128_000
"""Tokens, if the model's window is unknown."""
_BYTES_OF_A_TOKEN = 3
"""Of a schema, which has many short words and signs."""
_LONGEST_DEFINITION = 6_000


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of an object, with references resolved in place, and without titles and
    empty defaults.

    A recursive type is written out once; below that it is an object that names it, because not
    every provider accepts references.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    plain = _plain(schema, definitions, ())
    plain.pop("description", None)
    return {"type": "object", "properties": {}, **plain}


def _plain(node: Any, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions, within) for item in node]
    if not isinstance(node, dict):
        return node
    node = _without_null(node)
    reference = node.get("$ref")
    if isinstance(reference, str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_target(reference, definitions, within), **_plain(rest, definitions, within)}
    out = {}
    for key, value in node.items():
        if key in _NAMED:
            out[key] = {name: _plain(item, definitions, within) for name, item in value.items()}
        elif key in _VALUES:
            if not (key == "default" and (value is None or value is False)):
                out[key] = value
        elif key not in ("title", "discriminator"):
            out[key] = _plain(value, definitions, within)
    return out


def _target(reference: str, definitions: dict[str, Any], within: tuple[str, ...]) -> dict[str, Any]:
    name = reference.removeprefix("#/$defs/")
    definition = definitions[name]
    if name in within:
        kind = {"type": definition["type"]} if "type" in definition else {}
        return {**kind, "description": f"as {definition.get('title', name)} above"}
    target: dict[str, Any] = _plain(definition, definitions, (*within, name))
    target.pop("description", None)
    return target


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null, if null means the same as leaving the argument out."""
    forms = node.get("anyOf")
    if (
        node.get("default", "") is not None
        or not isinstance(forms, list)
        or {"type": "null"} not in forms
    ):
        return node
    others = [form for form in forms if form != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**(others[0] if len(others) == 1 else {"anyOf": others}), **rest}


@cache
def _written_schemas() -> dict[str, dict[str, Any]]:
    return dict(json.loads(Path(__file__).with_name("schemas.json").read_text(encoding="utf-8")))


def _found_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model; those of built-in tools are read from a file, so that a start
    builds no models."""
    written = _written_schemas().get(f"{model.__module__}.{model.__qualname__}")
    return arguments_schema(model) if written is None else written


_schema_of: Callable[[type[BaseModel]], dict[str, Any]] = lru_cache(maxsize=256)(_found_schema)
"""Cached: a start reads each schema twice, and a call its tool's several times."""


def tool_schema(tool: Tool[Any]) -> dict[str, Any]:
    """Return the schema for checking the tool's arguments and for the model; never change it."""
    return tool.schema if tool.schema is not None else _schema_of(tool.Args)


def shown_schema(tool: Tool[Any]) -> dict[str, Any]:
    """Return the schema for the model; that of a user-defined tool is unchanged."""
    schema = tool_schema(tool)
    shorter: dict[str, Any] = terse(schema) if tool.source == "builtin" else schema
    return shorter


class Definitions:
    """The definitions of tools for the model: bounded one by one, with room for all of them
    together."""

    def __init__(self, window: int | None = None) -> None:
        """`window`: the model's, in tokens; None if it is unknown."""
        self.window = window
        self.room = round((window or _USUAL_WINDOW) * _SHARE * _BYTES_OF_A_TOKEN)
        """The most bytes of all definitions of toolsets."""
        self.longest = min(_LONGEST_DEFINITION, self.room // 4)
        """The most bytes of one definition that is not built in."""
        self._sizes: WeakKeyDictionary[Tool[Any], int] = WeakKeyDictionary()

    def whole(self, tool: Tool[Any]) -> ToolDefinition:
        return ToolDefinition(tool.name, tool.description, shown_schema(tool), tool.at_provider)

    def of(self, tool: Tool[Any]) -> ToolDefinition:
        """Return the definition, cut if it is too long; the arguments are still checked against the
        whole one."""
        whole = self.whole(tool)
        if tool.source == "builtin" or tool.at_provider:
            return whole
        from codeagent.tools.cutting import (
            cut_definition,
            definition_bytes,
        )  # a first request has no such tools

        return (
            whole
            if definition_bytes(whole) <= self.longest
            else cut_definition(whole, self.longest)
        )

    def size(self, tool: Tool[Any]) -> int:
        """Return the bytes of the definition."""
        if tool not in self._sizes:
            from codeagent.tools.cutting import definition_bytes  # as above

            self._sizes[tool] = definition_bytes(self.of(tool))
        return self._sizes[tool]

    def fitting(
        self, tools: Mapping[Tool[Any], str]
    ) -> tuple[dict[Tool[Any], str], list[ToolProblem]]:
        """Return the first tools whose definitions fit together, and a problem for each source of
        the others.

        `tools`: each with the name of its source.
        """
        left = self.room
        kept: dict[Tool[Any], str] = {}
        out: dict[str, list[Tool[Any]]] = {}
        for tool, source in tools.items():
            size = self.size(tool)
            if size <= left:
                kept[tool] = source
                left -= size
            else:
                out.setdefault(source, []).append(tool)
        return kept, [
            ToolProblem(source, self._too_long(ones), partial=True) for source, ones in out.items()
        ]

    def _too_long(self, tools: Sequence[Tool[Any]]) -> str:
        names = one_line(", ".join(tool.name for tool in tools), 200)
        size = sum(map(self.size, tools))
        return f"the definitions of {names} take {size:,} bytes too many; all definitions may take {self.room:,}"


def terse(node: Any) -> Any:
    """Return the schema of a built-in tool for the model, short because it is sent with every
    request: without bounds.

    A default that is the first of an enum's values goes without saying. Arguments are still checked
    against the full schema.
    """
    if isinstance(node, list):
        return [terse(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: terse(one) for name, one in value.items()}
        elif key == "default" and value in node.get("enum", ())[:1]:
            continue
        elif not (key in _SEEN_IN_ERRORS or (key, value) in _UNSAID):
            plain[key] = terse(value)
    return plain
