"""Tools by name: which can be used together, and how they are defined for the model."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.notes import SHELL
from codeagent.core.tool import NotFound, Tool, ToolDefinition, ToolError
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.schema import Definitions

_NAME = lazy_regex(r"[A-Za-z0-9_-]{1,64}")
NamedTool = TypeVar("NamedTool", bound="Named")


class Named(Protocol):
    """What decides whether a tool can be used beside others."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def origin(self) -> str: ...


class ToolRegistry:
    """Tools in the order they were given; what the model sees stays the same from turn to turn."""

    def __init__(self, tools: Iterable[Tool[Any]], definitions: Definitions | None = None) -> None:
        """`definitions`: how they are bounded; None: as for a model with the usual window. Raises
        ConfigError for a name that is invalid or taken.
        """
        self._tools: dict[str, Tool[Any]] = {}
        self._definitions = Definitions() if definitions is None else definitions
        self._defined: dict[Tool[Any], ToolDefinition] = {}
        self._use_tools(tools)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool[Any]:
        """Return a tool. Raises NotFound, which names the closest tools."""
        if (tool := self._tools.get(name)) is not None:
            return tool
        raise self._absence(name)

    def _absence(self, name: str) -> ToolError:
        """Return the error for a name that no tool has."""
        said = (
            name
            if _NAME.fullmatch(name)
            else f"{name[:100]!r} is not 1 to 64 letters, digits, _ or -"
        )
        said = said if name.strip() else "the call has no name"
        return NotFound(f"Tool not found: {said}{nearest_or_all(name, self._tools)}")

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(self._defined.values())

    async def check_names(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        from codeagent.tools.misnamed import wrong_list  # few conversations have such a list

        if said := wrong_list(listed, sorted(self._tools), sorted(self._tools)):
            raise ConfigError(said)

    def _define_within(self, definitions: Definitions) -> None:
        """Bound the definitions in this way when tools are used next."""
        if self._definitions is not definitions:
            self._definitions = definitions
            self._defined = {}

    def _use_tools(self, tools: Iterable[Tool[Any]]) -> None:
        """Use these tools. Raises ConfigError without changing anything."""
        taken: dict[str, Tool[Any]] = {}
        for tool in tools:
            if (why := _refusal(tool, taken)) is not None:
                raise ConfigError(why)
            taken[tool.name] = tool
        self._defined = {
            tool: self._defined.get(tool) or self._definitions.of(tool) for tool in taken.values()
        }
        self._tools = taken


def _refusal(tool: Named, taken: Mapping[str, Named]) -> str | None:
    """Return why the tool cannot be used together with those in `taken`, by name, as a sentence;
    None if it can."""
    if _NAME.fullmatch(tool.name) is None:
        return (
            f"the tool name {tool.name!r} of {tool.source} is not 1 to 64 letters, digits, _ or -"
        )
    if tool.name == SHELL:
        return f"the tool name {SHELL} of {tool.source} is taken by the user's own commands"
    there = taken.get(tool.name)
    if there is None:
        return None
    if there.origin and tool.origin:
        return (
            f"the tool {tool.name} of {tool.origin} is refused: {there.origin} has one of that name"
        )
    if there.source == tool.source:
        return f"{tool.source} has two tools named {tool.name}"
    return f"the tool {tool.name} of {tool.source} is refused: {there.source} has one of that name"


def without_doubles(
    first: Iterable[Named], found: Iterable[NamedTool], reserved: Collection[str]
) -> tuple[tuple[NamedTool, ...], tuple[ToolProblem, ...]]:
    """Return the usable tools, and why others cannot be used: the first tool of a name keeps it."""
    taken: dict[str, Named] = {tool.name: tool for tool in first}
    kept: list[NamedTool] = []
    problems: list[ToolProblem] = []
    for tool in found:
        why = _refusal(tool, taken)
        in_place = getattr(tool, "in_place_of", None) is not None
        if why is None and tool.name in reserved and tool.source != "builtin" and not in_place:
            why = f"the tool {tool.name} of {tool.origin or tool.source} is refused: a built-in tool has that name"
        if why is not None:
            problems.append(ToolProblem(tool.origin or tool.source, why, partial=True))
            continue
        taken[tool.name] = tool
        kept.append(tool)
    return tuple(kept), tuple(problems)
