"""The JSON Schema of a tool's arguments, without what only pydantic needs."""

from typing import Any

from pydantic import BaseModel


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """An object schema: references put in place, titles and empty defaults left out."""
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
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix("#/$defs/")
        if name in within:
            return {"type": "object"}
        target = _plain(definitions[name], definitions, (*within, name))
        target.pop("description", None)
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**target, **_plain(rest, definitions, within)}
    if _is_optional(node):
        node = _without_null(node)
    out = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: _plain(item, definitions, within) for name, item in value.items()}
        elif not (key == "title" or (key == "default" and value in (None, False))):
            out[key] = _plain(value, definitions, within)
    return out


def _is_optional(node: dict[str, Any]) -> bool:
    options = node.get("anyOf")
    return isinstance(options, list) and len(options) == 2 and {"type": "null"} in options


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """An argument that may be left out need not also say that it may be null."""
    option = next(option for option in node["anyOf"] if option != {"type": "null"})
    return {**option, **{key: value for key, value in node.items() if key != "anyOf"}}
