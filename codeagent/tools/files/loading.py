"""Loaders of tool files: what they need, what they make of a file, and which built-in tools the
files narrow."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from codeagent.core.agents import AgentDefinition
from codeagent.core.dataclass import dataclass
from codeagent.core.ports import OutputStore
from codeagent.core.tool import OpenArgs, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.files.folders import ToolFile

if TYPE_CHECKING:
    from codeagent.core.recipes import RecipeInput, Values  # few runs have any
    from codeagent.tools.grouping import ToolGroup  # few files have one


@dataclass(frozen=True)
class Loaded:
    """The tools of a file or a package, and its problems."""

    tools: tuple[Tool[Any], ...] = ()
    """In the order of the file; none if there is an error."""
    problems: tuple[ToolProblem, ...] = ()
    agents: tuple[AgentDefinition, ...] = ()
    unnarrowed: tuple[str, ...] = ()
    """Built-in tools that the file would narrow if it had no error; they are refused until it is
    fixed."""
    groups: "tuple[ToolGroup, ...]" = ()
    """Groups of tools of other sources."""


class NarrowedTools:
    """Built-in tools that files narrow, and those that are refused because such a file is not in
    use."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        """By the name of a tool, why calls to it are refused."""
        self._files: dict[str, str] = {}
        """By the name of a tool, the file that narrows it, or did until it could no longer be
        loaded."""

    def take_in(
        self, loaded: Mapping[ToolFile, Loaded], away: Collection[str]
    ) -> list[ToolProblem]:
        """What is in use now; `away` are files, and folders of files, that are there but not
        trusted or not readable.

        Returns a problem for each tool that is refused.
        """
        problems = []
        self.refused = {}
        for found in loaded.values():
            errors = [problem for problem in found.problems if problem.level == "error"]
            for name in found.unnarrowed:
                self.refused.setdefault(
                    name, f"{name} is refused until {errors[0].where} is fixed: {errors[0].text}"
                )
                text = f"{name} is refused until this is fixed: the file narrows it"
                problems.append(ToolProblem(errors[0].where, text, partial=True))
        lost = {
            name: shown
            for name, shown in self._files.items()
            if any(shown == path or shown.startswith(f"{path.rstrip('/')}/") for path in away)
        }
        for name, shown in lost.items():
            self.refused.setdefault(
                name, f"{name} is refused until {shown}, which narrows it, is trusted and readable"
            )
            text = f"{name} is refused until this is trusted and readable: it narrows it"
            problems.append(ToolProblem(shown, text, partial=True))
        tools = ((file.shown, tool) for file, found in loaded.items() for tool in found.tools)
        self._files = lost | {
            tool.name: shown for shown, tool in tools if tool.in_place_of is not None
        }
        return problems

    def forget(self) -> None:
        """Refuse nothing because of files that were in use before."""
        self._files = {}


def narrowed(
    builtin: tuple[Tool[Any], ...], found: tuple[Tool[Any], ...]
) -> tuple[tuple[Tool[Any], ...], tuple[Tool[Any], ...]]:
    """Return the built-in tools, each replaced by the first that narrows it, and the other tools
    found."""
    narrower: dict[Tool[Any], Tool[Any]] = {}
    for tool in found:
        if tool.in_place_of is not None and tool.in_place_of in builtin:
            narrower.setdefault(tool.in_place_of, tool)
    rest = tuple(tool for tool in found if tool not in narrower.values())
    return tuple(narrower.get(tool, tool) for tool in builtin), rest


class DefinedTool(Tool[OpenArgs]):
    """A tool that a file makes of a command or of another tool: it has inputs, which its
    restrictions may contain, and can be made again for another agent."""

    @property
    @abstractmethod
    def inputs(self) -> "tuple[RecipeInput, ...]":
        """What it gets from the user who runs a recipe."""

    @abstractmethod
    def restricted_with(self, values: "Values") -> Mapping[str, tuple[str, ...]]:
        """Return its restrictions with these inputs, as `Tool.restricted`. Raises Denied."""

    @abstractmethod
    def rebound(self, builtins: Mapping[str, Tool[Any]], reads: ReadTracker) -> "DefinedTool":
        """Return it for another agent, which has these built-in tools and has read other files."""


class ToolLoader(Protocol):
    """Makes tools of one kind of file."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """`.py`, `.yaml` and `.yml`, or `.md` for agents."""

    def load(self, file: ToolFile) -> Loaded:
        """Blocks; runs in a thread. Never raises: a broken file is a problem and disables only
        itself."""


@dataclass(frozen=True)
class LoaderNeeds:
    """What the tools of files are made from, in one conversation."""

    outputs: OutputStore
    reads: ReadTracker
    builtins: Callable[[], Mapping[str, Tool[Any]]]
    """Returns the tools that a file may narrow, by name."""
    always_ask: str | None = None
    """As in the bash tool."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Those of the recipe whose step is running."""
    root: str = ""
    """The workspace, for inputs that are paths."""


@dataclass(frozen=True)
class FirstFileLoader:
    """A ToolLoader that is made, and whose modules are imported, only if there is a file for it."""

    suffixes: tuple[str, ...]
    make: Callable[[], ToolLoader]

    def load(self, file: ToolFile) -> Loaded:
        return self.make().load(file)


class LoaderBySuffix:
    """The loaders of several kinds of files as one, asked for only once there is a folder for
    them."""

    def __init__(self, loaders: Callable[[], Sequence[ToolLoader]]) -> None:
        self._asked = loaders

    @cached_property
    def _loaders(self) -> Sequence[ToolLoader]:
        return self._asked()

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(suffix for loader in self._loaders for suffix in loader.suffixes)

    def load(self, file: ToolFile) -> Loaded:
        found = (one for one in self._loaders if file.path.name.endswith(one.suffixes))
        return next(found).load(file)
