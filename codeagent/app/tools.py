"""The tools of a conversation, built in and added, and the system prompt that describes them."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from codeagent.agent.environment import AgentState
from codeagent.agent.parts import AgentServices
from codeagent.agent.prompt import MakePrompt, PromptEnvironment, system_prompt
from codeagent.config.extensions import Extensions, all_extensions, may_bring
from codeagent.config.kept import TrustFile
from codeagent.config.local_environment import LocalEnvironment, agrees_to
from codeagent.config.settings import Settings
from codeagent.core.changes import CommitRefused, Committer
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension, FileKind, Reference, resolved
from codeagent.core.memory import OutputStore, Scratchpad
from codeagent.core.patterns import AllowList
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import Sandbox, SandboxKind
from codeagent.core.sanitize import visible
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.disk.repository import OutsideGit
from codeagent.session.fold import History
from codeagent.session.memory import NAME, ScratchpadFile, SessionMemory, project_scratchpad
from codeagent.session.store import SessionStore
from codeagent.session.transcript import ToolDetails, tools_read_about
from codeagent.tools.builtin import NAMES
from codeagent.tools.builtin.ask_user import AskUser
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.git_commit import GitCommit
from codeagent.tools.builtin.info import Info
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.output_read import OutputRead
from codeagent.tools.builtin.python import Python
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.scratchpad import ScratchpadTool
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.search_memory import SearchMemory
from codeagent.tools.builtin.todo import TodoTool
from codeagent.tools.builtin.write import Write
from codeagent.tools.catalog import TOOL_PACKAGES, ToolCatalog
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.extension import ExtensionContext
from codeagent.tools.folders import FirstFileLoader, Loaded, LoaderNeeds, ToolFolder, ToolLoader
from codeagent.tools.jobs import JOB_TOOLS, job_tools
from codeagent.tools.toolsets import Toolsets
from codeagent.workspace.skills import Instructions, SkillFolders, load_instructions, open_skills

if TYPE_CHECKING:  # for whoever runs or lists recipes, has MCP servers or packages, or agents that write to each other
    from codeagent.tools.source import BuiltInSet, ToolsByName


_ON_HOST = "without a sandbox this runs directly on your machine"
_Owner = Literal["project", "user"]
_ABSENT = {
    name: f"no sandbox is available, so {name} is disabled; nothing was run"
    for name in (Bash.name, Python.name)
}
"""The tools that a conversation would have with a sandbox, and why it does not."""


@dataclass(frozen=True)
class ToolDependencies:
    """What the tools of one conversation are made from."""

    settings: Settings
    local: LocalEnvironment
    kind: SandboxKind | None
    workspace: Workspace
    outputs: OutputStore
    reads: ReadTracker
    services: AgentServices = field(default_factory=AgentServices)
    """Of the conversation's agent."""
    state: AgentState = field(default_factory=AgentState)
    """As above; `scratchpad` is made from the session."""
    session: tuple[str, Path] | None = None
    """Id and folder; None if the tools are only looked at."""
    sandbox: Sandbox | None = None
    """None if there is none, or if the tools are only looked at."""
    read_about: set[str] = field(default_factory=set)
    """The names of the tools whose documentation the model has read in the session."""
    project: Path | None = None
    """The workspace whose notes and past sessions are used, if the tools work in a copy of it."""

    @cached_property
    def extensions(self) -> Extensions:
        """Blocks on small files. Raises ConfigError."""
        return all_extensions().without(self.settings.extensions.off)

    @cached_property
    def context(self) -> ExtensionContext:
        """What extensions make their tools from."""
        local = self.local
        return ExtensionContext(
            self.settings,
            self.workspace,
            self.reads,
            local.environment,
            local.secret,
            redactor=local.redactor,
            own_folder=local.own_folder,
            trust_project=local.trust_project,
            parts=self.services.parts,
            built_in=self.built_in,
        )

    @property
    def to_read(self) -> tuple[str, ...]:
        """The names and patterns of the tools whose documentation has to be read first."""
        named = self.settings.toolsets.require_info
        return () if isinstance(named, bool) else named

    def must_read(self, tool: Tool[Any], *, of_a_set: bool = False) -> bool:
        """Whether the model may call the tool only once it has read its documentation."""
        if tool.name == Info.name:
            return False
        named = self.settings.toolsets.require_info
        if tool.require_info or isinstance(named, bool):
            return tool.require_info or (of_a_set and named is True)
        return any(map(AllowList((named,)).allows, (tool.name, tool.narrows)))

    def exposed(self) -> str:
        return "" if self.sandbox is None else self.sandbox.exposed

    @cached_property
    def skills(self) -> SkillFolders:
        """The user's and the project's skills. Blocks on small files."""
        own = self.local.own_folder
        return open_skills(self.workspace, None if own is None else own / "skills")

    @cached_property
    def instructions(self) -> Instructions:
        """The workspace's instructions, as they are at the start. Blocks on a small file."""
        return load_instructions(self.workspace)

    @cached_property
    def scratchpad(self) -> Scratchpad:
        """The scratchpad of the session."""
        folder = self.local.state_dir / "none" if self.session is None else self.session[1]
        return ScratchpadFile(folder / NAME, self.local.redactor)

    def catalog(
        self, toolsets: Toolsets, sets: Callable[[], Sequence["BuiltInSet"]]
    ) -> ToolCatalog:
        """Make the catalog of all tools, with those of files after its first look.

        `sets` returns the built-in sets, offered or not, as files may narrow their tools. Blocks on
        small files. Raises ConfigError.
        """
        off = frozenset(_tools_of_sets(self.extensions.off))
        local, root, built_in = self.local, self.workspace.root, self.built_in()
        info = Info(lambda: catalog, self.skills, self.read_about)

        def narrowable() -> "ToolsByName":
            from codeagent.tools.source import ToolsByName  # only if there is a tool file

            return ToolsByName((*built_in, info, *_switches(self.extensions.on, toolsets)), sets())

        packages = self._packages()
        trust = None if local.config_dir is None else TrustFile(local.config_dir, root, Path.home())
        switches = (info, *_switches(self.extensions.on, toolsets)) if toolsets.sources else ()

        def companions(tools: Sequence[Tool[Any]]) -> Sequence[Tool[Any]]:
            starts = tuple(tool for part in self.services.parts for tool in part.tools(catalog))
            every = (*tools, *starts)
            useful = Info.is_useful(every, self.skills) or any(map(self.must_read, every))
            return (*(switches or ((info,) if useful else ())), *starts)

        catalog = ToolCatalog(
            built_in,
            self._folders(),
            self._loaders(narrowable),
            Loaded(
                packages.tools,
                (*self._exposed(), *packages.problems, *self.services.parts.problems),
            ),
            trust,
            accept=self.local.trust_project,
            elsewhere=(*NAMES, *(tool.name for tool in JOB_TOOLS)),
            of_sets=off.union(_tools_of_sets(self.extensions.on)),
            off=off,
            absent={} if self.kind else _ABSENT,
            companions=companions,
            toolsets=toolsets,
        )
        return catalog

    @property
    def _file_kinds(self) -> tuple[FileKind, ...]:
        return tuple(kind for each in self.extensions.on for kind in each.in_folders.kinds)

    def _folders(self) -> list[ToolFolder]:
        """Return the folders of the files of extensions; the user's first."""
        root, own = self.workspace.root, self.local.own_folder
        suffixes = defaultdict[tuple[Path, tuple[str, ...], _Owner], list[str]](list)
        if own is not None:
            for kind in self._file_kinds:
                suffixes[own / kind.own, (), "user"] += kind.suffixes
        for kind in self._file_kinds:
            for parts in kind.project:
                suffixes[root, parts, "project"] += kind.suffixes
        return [ToolFolder(*place, tuple(found)) for place, found in suffixes.items()]

    def _loaders(self, by_name: Callable[[], Mapping[str, Tool[Any]]]) -> tuple[ToolLoader, ...]:
        """Make the loaders of files, whose modules, a tenth of a run's, are imported only if there
        are files.

        `by_name` returns the tools that a file may narrow.
        """
        needs = LoaderNeeds(
            self.outputs,
            self.reads,
            by_name,
            always_ask=_ON_HOST if self.kind == "host" else None,
            inputs=self.state.inputs,
            root=str(self.workspace.root),
        )
        return tuple(
            FirstFileLoader(kind.suffixes, partial(_made, kind.make, needs))
            for kind in self._file_kinds
        )

    def _packages(self) -> Loaded:
        """Load the tools of installed packages. Blocks on small files."""
        if not may_bring(TOOL_PACKAGES, sys.path):
            return Loaded()
        from importlib.metadata import entry_points  # slow, and few packages bring anything

        points = tuple(entry_points(group=TOOL_PACKAGES))
        loads = (kind.packages for kind in self._file_kinds)
        found = [resolved(load)(self.outputs, points) for load in loads if load and points]
        return Loaded(
            tuple(tool for loaded in found for tool in loaded.tools),
            tuple(problem for loaded in found for problem in loaded.problems),
        )

    def built_in(self) -> list[Tool[Any]]:
        """Make the built-in tools: bash only with a place to run it in, `git_commit` only if bash
        cannot commit."""
        files: list[Tool[Any]] = [
            Read(self.workspace, self.reads),
            Write(self.workspace, self.reads),
            Edit(self.workspace, self.reads),
            List(self.workspace),
            Search(self.workspace, self.reads),
            OutputRead(self.outputs),
            AskUser(self.services.questions),
            TodoTool(self.state.todo),
        ]
        if self.kind is None:
            return [*files, self._commit(), *self._kept()]
        ask = _ON_HOST if self.kind == "host" else None
        return [
            Bash(self.outputs, self.reads, always_ask=ask, exposed=self.exposed),
            *files,
            *(() if ask else (self._commit(),)),
            Python(self.outputs, self.reads, always_ask=ask),
            *job_tools(self.services.jobs),
            *self._kept(),
        ]

    def _commit(self) -> GitCommit:
        hooks, environment = self.settings.commit_hooks, self.local.environment

        def committer() -> Committer:
            from codeagent.workspace.commits import GitCommitter  # only if the model commits

            return GitCommitter(self.workspace, environment, hooks=hooks, agreed=self._agreed)

        return GitCommit(self.workspace, committer, hooks=hooks)

    def _agreed(self, git: OutsideGit) -> bool:
        """Tell whether the user agreed to this git directory. Raises CommitRefused if the answer
        cannot be read."""
        try:
            return agrees_to(git, self.workspace.root, self.local.config_dir)
        except ConfigError as error:
            raise CommitRefused(str(error)) from error

    def _kept(self) -> tuple[Tool[Any], ...]:
        """Make the tools that read and write what outlives the conversation."""
        state, root, redactor = (
            self.local.state_dir,
            self.project or self.workspace.root,
            self.local.redactor,
        )
        session_id = None if self.session is None else self.session[0]
        pad = ScratchpadTool(self.scratchpad, project_scratchpad(state, root, redactor))
        store = SessionStore(state, redactor)
        return pad, SearchMemory(SessionMemory(store, root, redactor, without=session_id))

    def _exposed(self) -> tuple[ToolProblem, ...]:
        folder = self.local.config_dir
        if folder is None or self.local.own_folder is not None or not (folder / "tools").is_dir():
            return ()
        text = "it lies in the workspace, where the agent could change it: nothing in it is loaded"
        return (ToolProblem(str(folder / "tools"), text),)


