"""The tool files of a conversation: what its folders hold, which of it is trusted, and what that
brings."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.core.errors import ConfigError
from codeagent.core.patterns import AllowList
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem, TrustRecord
from codeagent.tools.folders import (
    FolderState,
    Loaded,
    NarrowedTools,
    ProjectTrust,
    ToolFile,
    ToolFolder,
    ToolLoader,
)

if TYPE_CHECKING:
    from codeagent.core.agents import AgentDefinition  # few conversations have agents
    from codeagent.tools.grouping import ToolGroup  # few files have one

_DATA = (".yaml", ".yml")
"""The ends of the names of files that can be read without running anything."""
AGENTS = ".md"
"""The end of the names of files with agents, beside those with tools."""


class LoadedFiles:
    """Loads the files that are trusted, and knows what they and the installed packages bring; that
    changes only in `take_in`."""

    def __init__(
        self,
        folders: Sequence[ToolFolder],
        loaders: Sequence[ToolLoader],
        packages: Loaded,
        trust: TrustRecord | None,
        *,
        accept: bool,
    ) -> None:
        """If `trust` is None, a project's files are never loaded. `accept`: they are trusted as the
        first look finds them, without asking, and only in this conversation."""
        self._folders = tuple(folders)
        self._loaders = tuple(loaders)
        self.packages = packages
        """What the installed packages bring."""
        self._trust = ProjectTrust(self._folders, trust, accept=accept)
        self._states: tuple[FolderState, ...] | None = None
        self._loaded: dict[ToolFile, Loaded] = {}
        self._narrowing = NarrowedTools()
        self.problems: tuple[ToolProblem, ...] = ()
        """Those of packages, folders and files, and of names that several agents have."""
        self.untrusted: tuple[str, ...] = ()
        """The files of the project that are not loaded as they are not trusted as they are now."""
        self.digest: str | None = None
        """The digest of the project's files at the last look; None if there are none."""
        self.agents: tuple[AgentDefinition, ...] = ()
        """The agents of the files in use; the first of a name keeps it."""

    @property
    def tools(self) -> tuple[Tool[Any], ...]:
        """The tools of the packages, then those of the files by folder and name."""
        of_files = (tool for loaded in self._loaded.values() for tool in loaded.tools)
        return (*self.packages.tools, *of_files)

    @property
    def groups(self) -> "tuple[ToolGroup, ...]":
        """The groups of tools of sources that the files define."""
        return tuple(group for loaded in self._loaded.values() for group in loaded.groups)

    @property
    def refused(self) -> Mapping[str, str]:
        """By the name of a built-in tool, why calls to it are refused: the file that narrows it is
        not in use."""
        return self._narrowing.refused

    def look(self) -> tuple[FolderState, ...] | None:
        """Read the folders; None if nothing has changed since `take_in`."""
        states = tuple([folder.read() for folder in self._folders])
        before = self._states
        same = before is not None and all(
            new is old for new, old in zip(states, before, strict=True)
        )
        return None if same else states

    def take_in(self, states: tuple[FolderState, ...]) -> None:
        """Load what is trusted of these states of the folders, as `look` returned them. Blocks."""
        files: list[ToolFile] = []
        untrusted: list[str] = []
        problems = [
            *self.packages.problems,
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
        self.agents = tuple(agents.values())
        self._states = states
        self.problems = tuple(problems)
        self.untrusted = tuple(untrusted)
        self.digest = self._trust.digest(states)

    def load(self, file: ToolFile) -> Loaded:
        """Load a file's tools, in use or not. Raises ConfigError for a kind of file without
        tools."""
        for loader in self._loaders:
            if file.path.name.endswith(tuple(loader.suffixes)):
                return loader.load(file)
        known = ", ".join(suffix for loader in self._loaders for suffix in loader.suffixes)
        raise ConfigError(f"{file.shown} is not a tool file; their names end in {known}")

    def has_loaded(self, content: bytes) -> bool:
        """Whether a file with exactly this content is in use, and so trusted."""
        return any(file.content == content for file in self._loaded)

    def without(self, path: Path) -> tuple[Tool[Any], ...]:
        """Return the tools of all files but this one, trusted or not; of files that are not
        trusted, only YAML is looked at: reading it runs nothing."""
        known = {other: loaded for other, loaded in self._loaded.items() if other.path != path}
        for other in self._unused():
            if other.path != path and other.path.suffix in _DATA:
                known[other] = self.load(other)
        return tuple(tool for loaded in known.values() for tool in loaded.tools)

    def waiting(self) -> frozenset[str]:
        """Return the names of the tools of YAML files that wait for trust; reading them runs
        nothing."""
        files = (file for file in self._unused() if file.path.suffix in _DATA)
        return frozenset(tool.name for file in files for tool in self.load(file).tools)

    def may_have(self, name: str) -> bool:
        """Whether a tool file that is not in use may have a tool that the name or pattern
        matches."""
        if any(
            problem.level == "error" and AGENTS not in problem.where for problem in self.problems
        ):
            return True
        for file in self._unused():
            loaded = self.load(file) if file.path.suffix in _DATA else Loaded()
            if not loaded.tools or any(
                AllowList(((name,),)).allows(tool.name) for tool in loaded.tools
            ):
                return True
        return False

    def _unused(self) -> tuple[ToolFile, ...]:
        """Return the tool files that are not in use."""
        files = (file for state in self._states or () for file in state.files)
        return tuple(
            file for file in files if file not in self._loaded and file.path.suffix != AGENTS
        )

    async def trust(self, seen: str | None = None) -> None:
        """Trust the project's files as the last look found them, also in later sessions.

        `seen`: the `Toolbox.digest` that the user was asked about. Raises ConfigError, also if they
        have changed since then, as the user has not seen the change.
        """
        digest = self._trust.digest([folder.read() for folder in self._folders])
        if digest != self.digest or (seen is not None and seen != (digest or "")):
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
