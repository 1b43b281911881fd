"""The tools of one conversation: what is built in, and what people's files and packages add, as it is now."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from codeagent.core.errors import ConfigError
from codeagent.core.policy import Rule
from codeagent.core.tool import Tool, ToolDefinition
from codeagent.core.toolbox import Toolbox, ToolFacts, ToolProblem, TrustBook
from codeagent.tools.registry import ToolRegistry, refusal
from codeagent.tools.source import Loaded, ToolFile, ToolLoader
from codeagent.tools.tool_folder import FolderState, ToolFolder

_MCP = "mcp__"
"""How the names of tools begin that a server brings once it is connected."""
Companions = Callable[[Sequence[Tool[Any]]], Sequence[Tool[Any]]]
"""The built-in tools that are of use only beside these; they come last."""


@dataclass(frozen=True)
class Change:
    """What a look at the files brought."""

    added: tuple[str, ...] = ()
    """Names of tools."""
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    """Those that were not there before."""
    untrusted: tuple[str, ...] = ()
    """Files that wait for trust and did not before."""


class ToolCatalog:
    """The set of tools in use, by name; it changes only in `refresh`, never in between.

    Built-in tools come first, then packages, then files by folder and name: a further tool changes nothing of what
    the model is told before its place.
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
        companions: Companions = lambda tools: (),
    ) -> None:
        """`trust` None: nothing of a project is loaded. `accept`: the project's files are taken as the first look
        finds them, without being asked about, and not beyond this conversation. `elsewhere`: built-in tools that
        other conversations have, so that a rule may name them. `companions` are asked with all others. Raises
        ConfigError."""
        self._builtin = tuple(builtin)
        self._folders = tuple(folders)
        self._loaders = tuple(loaders)
        self._packages = packages or Loaded()
        self._trust = trust
        self._accept_first = accept
        self._elsewhere = frozenset(elsewhere)
        self._companions = companions
        self._accepted: str | None = None
        self._loaded: dict[ToolFile, Loaded] = {}
        self._states: tuple[FolderState, ...] | None = None
        self._registry = ToolRegistry(self._builtin)
        self._now = Toolbox(tuple(_facts(tool) for tool in self._builtin))

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._registry)

    def __contains__(self, name: object) -> bool:
        return name in self._registry

    def get(self, name: str) -> Tool[Any]:
        """Raises NotFound, which names the closest tools."""
        return self._registry.get(name)

    def closest(self, name: str) -> tuple[str, ...]:
        """Names like this one, the nearest first; at most three."""
        return self._registry.closest(name)

    @property
    def complete(self) -> bool:
        """No file waits for trust, and none failed to load: there are no other tools than these."""
        return not self._now.untrusted and all(problem.level != "error" for problem in self._now.problems)

    def has_loaded(self, content: bytes) -> bool:
        """A file with exactly this content is in use, so somebody trusts it."""
        return any(file.content == content for file in self._loaded)

    def unknown(self, rules: Iterable[Rule]) -> tuple[str, ...]:
        """What is wrong with those that name no tool, one line each; tools of MCP servers are not looked for."""
        names = {*self._elsewhere, *(tool.name for tool in self)}
        return tuple(
            f"the rule {rule} names no tool{_meant(rule, names)}"
            for rule in rules
            if not rule.tool.startswith(_MCP) and not any(map(rule.covers, names))
        )

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return self._registry.definitions()

    @property
    def now(self) -> Toolbox:
        return self._now

    def look(self) -> Change | None:
        """Take in what changed since the last time; None where nothing did. Blocks while files are loaded."""
        states = self._read()
        return None if states is None else self._take_in(states)

    async def refresh(self) -> Change | None:
        """As `look`, with the loading in a thread."""
        states = self._read()
        return None if states is None else await asyncio.to_thread(self._take_in, states)

    async def trust(self) -> None:
        """Load the project's files as they are now; holds for later sessions, too. Raises ConfigError."""
        if self._trust is None:
            raise ConfigError("trust cannot be kept here, so nothing of the project is loaded")
        for digest in self._project_digests():
            await asyncio.to_thread(self._trust.trust, digest)
        self._states = None

    async def distrust(self) -> None:
        """Load nothing of the project's. Raises ConfigError."""
        self._accepted, self._accept_first = None, False
        if self._trust is not None:
            await asyncio.to_thread(self._trust.forget)
        self._states = None

    def _read(self) -> tuple[FolderState, ...] | None:
        """What the folders hold; None where that is what it was."""
        states = tuple(folder.read() for folder in self._folders)
        before = self._states
        same = before is not None and all(new is old for new, old in zip(states, before, strict=True))
        return None if same else states

    def _project_digests(self) -> list[str]:
        states = [folder.read() for folder in self._folders if folder.place == "project"]
        return [state.digest for state in states if state.files]

    def _take_in(self, states: tuple[FolderState, ...]) -> Change:
        files: list[ToolFile] = []
        untrusted: list[str] = []
        problems = [*self._packages.problems, *(problem for state in states for problem in state.problems)]
        for folder, state in zip(self._folders, states, strict=True):
            try:
                wanted = folder.place == "user" or not state.files or self._is_trusted(state)
            except ConfigError as error:
                wanted = False
                problems.append(ToolProblem(state.files[0].shown, str(error)))
            files += state.files if wanted else ()
            untrusted += () if wanted else (file.shown for file in state.files)
        self._loaded = {file: self._loaded.get(file) or self._load(file) for file in files}
        problems += [problem for loaded in self._loaded.values() for problem in loaded.problems]
        self._states = states
        return self._use(problems, tuple(untrusted))

    def _is_trusted(self, state: FolderState) -> bool:
        digest = state.digest
        if self._accept_first:
            self._accept_first, self._accepted = False, digest
        return digest == self._accepted or (self._trust is not None and self._trust.trusts(digest))

    def _load(self, file: ToolFile) -> Loaded:
        loader = next(loader for loader in self._loaders if file.path.name.endswith(tuple(loader.suffixes)))
        return loader.load(file)

    def _use(self, problems: list[ToolProblem], untrusted: tuple[str, ...]) -> Change:
        before, old = {tool.name: tool for tool in self._registry}, self._now
        found = (*self._packages.tools, *(tool for loaded in self._loaded.values() for tool in loaded.tools))
        kept, refused = _without_doubles(self._builtin, found)
        tools = (*self._builtin, *kept)
        self._registry = ToolRegistry((*tools, *self._companions(tools)))
        problems = [*problems, *refused]
        self._now = Toolbox(tuple(_facts(tool) for tool in self._registry), tuple(problems), untrusted)
        after = {tool.name: tool for tool in self._registry}
        return Change(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(name for name in after if name in before and before[name] is not after[name]),
            problems=tuple(problem for problem in problems if problem not in old.problems),
            untrusted=tuple(name for name in untrusted if name not in old.untrusted),
        )


def _meant(rule: Rule, names: Collection[str]) -> str:
    near = get_close_matches(rule.tool.lower(), sorted(names), n=1, cutoff=0.5)
    return f"; did you mean {replace(rule, tool=near[0])}?" if near else f"; there are {', '.join(sorted(names))}"


def _without_doubles(
    builtin: Iterable[Tool[Any]], found: Iterable[Tool[Any]]
) -> tuple[tuple[Tool[Any], ...], tuple[ToolProblem, ...]]:
    """The tools that may be used, and why others may not: the first of a name has it."""
    taken = {tool.name: tool for tool in builtin}
    kept: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    for tool in found:
        if (why := refusal(tool, taken)) is not None:
            problems.append(ToolProblem(tool.origin or tool.source, why))
            continue
        taken[tool.name] = tool
        kept.append(tool)
    return tuple(kept), tuple(problems)


def _facts(tool: Tool[Any]) -> ToolFacts:
    return ToolFacts(
        name=tool.name,
        label=tool.label,
        source=tool.source,
        origin=tool.origin,
        description=tool.description,
        permission=tool.permission,
        mode=tool.mode,
        sandboxed=tool.sandboxed,
    )