def _made(make: Reference, needs: LoaderNeeds) -> ToolLoader:
    loader: ToolLoader = resolved(make)(needs)
    return loader


def _switches(extensions: Iterable[Extension], toolsets: Toolsets) -> tuple[Tool[Any], ...]:
    """Make the tools that show sets and turn them on."""
    makes = (each.in_conversations.switches for each in extensions)
    return tuple(tool for make in makes if make for tool in resolved(make)(toolsets))


def _tools_of_sets(extensions: Iterable[Extension]) -> Iterator[str]:
    """Yield the names of the tools of all sets, including those that only some agents or steps of
    recipes have."""
    for each in extensions:
        yield from each.in_conversations.for_steps
        for one in each.sets:
            yield from (*one.tools, *one.beside)


def tracked_reads(workspace: Workspace, history: History) -> ReadTracker:
    """Return a tracker that knows what the model has read in the session so far."""
    reads = ReadTracker(workspace)
    reads.keep_only(item.details for item in history.details)
    for item in history.details:
        reads.remember(item.call_id, item.details)
    reads.keep_only(item.details for item in history.details if item.in_context)
    return reads


def forget_reads(reads: ReadTracker, documentation: set[str], left: Sequence[ToolDetails]) -> None:
    """Forget what the model read, of files and of the documentation of tools, but for what is left
    of the results."""
    reads.keep_only(item.details for item in left)
    documentation &= tools_read_about(left)


def prompt_for(dependencies: ToolDependencies) -> MakePrompt:
    """Return a function from the tools in use to the system prompt. Blocks on small files."""
    where = PromptEnvironment(
        visible(str(dependencies.workspace.root)),
        f"{os.uname().sysname} {os.uname().machine}",
        dependencies.kind,
    )
    instructions, skills = dependencies.instructions.text, dependencies.skills

    def make(tools: Sequence[Tool[Any]], *, small: bool = False) -> str:
        return system_prompt(tools, instructions, where, skills.listed, small=small)

    return make
