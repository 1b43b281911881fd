"""The tools of a conversation: built-in ones, those of files and packages, and those of toolsets
that are turned on."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

from codeagent.core.agents import AgentDefinition
from codeagent.core.allow import AllowList
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.notes import SHELL
from codeagent.core.policy import Rule
from codeagent.core.tool import Denied, NotFound, Tool, ToolDefinition, Unavailable
from codeagent.core.toolbox import Toolbox, ToolFacts, ToolProblem, TrustBook
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.folders import (
    FolderState,
    Loaded,
    NarrowedTools,
    ProjectTrust,
    ToolFile,
    ToolFolder,
    ToolLoader,
    narrowed,
)
from codeagent.tools.schema import Definitions
from codeagent.tools.toolsets import MOST_AT_ONCE, Toolsets

TOOL_PACKAGES = "codeagent.tools"
"""The group of entry points with which an installed package adds tools."""
_NAME = lazy_regex(r"[A-Za-z0-9_-]{1,64}")
_DATA = (".yaml", ".yml")
_AGENTS = ".md"
"""The end of the names of files with agents, beside those with tools."""
_SOURCE_SECONDS = 30.0
"""Seconds that a check of names waits for sources that are starting."""
NamedTool = TypeVar("NamedTool", bound="Named")
Companions = Callable[[Sequence[Tool[Any]]], Sequence[Tool[Any]]]
"""Returns built-in tools that are only useful together with the given ones, to be added after
them."""


class Named(Protocol):
    """What decides whether a tool can be used beside others."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def origin(self) -> str: ...


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
        if name in self._tools:
            return self._tools[name]
        said = (
            name
            if _NAME.fullmatch(name)
            else f"{name[:100]!r} is not 1 to 64 letters, digits, _ or -"
        )
        said = said if name.strip() else "the call has no name"
        raise NotFound(f"Tool not found: {said}{nearest_or_all(name, self._tools)}")

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(self._defined.values())

    async def check_names(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        if said := self.misnamed_in(listed):
            raise ConfigError(said)

    def misnamed_in(self, listed: Sequence[str], among: Collection[str] | None = None) -> str:
        """Say what is wrong with a list of names and patterns of tools, as far as is known now;
        empty if nothing is.

        `among` are the tools that are left if the list holds; None: all of which anything is known.
        """
        from codeagent.tools.misnamed import wrong_list  # few conversations have such a list

        return wrong_list(listed, self._listable(), self._there() if among is None else among)

    def _listable(self) -> list[str]:
        """Return the names of all tools that a list may name, whether they are here or not."""
        return self._there()

    def _there(self) -> list[str]:
        """Return the names of the tools that can be used, or turned on."""
        return sorted(self._tools)

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


class ToolCatalog(ToolRegistry):
    """The tools in use, by name; they change only in `look` and `refresh`.

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
        trust: TrustBook | None = None,
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
        self._folders = tuple(folders)
        self._loaders = tuple(loaders)
        self._packages = packages or Loaded()
        self._trust = ProjectTrust(self._folders, trust, accept=accept)
        self._elsewhere = frozenset(elsewhere)
        self._of_sets = frozenset(of_sets)
        self._off = frozenset(off)
        self._absent = absent
        self._companions = companions
        self._listed: str | None = None
        """The digest of the project's files at the last look."""
        self._loaded: dict[ToolFile, Loaded] = {}
        self._states: tuple[FolderState, ...] | None = None
        self._problems: tuple[ToolProblem, ...] = ()
        self._untrusted: tuple[str, ...] = ()
        self._narrowing = NarrowedTools()
        self._withheld: frozenset[str] = frozenset()
        """The names of built-in tools that a file's tool replaces, or that are refused while that
        is not in use."""
        self._described: tuple[AgentDefinition, ...] = ()
        """The agents of the files in use; the first of a name keeps it."""
        self.agents: tuple[AgentDefinition, ...] = ()
        """Those of them that can be started."""
        self._always = tuple(self)
        self._now = Toolbox(tuple(map(ToolFacts.of, self)))

    @property
    def always(self) -> tuple[Tool[Any], ...]:
        """The tools in use that are not from toolsets; only these are in the system prompt, which
        so stays the same."""
        return self._always

    @property
    def complete(self) -> bool:
        """Whether all tools are known: no file waits, nothing failed, and no source is starting."""
        failed = any(problem.level == "error" for problem in self._now.problems)
        return not self._now.untrusted and not failed and self.toolsets.names_known

    def has_loaded(self, content: bytes) -> bool:
        """Whether a file with exactly this content is in use, and so trusted."""
        return any(file.content == content for file in self._loaded)

    def get(self, name: str) -> Tool[Any]:
        """Return a tool. Raises Denied, Unavailable, or NotFound with the closest tools or how to
        turn this one on."""
        if name in self:
            return super().get(name)
        if name in self._narrowing.refused:
            raise Denied(self._narrowing.refused[name])
        if not self._allow.allows(name) and (name in self._known or name in self.toolsets.names()):
            raise Denied(
                f"{name} is not among the tools that may be used here: {', '.join(self._tools) or 'none'}"
            )
        if name in self._absent:
            raise Unavailable(self._absent[name])
        if (toolset := self.toolsets.where(name)) is not None:
            only = f', tools=["{name}"]' if len(toolset.tools) > MOST_AT_ONCE else ""
            call = f'toolset_use(name="{toolset.name}"{only})'
            raise NotFound(
                f"Tool not in use: {name} is in the toolset {toolset.name}; {call} turns it on"
            )
        return super().get(name)

    def load(self, file: ToolFile) -> Loaded:
        """Load a file's tools, in use or not. Raises ConfigError for a kind of file without
        tools."""
        for loader in self._loaders:
            if file.path.name.endswith(tuple(loader.suffixes)):
                return loader.load(file)
        known = ", ".join(suffix for loader in self._loaders for suffix in loader.suffixes)
        raise ConfigError(f"{file.shown} is not a tool file; their names end in {known}")

    def refusals(self, file: ToolFile, tools: Sequence[Named]) -> tuple[ToolProblem, ...]:
        """Return why tools of a file could not be used beside the built-in ones and those of the
        other files.

        Of files that are not trusted, only YAML is looked at: reading it runs nothing.
        """
        path = file.path.resolve()
        known = {other: loaded for other, loaded in self._loaded.items() if other.path != path}
        for other in self._unused_files():
            if other.path != path and other.path.suffix in _DATA:
                known[other] = self.load(other)
        builtin, rest = narrowed(
            self._builtin, tuple(tool for loaded in known.values() for tool in loaded.tools)
        )
        narrow = [getattr(tool, "in_place_of", None) for tool in tools]
        taken: tuple[Named, ...] = (
            *(one for one in builtin if one not in narrow),
            *self._packages.tools,
            *rest,
        )
        return _without_doubles(taken, tools, self._reserved)[1]

    def waiting(self) -> frozenset[str]:
        """Return the names of the tools of YAML files that wait for trust; reading them runs
        nothing."""
        files = (file for file in self._unused_files() if file.path.suffix in _DATA)
        return frozenset(tool.name for file in files for tool in self.load(file).tools)

    def unknown(self, rules: Collection[Rule]) -> tuple[str, ...]:
        """Return a line for each rule with an unknown tool; rules for hosts and MCP tools are not
        checked."""
        if not rules:
            return ()
        from codeagent.tools.misnamed import unknown_rules  # few conversations have rules

        here = [rule for rule in rules if not any(map(rule.covers, self._off))]
        return unknown_rules(here, self._names())

    def unlisted(self, to_read: tuple[str, ...] = (), *, certain: bool = False) -> tuple[str, ...]:
        """Return a line for each entry of the list of allowed tools, and of `to_read`, that is not
        a tool.

        An entry is left out if a source that has not listed its tools may have it or, if the answer
        has to be `certain`, a file that is not in use.
        """
        if not self._allow and not to_read:
            return ()
        from codeagent.tools.misnamed import MCP, unknown_entries  # few conversations have a list

        def may_come(entry: str) -> bool:
            return self.toolsets.may_have(entry) or (certain and self._may_be_in_a_file(entry))

        # The user's setting applies to all projects, which have different servers.
        here = tuple(name for name in to_read if not name.startswith(MCP))
        lists = {"the list of allowed tools": self._allow, "require_info": AllowList((here,))}
        names = self._listable()
        return tuple(
            line
            for where, listed in lists.items()
            for line in unknown_entries(where, listed, names, may_come)
        )

    def _may_be_in_a_file(self, entry: str) -> bool:
        """Whether a tool file that is not in use may have a tool that the name or pattern
        matches."""
        if any(
            problem.level == "error" and ".md" not in problem.where for problem in self._problems
        ):
            return True
        for file in self._unused_files():
            loaded = self.load(file) if file.path.suffix in _DATA else Loaded()
            if not loaded.tools or any(
                AllowList(((entry,),)).allows(tool.name) for tool in loaded.tools
            ):
                return True
        return False

    def _unused_files(self) -> tuple[ToolFile, ...]:
        """Return the tool files that are not in use."""
        files = (file for state in self._states or () for file in state.files)
        return tuple(
            file for file in files if file not in self._loaded and file.path.suffix != _AGENTS
        )

    def misnamed(self, rules: Collection[Rule], to_read: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return what `unknown` and `unlisted` return."""
        return (*self.unknown(rules), *self.unlisted(to_read))

    def _names(self) -> list[str]:
        return sorted({*self._elsewhere, *self._known, *self.toolsets.names()})

    def surely_misnamed_in(self, listed: Sequence[str]) -> str:
        """Say what is wrong with a list of tools, whatever the sources may bring that have not
        listed theirs."""
        certain = [name for name in listed if not self.toolsets.may_have(name)]
        some_may_come = len(certain) < len(listed)
        return self.misnamed_in(certain, (*self._there(), *certain) if some_may_come else None)

    def _listable(self) -> list[str]:
        return sorted({*self._names(), *self._of_sets, *self._tools})

    def _there(self) -> list[str]:
        return sorted({*self._known, *self.toolsets.names(), *self._tools})

    async def check_names(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        files = ", ".join(name for name in self._untrusted if not name.endswith(_AGENTS))
        waiting = f"not trusted as it is now: {files}; read it, then run codeagent tools trust"
        if listed and of_project and files:
            raise ConfigError(
                f"the tools that it lists depend on the project's tool files, {waiting}"
            )
        if self.misnamed_in(listed) and not self.toolsets.names_known:
            await self.toolsets.all_started(_SOURCE_SECONDS)
        if said := self.misnamed_in(listed):
            raise ConfigError(f"{said}; {waiting}" if files else said)

    @property
    def now(self) -> Toolbox:
        return replace(self._now, toolsets=self.toolsets.facts()) if self.toolsets else self._now

    def coming(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions after the next look if no file has changed, including what was
        just turned on."""
        if not self.toolsets.moved:
            return self.definitions()
        added, _ = _without_doubles(self._always, self._candidates()[0], self._reserved)
        definitions = self.toolsets.definitions
        known = self._defined if definitions is self._definitions else {}
        return tuple(known.get(tool) or definitions.of(tool) for tool in (*self._always, *added))

    def look(self) -> CatalogChange | None:
        """Update the tools with what changed since the last look; None if nothing did. Blocks while
        loading files."""
        states = self._read()
        if states is not None:
            self._take_in(states)
        return None if states is None and not self.toolsets.moved else self._use()

    async def refresh(self) -> CatalogChange | None:
        """As `look`, but load files in a thread."""
        states = self._read()
        if states is not None:
            await asyncio.to_thread(self._take_in, states)
        return None if states is None and not self.toolsets.moved else self._use()

    async def trust(self, seen: str | None = None) -> None:
        """Trust the project's files as the last look found them, also in later sessions.

        `seen`: the `Toolbox.digest` that the user was asked about. Raises ConfigError, also if they
        have changed since then, as the user has not seen the change.
        """
        digest = self._trust.digest([folder.read() for folder in self._folders])
        if digest != self._listed or (seen is not None and seen != (digest or "")):
            raise ConfigError(
                "the tool files changed after they were listed: look at them again; nothing was trusted"
            )
        await asyncio.to_thread(self._trust.give, digest)
        self._states = None

    async def distrust(self) -> None:
        """Stop trusting the project's files, including those that narrow a built-in tool. Raises
        ConfigError."""
        await asyncio.to_thread(self._trust.take_back)
        self._states = None
        self._narrowing.forget()

    def _read(self) -> tuple[FolderState, ...] | None:
        """Read the folders; None if nothing has changed."""
        states = tuple(folder.read() for folder in self._folders)
        before = self._states
        same = before is not None and all(
            new is old for new, old in zip(states, before, strict=True)
        )
        return None if same else states

    def _take_in(self, states: tuple[FolderState, ...]) -> None:
        files: list[ToolFile] = []
        untrusted: list[str] = []
        problems = [
            *self._packages.problems,
            *(problem for state in states for problem in state.problems),
        ]
        try:
            trusted = self._trust.holds(states)
        except ConfigError as error:
            trusted = False
            problems.append(
                ToolProblem(self._trust.of_project(states)[0].files[0].shown, str(error))
            )
        for folder, state in zip(self._folders, states, strict=True):
            wanted = folder.place == "user" or trusted
            files += state.files if wanted else ()
            untrusted += () if wanted else (file.shown for file in state.files)
        self._loaded = {file: self._loaded.get(file) or self.load(file) for file in files}
        problems += [problem for loaded in self._loaded.values() for problem in loaded.problems]
        away = {*untrusted, *(problem.where for state in states for problem in state.problems)}
        problems += self._narrowing.take_in(self._loaded, away)
        agents: dict[str, AgentDefinition] = {}
        for agent in (agent for loaded in self._loaded.values() for agent in loaded.agents):
            if (there := agents.setdefault(agent.name, agent)) is not agent:
                text = f"the name {agent.name} is taken by {there.where}, which is used"
                problems.append(ToolProblem(agent.where, text))
        self._described = tuple(agents.values())
        self._states, self._problems, self._untrusted = states, tuple(problems), tuple(untrusted)
        self._listed = self._trust.digest(states)

    def _allowed(self, tools: Iterable[Tool[Any]]) -> tuple[Tool[Any], ...]:
        return tuple(tool for tool in tools if self._allow.allows(tool.name))

    @property
    def _reserved(self) -> frozenset[str]:
        """Return the names that only built-in tools may have."""
        return (
            self._elsewhere - {tool.name for tool in self._builtin}
        ) | self._narrowing.refused.keys()

    def _candidates(self) -> tuple[dict[Tool[Any], str], tuple[ToolProblem, ...]]:
        """Return the tools of toolsets to use, as `Toolsets.candidates` does, without those that a
        file narrows."""
        found, problems = self.toolsets.candidates()
        away = {tool for tool in found if tool.source == "builtin" and tool.name in self._withheld}
        return {tool: source for tool, source in found.items() if tool not in away}, problems

    def _use(self) -> CatalogChange:
        before, old = self._tools, self._now
        self.toolsets.define(
            tuple(group for loaded in self._loaded.values() for group in loaded.groups)
        )
        self.toolsets.moved = False
        if self._definitions is not self.toolsets.definitions:
            self._definitions, self._defined = self.toolsets.definitions, {}
        found = (
            *self._packages.tools,
            *(tool for loaded in self._loaded.values() for tool in loaded.tools),
        )
        builtin, found = narrowed(self._builtin, found)
        instead = {tool.name for tool in found if tool.in_place_of is not None}
        self._withheld = frozenset(instead | self._narrowing.refused.keys())
        held = (tool for tool in self.toolsets.held if tool.name not in instead)
        kept, refused = _without_doubles((*builtin, *held), found, self._reserved)
        own = self._allowed(
            (*(tool for tool in builtin if tool.name not in self._narrowing.refused), *kept)
        )
        self._known = frozenset(tool.name for tool in (*self._builtin, *kept))
        misnamed = self._use_agents()
        companions = tuple(one for one in self._companions(own) if one.name not in self._withheld)
        self._always = (*own, *self._allowed(companions))
        self._known = frozenset(tool.name for tool in (*self._builtin, *kept, *companions))
        candidates, broken = self._candidates()
        added, doubled = _without_doubles(self._always, candidates, self._reserved)
        self._use_tools((*self._always, *added))
        self.toolsets.hold(
            {tool: candidates[tool] for tool in added}, [tool.name for tool in self._always]
        )
        problems = (
            *self._problems,
            *refused,
            *misnamed,
            *self.toolsets.problems(),
            *broken,
            *doubled,
        )
        facts = tuple(ToolFacts.of(tool, self.toolsets.held.get(tool, "")) for tool in self)
        self._now = Toolbox(facts, problems, self._untrusted, digest=self._listed or "")
        after = self._tools
        return CatalogChange(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(
                name for name in after if name in before and before[name] is not after[name]
            ),
            problems=tuple(problem for problem in problems if problem not in old.problems),
            untrusted=tuple(name for name in self._untrusted if name not in old.untrusted),
        )

    def misnamed_agents(self, agents: Iterable[AgentDefinition]) -> tuple[ToolProblem, ...]:
        """Return what is wrong with the agents' lists of tools.

        It is a warning while a tool may be in a file that waits for trust. A name that a source may
        still bring is checked when the agent starts.
        """
        level: Literal["error", "warning"] = "warning" if self._untrusted else "error"
        said = ((agent, self.surely_misnamed_in(agent.tools or ())) for agent in agents)
        return tuple(
            ToolProblem(f"{agent.where}: tools", wrong, level) for agent, wrong in said if wrong
        )

    def _use_agents(self) -> tuple[ToolProblem, ...]:
        """Use the agents whose lists of tools can be used, and return what is wrong with the
        others."""
        problems = self.misnamed_agents(self._described)
        out = {problem.where for problem in problems if problem.level == "error"}
        usable = tuple(agent for agent in self._described if f"{agent.where}: tools" not in out)
        if usable != self.agents:
            self.agents = usable
        return problems


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


def _without_doubles(
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
