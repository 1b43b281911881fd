"""The tools in use, by name, and the contract of the loaders that add user-defined ones."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Protocol

from codeagent.core.errors import ConfigError
from codeagent.core.notes import SHELL
from codeagent.core.tool import NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.schema import tool_schema

_SEEN_IN_ERRORS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "minLength", "maxLength"}
)
"""A call beyond a bound gets a result that names the bound; few calls come near one."""
_NO_NEWS: tuple[Any, ...] = ("", ".", [], 0)
"""False is 0."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_NAMES = 40


class ToolRegistry:
    """Tools in the order they were given; what the model sees stays the same from turn to turn."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        """Raises ConfigError for a bad name, or one that is taken."""
        self._tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            self._add(tool)
        self._definitions = tuple(ToolDefinition(tool.name, tool.description, _shown(tool)) for tool in self)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool[Any]:
        """Raises NotFound, which names the closest tools."""
        tool = self._tools.get(name)
        if tool is None:
            close = self.closest(name)
            hint = f"; did you mean {' or '.join(close)}?" if close else f". There are: {self._listed()}"
            raise NotFound(f"Tool not found: {_said(name)}{hint}")
        return tool

    def closest(self, name: str) -> tuple[str, ...]:
        """At most three similar names, the nearest first."""
        by_lower = {known.lower(): known for known in self._tools}
        return tuple(by_lower[lower] for lower in get_close_matches(name.lower()[:100], by_lower, n=3, cutoff=0.5))

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return self._definitions

    def _add(self, tool: Tool[Any]) -> None:
        if (why := refusal(tool, self._tools)) is not None:
            raise ConfigError(why)
        self._tools[tool.name] = tool

    def _listed(self) -> str:
        names = list(self._tools)
        return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def refusal(tool: Tool[Any], taken: Mapping[str, Tool[Any]]) -> str | None:
    """Why the tool cannot be used with those that are `taken`, by name, as a sentence; None if it can."""
    if _NAME.fullmatch(tool.name) is None:
        return f"the tool name {tool.name!r} of {tool.source} is not 1 to 64 letters, digits, _ or -"
    if tool.name == SHELL:
        return f"the tool name {SHELL} of {tool.source} is taken by the user's own commands"
    there = taken.get(tool.name)
    if there is None:
        return None
    if there.origin and tool.origin:
        return f"the tool {tool.name} of {tool.origin} is refused: {there.origin} has one of that name"
    if there.source == tool.source:
        return f"{tool.source} has two tools named {tool.name}"
    return f"the tool {tool.name} of {tool.source} is refused: {there.source} has one of that name"


def _said(name: str) -> str:
    """The name as the model wrote it, and what is wrong with it if no tool could have it."""
    if not name.strip():
        return "the call has no name"
    return name if _NAME.fullmatch(name) else f"{name[:100]!r} is not 1 to 64 letters, digits, _ or -"


def _shown(tool: Tool[Any]) -> dict[str, Any]:
    """The schema that the model gets; that of a user-defined tool is not changed."""
    schema = tool_schema(tool)
    return terse(schema) if tool.source == "builtin" else schema


def terse(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a built-in tool as the model gets it with every request: without bounds and empty defaults.

    Arguments are checked against the whole schema all the same.
    """
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SEEN_IN_ERRORS or (key == "additionalProperties" and value is False):
            continue
        if key == "default" and value in _NO_NEWS:
            continue
        plain[key] = {name: _below(one) for name, one in value.items()} if key == "properties" else _below(value)
    return plain


def _below(value: Any) -> Any:
    match value:
        case dict():
            return terse(value)
        case list():
            return [_below(item) for item in value]
        case _:
            return value


@dataclass(frozen=True)
class ToolFile:
    """One file of tools, as it was when it was read; exactly that content is loaded."""

    path: Path
    shown: str
    """Its path as users write it, for `file:line`."""
    content: bytes
    place: Literal["project", "user"]


@dataclass(frozen=True)
class Loaded:
    """The tools of a file or a package, and its problems."""

    tools: tuple[Tool[Any], ...] = ()
    """In the order of the file; none if there is an error."""
    problems: tuple[ToolProblem, ...] = ()


class ToolLoader(Protocol):
    """Makes tools of one kind of file."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """`.py`, or `.yaml` and `.yml`."""

    def load(self, file: ToolFile) -> Loaded:
        """Blocks; runs in a thread. Never raises: a broken file is a problem and disables only itself."""
