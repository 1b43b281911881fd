"""The tools of one conversation: the built-in ones, and those of tool files and packages as they are now."""

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.notes import SHELL
from codeagent.core.policy import Rule
from codeagent.core.tool import NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import Toolbox, ToolFacts, ToolProblem, TrustBook
from codeagent.disk.opens import open_below, open_folder, read_regular
from codeagent.tools.schema import nearest_or_all, shown_schema

LARGEST_FILE = 256 * 1024
"""Bytes of one file."""
PACKAGES = "codeagent.tools"
"""The group of entry points with which an installed package adds tools."""
MOST_FILES = 200
"""Files of one folder."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MCP = "mcp__"
"""The prefix of the tools that a server adds once it is connected."""
Companions = Callable[[Sequence[Tool[Any]]], Sequence[Tool[Any]]]
"""Gives the built-in tools that are useful only together with these; they come last."""


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


@dataclass(frozen=True)
class FolderState:
    """What a folder of tool files held when it was read."""

    files: tuple[ToolFile, ...] = ()
    """By name."""
    problems: tuple[ToolProblem, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over names and contents: what trust is given to."""
        total = hashlib.sha256()
        for file in self.files:
            name, content = file.path.name.encode("utf-8", "surrogateescape"), file.content
            total.update(b"%d %d " % (len(name), len(content)) + name + content)
        return total.hexdigest()


class ToolFolder:
    """The files with given suffixes directly in `base/parts…`, except those that begin with `.` or `_`.

    Each is read once, through no link, and read again only if something about it changed.
    """

    def __init__(
        self, base: Path, parts: tuple[str, ...], place: Literal["project", "user"], suffixes: tuple[str, ...]
    ) -> None:
        """No link is followed below `base`."""
        self._base = base
        self._parts = parts
        self.place = place
        self._suffixes = suffixes
        self._signature: tuple[object, ...] | None = None
        self._state = FolderState()

    def read(self) -> FolderState:
        """The present state; the same object as before if nothing changed. Blocks on a few small files."""
        folder = self._open_folder()
        if folder is None:
            self._signature, self._state = None, FolderState() if self._state.files else self._state
            return self._state
        try:
            with os.scandir(folder) as entries:
                found = sorted(entry.name for entry in entries)
            names = [name for name in found if name.endswith(self._suffixes) and not name.startswith((".", "_"))]
            signature = tuple(_stamp(folder, name) for name in names)
            if signature != self._signature:
                self._signature, self._state = signature, self._read_all(folder, names)
            return self._state
        finally:
            os.close(folder)

    def _open_folder(self) -> int | None:
        """Its descriptor; None if there is no such folder, or it is a link."""
        try:
            base = open_folder(self._base, follow=True)
        except OSError:
            return None
        try:
            return open_below(base, self._parts, listed=True)
        except OSError:
            return None
        finally:
            os.close(base)

    def _read_all(self, folder: int, names: list[str]) -> FolderState:
        files: list[ToolFile] = []
        problems: list[ToolProblem] = []
        for name in names[:MOST_FILES]:
            try:
                content = read_regular(name, within=folder, largest=LARGEST_FILE)
            except OSError as error:
                problems.append(ToolProblem(self._shown(name), f"it cannot be read: {error.strerror or error}"))
                continue
            files.append(ToolFile(self._base.joinpath(*self._parts, name), self._shown(name), content, self.place))
        if len(names) > MOST_FILES:
            problems.append(
                ToolProblem(self._shown(""), f"only the first {MOST_FILES} of {len(names)} files are loaded")
            )
        return FolderState(tuple(files), tuple(problems))

    def _shown(self, name: str) -> str:
        inner = Path(*self._parts, name)
        return str(inner if self.place == "project" else self._base / inner)


def _stamp(folder: int, name: str) -> tuple[object, ...]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return (name,)
    return (name, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True)
class CatalogChange:
    """What changed since the last look at the files."""

    added: tuple[str, ...] = ()
    """Names of tools."""
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    """New ones only."""
    untrusted: tuple[str, ...] = ()
    """Files that are newly waiting for trust."""


