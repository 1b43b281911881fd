"""The tools of a conversation: built-in ones, those of files and packages, and those of toolsets
that are turned on."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Rule
from codeagent.core.tool import Denied, NotFound, Tool, ToolDefinition, ToolError, Unavailable
from codeagent.core.toolbox import Toolbox, ToolProblem, ToolSummary, TrustRecord
from codeagent.tools.folders import Loaded, ToolFile, ToolFolder, ToolLoader, narrowed
from codeagent.tools.loaded import LoadedFiles
from codeagent.tools.registry import Named, ToolRegistry, without_doubles
from codeagent.tools.toolsets import MOST_AT_ONCE, Toolsets

if TYPE_CHECKING:
    from codeagent.core.agents import AgentDefinition  # few conversations have agents
    from codeagent.tools.names import ToolNames  # few conversations have rules or lists

TOOL_PACKAGES = "codeagent.tools"
"""The group of entry points with which an installed package adds tools."""
Companions = Callable[[Sequence[Tool[Any]]], Sequence[Tool[Any]]]
"""Returns built-in tools that are only useful together with the given ones, to be added after
them."""


@dataclass(frozen=True)
class CatalogChange:
    """What changed since the last look at the files and the sources."""

    added: tuple[str, ...] = ()
    """Names of tools."""
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    """New ones only."""
    untrusted: tuple[str, ...] = ()
    """Files that now wait for trust."""


class ToolCatalog(ToolRegistry):
    """The tools in use, by name; they change only in `look` and `refresh`, with the files and the
    toolsets.

    Built-in tools come first, then packages, then files by folder and name, then the tools of
    toolsets in the order in which they were turned on, so a new tool does not change the earlier
    part of what the model is told.
    """

    def __init__(
        self,
        builtin: Sequence[Tool[Any]],
        folders: Sequence[ToolFolder] = (),
        loaders: Sequence[ToolLoader] = (),
        packages: Loaded | None = None,
        trust: TrustRecord | None = None,
        *,
        accept: bool = False,
        elsewhere: Collection[str] = (),
        of_sets: Collection[str] = (),
        off: Collection[str] = (),
        absent: Mapping[str, str] = MappingProxyType({}),
        companions: Companions = lambda tools: (),
        toolsets: Toolsets | None = None,
    ) -> None:
        """If `trust` is None, a project's files are never loaded. `accept`: they are trusted as the
        first look finds them, without asking, and only in this conversation. `elsewhere`: built-in
        tools of other conversations, so that rules may name them, and other tools may not have
        their names. `of_sets`: tools of built-in sets that may not be offered here; a list of tools
        may name them. `off`: those of extensions that are off, which rules may name too. `absent`:
        why some of those cannot be had in this conversation, which a call to one is told.
        `companions` is called with all tools that are always there. `toolsets` also knows which
        tools may be used at all. Raises ConfigError."""
        self.toolsets = Toolsets() if toolsets is None else toolsets
        self._allow = self.toolsets.allow
        super().__init__(self._allowed(builtin), self.toolsets.definitions)
        self._builtin = tuple(builtin)
        self._known = frozenset(tool.name for tool in builtin)
        """The names of the tools that do not belong to a toolset, allowed or not."""
        self.files = LoadedFiles(folders, loaders, packages or Loaded(), trust, accept=accept)
        """What files and packages bring, and which of the files are trusted."""
        self._elsewhere = frozenset(elsewhere)
        self._of_sets = frozenset(of_sets)
        self._off = frozenset(off)
        self._absent = absent
        self._companions = companions
        self._withheld: frozenset[str] = frozenset()
        """The names of built-in tools that a file's tool replaces, or that are refused while that
        is not in use."""
        self.agents: tuple[AgentDefinition, ...] = ()
        """Those of the files that can be started."""
        self._always = tuple(self)
        self._now = Toolbox(tuple(map(ToolSummary.of, self)))

    @property
    def always(self) -> tuple[Tool[Any], ...]:
        """The tools in use that are not from toolsets; only these are in the system prompt, which
        so stays the same."""
        return self._always

    @property
    def complete(self) -> bool:
        """Whether all tools are known: no file waits, nothing failed, and no source is starting."""
        failed = any(problem.level == "error" for problem in self._now.problems)
        return not self._now.untrusted and not failed and self.toolsets.sources.names_known

    def _absence(self, name: str) -> ToolError:
        """Return Denied, Unavailable, or NotFound with the closest tools or how to turn this one
        on."""
        if name in self.files.refused:
            return Denied(self.files.refused[name])
        if not self._allow.allows(name) and (
            name in self._known or name in self.toolsets.sources.tool_names()
        ):
            return Denied(
                f"{name} is not among the tools that may be used here: {', '.join(self._tools) or 'none'}"
            )
        if name in self._absent:
            return Unavailable(self._absent[name])
        if (toolset := self.toolsets.available.where(name)) is not None:
            only = f', tools=["{name}"]' if len(toolset.tools) > MOST_AT_ONCE else ""
            call = f'toolset_use(name="{toolset.name}"{only})'
            return NotFound(
                f"Tool not in use: {name} is in the toolset {toolset.name}; {call} turns it on"
            )
        return super()._absence(name)

    def refusals(self, file: ToolFile, tools: Sequence[Named]) -> tuple[ToolProblem, ...]:
        """Return why tools of a file could not be used beside the built-in ones and those of the
        other files.

        Of files that are not trusted, only YAML is looked at: reading it runs nothing.
        """
        builtin, rest = narrowed(self._builtin, self.files.without(file.path.resolve()))
        narrow = [getattr(tool, "in_place_of", None) for tool in tools]
        taken: tuple[Named, ...] = (
            *(one for one in builtin if one not in narrow),
            *self.files.packages.tools,
            *rest,
        )
        return without_doubles(taken, tools, self._reserved)[1]

    @cached_property
    def names(self) -> "ToolNames":
        """What rules and lists may name, and what is said of the names in them that no tool has."""
        from codeagent.tools.names import ToolNames  # few conversations have rules or lists

        return ToolNames(
            self,
            lambda: self._known,
            self.toolsets,
            self.files,
            elsewhere=self._elsewhere,
            of_sets=self._of_sets,
            off=self._off,
        )

    def unknown(self, rules: Collection[Rule]) -> tuple[str, ...]:
        """Return what `ToolNames.unknown` returns; without rules, it is not made."""
        return self.names.unknown(rules) if rules else ()

    def unlisted(self, to_read: tuple[str, ...] = (), *, certain: bool = False) -> tuple[str, ...]:
        """Return what `ToolNames.unlisted` returns; without lists, it is not made."""
        return self.names.unlisted(to_read, certain=certain) if self._allow or to_read else ()

    async def check_names(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        await self.names.check(listed, of_project=of_project)

    @property
    def now(self) -> Toolbox:
        return (
            replace(self._now, toolsets=self.toolsets.facts())
            if self.toolsets.sources
            else self._now
        )

    def coming(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions after the next look if no file has changed, including what was
        just turned on."""
        if not self.toolsets.moved:
            return self.definitions()
        added, _ = without_doubles(self._always, self._candidates()[0], self._reserved)
        definitions = self.toolsets.definitions
        known = self._defined if definitions is self._definitions else {}
        return tuple(known.get(tool) or definitions.of(tool) for tool in (*self._always, *added))

    def look(self) -> CatalogChange | None:
        """Update the tools with what changed since the last look; None if nothing did. Blocks while
        loading files."""
        states = self.files.look()
        if states is not None:
            self.files.take_in(states)
        return None if states is None and not self.toolsets.moved else self._use()

    async def refresh(self) -> CatalogChange | None:
        """As `look`, but load files in a thread."""
        states = self.files.look()
        if states is not None:
            await asyncio.to_thread(self.files.take_in, states)
        return None if states is None and not self.toolsets.moved else self._use()

    def _allowed(self, tools: Iterable[Tool[Any]]) -> tuple[Tool[Any], ...]:
        if not self._allow:
            return tuple(tools)
        return tuple(tool for tool in tools if self._allow.allows(tool.name))

    @property
    def _reserved(self) -> frozenset[str]:
        """Return the names that only built-in tools may have."""
        return (self._elsewhere - {tool.name for tool in self._builtin}) | self.files.refused.keys()

    def _candidates(self) -> tuple[dict[Tool[Any], str], tuple[ToolProblem, ...]]:
        """Return the tools of toolsets to use, as `Toolsets.candidates` does, without those that a
        file narrows."""
        found, problems = self.toolsets.candidates()
        away = {tool for tool in found if tool.source == "builtin" and tool.name in self._withheld}
        return {tool: source for tool, source in found.items() if tool not in away}, problems

    def _use(self) -> CatalogChange:
        before = self._tools
        old = self._now
        self.toolsets.available.define(self.files.groups)
        self.toolsets.moved = False
        self._define_within(self.toolsets.definitions)
        builtin, found = narrowed(self._builtin, self.files.tools)
        instead = {tool.name for tool in found if tool.in_place_of is not None}
        unsafe = self.files.refused.keys()
        self._withheld = frozenset(instead | unsafe)
        held = (tool for tool in self.toolsets.held if tool.name not in instead)
        kept, refused = without_doubles((*builtin, *held), found, self._reserved)
        own = self._allowed((*(tool for tool in builtin if tool.name not in unsafe), *kept))
        self._known = frozenset(tool.name for tool in (*self._builtin, *kept))
        misnamed = self._use_agents()
        companions = tuple(one for one in self._companions(own) if one.name not in self._withheld)
        self._always = (*own, *self._allowed(companions))
        self._known = frozenset(tool.name for tool in (*self._builtin, *kept, *companions))
        candidates, broken = self._candidates()
        added, doubled = without_doubles(self._always, candidates, self._reserved)
        self._use_tools((*self._always, *added))
        self.toolsets.hold(
            {tool: candidates[tool] for tool in added}, [tool.name for tool in self._always]
        )
        problems = (
            *self.files.problems,
            *refused,
            *misnamed,
            *self.toolsets.problems(),
            *broken,
            *doubled,
        )
        held_from = self.toolsets.held
        facts = tuple(map(ToolSummary.of, self, [held_from.get(tool, "") for tool in self]))
        self._now = Toolbox(facts, problems, self.files.untrusted, digest=self.files.digest or "")
        after = self._tools
        return CatalogChange(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(
                name for name in after if name in before and before[name] is not after[name]
            ),
            problems=tuple(problem for problem in problems if problem not in old.problems),
            untrusted=tuple(name for name in self.files.untrusted if name not in old.untrusted),
        )

    def _use_agents(self) -> tuple[ToolProblem, ...]:
        """Use the agents whose lists of tools can be used, and return what is wrong with the
        others."""
        described = self.files.agents
        problems = self.names.misnamed_agents(described) if described else ()
        out = {problem.where for problem in problems if problem.level == "error"}
        usable = tuple(agent for agent in described if f"{agent.where}: tools" not in out)
        if usable != self.agents:
            self.agents = usable
        return problems
