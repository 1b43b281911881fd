"""Converts text that a model wrote where a tool's schema asks for another type of value."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from codeagent.core.lazy_regex import lazy_regex

_NUMBER = lazy_regex(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_INTEGER = lazy_regex(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_KINDS: dict[str, type | tuple[type, ...]] = {"object": dict, "array": list}
_ALIASES = {
    "float": "number",
    "double": "number",
    "int": "integer",
    "bool": "boolean",
    "str": "string",
}
"""Words of other schema dialects."""
_OUTSIDE_STRINGS = frozenset('{}[],:"\\+-.0123456789truefalsnE \t\r\n')
_DEEPEST = 8


def as_json(text: str, schema: Mapping[str, Any], name: str, *, typed: bool = False) -> str:
    """Return the JSON of the argument `name`; text that does not fit stays a string, so that
    validation reports it.

    If the schema gives no type, `typed` text becomes the JSON that it looks like.
    """
    properties = schema.get("properties")
    about = properties.get(name) if isinstance(properties, Mapping) else None
    kinds = kinds_of(about, schema)
    if typed and not kinds:
        return as_said(text)
    if isinstance(about, Mapping) and text in (about.get("enum") or ()):
        return as_string(text)
    return reading(text, kinds) or as_string(text)


def reading(text: str, kinds: Collection[str]) -> str | None:
    """Return the text as JSON of one of these kinds; None if it only fits a string.

    The quotes of an array or object may have been escaped once too often.
    """
    bare = text.strip()
    if "null" in kinds and bare.lower() == "null":
        return "null"
    if "boolean" in kinds and bare.lower() in ("true", "false"):
        return bare.lower()
    if "number" in kinds and _NUMBER.fullmatch(bare):
        return bare
    if "integer" in kinds and _INTEGER.fullmatch(bare):
        return bare
    wanted = tuple(kind for name, kind in _KINDS.items() if name in kinds)
    if not wanted or not bare.startswith(("[", "{")):
        return None
    if isinstance(_decoded(bare), wanted):
        return bare
    unescaped = _decoded(f'"{bare}"') if '\\"' in bare else None
    return (
        unescaped
        if isinstance(unescaped, str) and isinstance(_decoded(unescaped), wanted)
        else None
    )


def as_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def as_said(text: str) -> str:
    """Return the text if it is JSON, otherwise the text as a JSON string."""
    return as_string(text) if _decoded(text) is _NO_JSON else text.strip()


def only_in_strings(text: str) -> str:
    """Return the characters of a text that can occur in JSON only within strings."""
    return "".join(one for one in text if one not in _OUTSIDE_STRINGS)


_NO_JSON = object()


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NO_JSON


def kinds_of(about: object, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """Return the types that a schema allows; empty if it does not say."""
    if not isinstance(about, Mapping) or depth > _DEEPEST:
        return set()
    kinds: set[str] = set()
    match about.get("type"):
        case str(kind):
            kinds.add(_ALIASES.get(kind, kind))
        case list(several):
            kinds.update(_ALIASES.get(kind, kind) for kind in several if isinstance(kind, str))
    values = [about["const"]] if "const" in about else about.get("enum")
    if not kinds and isinstance(values, list):
        kinds.update(map(_kind_of, values))
    for key in ("anyOf", "oneOf", "allOf"):
        for other in about.get(key) or ():
            kinds |= kinds_of(other, root, depth + 1)
    match about.get("$ref"):
        case str(target):
            kinds |= kinds_of(resolved(target, root), root, depth + 1)
    return kinds


def resolved(target: str, root: Mapping[str, Any]) -> object:
    """Return what a reference (`#/$defs/a`) leads to; None if it leads nowhere."""
    found: object = root
    for step in target.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