class ToolRegistry:
    """Tools in the order they were given; what the model sees stays the same from turn to turn."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        """Raises ConfigError for a bad name, or one that is taken."""
        self._tools: dict[str, Tool[Any]] = {}
        self._use_tools(tools)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool[Any]:
        """Raises NotFound, which names the closest tools."""
        if name in self._tools:
            return self._tools[name]
        said = name if _NAME.fullmatch(name) else f"{name[:100]!r} is not 1 to 64 letters, digits, _ or -"
        said = said if name.strip() else "the call has no name"
        raise NotFound(f"Tool not found: {said}{nearest_or_all(name, self._tools)}")

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return self._definitions

    def _use_tools(self, tools: Iterable[Tool[Any]]) -> None:
        """Raises ConfigError, and changes nothing then."""
        taken: dict[str, Tool[Any]] = {}
        for tool in tools:
            if (why := _refusal(tool, taken)) is not None:
                raise ConfigError(why)
            taken[tool.name] = tool
        definitions = (ToolDefinition(tool.name, tool.description, shown_schema(tool)) for tool in taken.values())
        self._definitions, self._tools = tuple(definitions), taken


class ToolCatalog(ToolRegistry):
    """The set of tools in use, by name; it changes only in `look` and `refresh`, never in between.

    Built-in tools come first, then packages, then files by folder and name: a new tool changes nothing of what the
    model is told before it.
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
        """`trust` None: nothing of a project is loaded. `accept`: the project's files are trusted as the first look
        finds them, without asking, and only in this conversation. `elsewhere`: built-in tools that other conversations
        have, so that a rule may name them. `companions` is called with all other tools. Raises ConfigError."""
        super().__init__(builtin)
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
        self._now = Toolbox(tuple(_facts(tool) for tool in self._builtin))

    @property
    def complete(self) -> bool:
        """Whether there are no other tools: no file waits for trust, and none failed to load."""
        return not self._now.untrusted and all(problem.level != "error" for problem in self._now.problems)

    def has_loaded(self, content: bytes) -> bool:
        """Whether a file with exactly this content is in use, and so is trusted."""
        return any(file.content == content for file in self._loaded)

    def load(self, file: ToolFile) -> Loaded:
        """What the file gives, in use or not. Raises ConfigError for a file of a kind that holds no tools."""
        for loader in self._loaders:
            if file.path.name.endswith(tuple(loader.suffixes)):
                return loader.load(file)
        known = ", ".join(suffix for loader in self._loaders for suffix in loader.suffixes)
        raise ConfigError(f"{file.shown} is not a tool file; those end in {known}")

    def unknown(self, rules: Iterable[Rule]) -> tuple[str, ...]:
        """A line about each rule that names no tool; rules about tools of MCP servers are not checked."""
        names = sorted({*self._elsewhere, *self._tools})
        wrong = [rule for rule in rules if not rule.tool.startswith(_MCP) and not any(map(rule.covers, names))]
        return tuple(f"the rule {rule} names no tool{_meant(rule, names)}" for rule in wrong)

    @property
    def now(self) -> Toolbox:
        return self._now

    def look(self) -> CatalogChange | None:
        """Take in what changed since the last look; None if nothing did. Blocks while files are loaded."""
        states = self._read()
        return None if states is None else self._take_in(states)

    async def refresh(self) -> CatalogChange | None:
        """The same as `look`, with the loading in a thread."""
        states = self._read()
        return None if states is None else await asyncio.to_thread(self._take_in, states)

    async def trust(self) -> None:
        """Trust the project's files as they are now, in later sessions, too. Raises ConfigError."""
        if self._trust is None:
            raise ConfigError("trust cannot be stored here, so nothing of the project is loaded")
        for state in [folder.read() for folder in self._folders if folder.place == "project"]:
            if state.files:
                await asyncio.to_thread(self._trust.trust, state.digest)
        self._states = None

    async def distrust(self) -> None:
        """Stop trusting the project's files. Raises ConfigError."""
        self._accepted, self._accept_first = None, False
        if self._trust is not None:
            await asyncio.to_thread(self._trust.forget)
        self._states = None

    def _read(self) -> tuple[FolderState, ...] | None:
        """What the folders hold; None if that has not changed."""
        states = tuple(folder.read() for folder in self._folders)
        before = self._states
        same = before is not None and all(new is old for new, old in zip(states, before, strict=True))
        return None if same else states

    def _take_in(self, states: tuple[FolderState, ...]) -> CatalogChange:
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
        self._loaded = {file: self._loaded.get(file) or self.load(file) for file in files}
        problems += [problem for loaded in self._loaded.values() for problem in loaded.problems]
        self._states = states
        return self._use(problems, tuple(untrusted))

    def _is_trusted(self, state: FolderState) -> bool:
        digest = state.digest
        if self._accept_first:
            self._accept_first, self._accepted = False, digest
        return digest == self._accepted or (self._trust is not None and self._trust.trusts(digest))

    def _use(self, problems: list[ToolProblem], untrusted: tuple[str, ...]) -> CatalogChange:
        before, old = self._tools, self._now
        found = (*self._packages.tools, *(tool for loaded in self._loaded.values() for tool in loaded.tools))
        kept, refused = _without_doubles(self._builtin, found)
        tools = (*self._builtin, *kept)
        self._use_tools((*tools, *self._companions(tools)))
        problems = [*problems, *refused]
        self._now = Toolbox(tuple(_facts(tool) for tool in self), tuple(problems), untrusted)
        after = self._tools
        return CatalogChange(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(name for name in after if name in before and before[name] is not after[name]),
            problems=tuple(problem for problem in problems if problem not in old.problems),
            untrusted=tuple(name for name in untrusted if name not in old.untrusted),
        )


def _meant(rule: Rule, names: Collection[str]) -> str:
    return nearest_or_all(rule.tool, names, lambda tool: str(replace(rule, tool=tool)), most=1)


def _refusal(tool: Tool[Any], taken: Mapping[str, Tool[Any]]) -> str | None:
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


def _without_doubles(
    builtin: Iterable[Tool[Any]], found: Iterable[Tool[Any]]
) -> tuple[tuple[Tool[Any], ...], tuple[ToolProblem, ...]]:
    """The tools that may be used, and why others may not: the first tool of a name keeps it."""
    taken = {tool.name: tool for tool in builtin}
    kept: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    for tool in found:
        if (why := _refusal(tool, taken)) is not None:
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
