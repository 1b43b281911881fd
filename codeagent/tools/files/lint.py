"""Warns the author of a tool about weaknesses that do not stop it from working."""

from collections.abc import Iterator
from typing import Any

from codeagent.core.sanitize import first_few
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.builtin import NAMES
from codeagent.tools.jobs import JOB_TOOLS
from codeagent.tools.schema import tool_schema

_VAGUE_NAMES = """
    run do tool data x y f fn func function execute exec call handle process stuff thing helper util utils main test
    my_tool mytool action task command script foo bar
"""
_VAGUE = frozenset(_VAGUE_NAMES.split())
_FEWEST_WORDS = 4
_MOST_PARAMETERS = 20
_MOST_NAMED = 5


def lint(tool: Tool[Any], where: str) -> tuple[ToolProblem, ...]:
    """Return the warnings about a tool: about its name, then its description, then its parameters.

    `where` is `file:line`, or the name of a package.
    """
    return tuple(ToolProblem(where, text, "warning") for text in _weaknesses(tool))


def _weaknesses(tool: Tool[Any]) -> Iterator[str]:
    name, plain = tool.name, _plain(tool.name)
    if name.lower() in _VAGUE or len(plain) < 2:
        yield f"the name {name} does not say what the tool does; the model chooses by the name"
    if plain in map(_plain, (*NAMES, *(other.name for other in JOB_TOOLS))):
        yield f"the name {name} is easily confused with a built-in tool; choose another one"
    if len(tool.description.split()) < _FEWEST_WORDS:
        yield f"the description of {name} is not a sentence; say what it does, and when to use it"
    properties: dict[str, Any] = tool_schema(tool).get("properties", {})
    if len(properties) > _MOST_PARAMETERS:
        yield f"{name} has {len(properties)} parameters; models do worse with more than {_MOST_PARAMETERS}"
    silent = [
        key
        for key, node in properties.items()
        if not (isinstance(node, dict) and node.get("description"))
    ]
    if silent:
        yield f"{name} does not describe {_listed(silent)}; say what belongs there"
    unbounded = [key for key, node in properties.items() if _is_unbounded(node)]
    if unbounded:
        yield f"{_listed(unbounded)} of {name} can hold anything; a narrower type would catch wrong calls"


def _plain(name: str) -> str:
    """Return a name without case, - and _."""
    return name.lower().replace("-", "").replace("_", "")


def _is_unbounded(node: Any) -> bool:
    """Whether the schema allows any value, any object, or a list of these."""
    if not isinstance(node, dict):
        return node is True
    for union in ("anyOf", "oneOf"):
        if union in node:
            return any(_is_unbounded(option) for option in node[union])
    if any(key in node for key in ("enum", "const", "allOf", "$ref")):
        return False
    match node.get("type"):
        case None:
            return True
        case "object":
            named = "properties" in node or "patternProperties" in node
            return not named and _is_unbounded(node.get("additionalProperties", True))
        case "array":
            return "prefixItems" not in node and _is_unbounded(node.get("items", True))
        case _:
            return False


def _listed(names: list[str]) -> str:
    return first_few([*map(repr, names)], _MOST_NAMED)
