"""The JSON Schema of a tool's arguments, without what only pydantic needs."""

from typing import Any

from pydantic import BaseModel

_VALUES = frozenset(["default", "const", "enum", "examples"])
"""What they hold is data, not schema."""
_NAMED = frozenset(["properties", "patternProperties"])


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """An object schema: references put in place, titles and empty defaults left out.

    A type that holds itself is written out once; below, it is an object that says which (not every provider takes
    references).
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
    if _is_optional(node):
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


def _is_optional(node: dict[str, Any]) -> bool:
    """It may be null, and left out it is null."""
    options = node.get("anyOf")
    return "default" in node and node["default"] is None and isinstance(options, list) and {"type": "null"} in options


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """An argument that may be left out need not also say that it may be null."""
    options = [option for option in node["anyOf"] if option != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**(options[0] if len(options) == 1 else {"anyOf": options}), **rest}
