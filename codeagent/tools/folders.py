"""Folders of tool files: each file is read once and never through a link, a project's only count
if they are trusted, and loaders make tools of them."""

import errno
import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.memory import OutputStore
from codeagent.core.tool import OpenArgs, Tool
from codeagent.core.toolbox import ToolProblem, TrustRecord
from codeagent.disk.opens import closing_fd, open_below, open_folder, read_regular
from codeagent.tools.edit.reads import ReadTracker

if TYPE_CHECKING:
    from codeagent.core.agents import AgentDefinition  # few conversations have agents
    from codeagent.core.recipes import RecipeInput, Values  # few runs have any
    from codeagent.tools.grouping import ToolGroup  # few files have one

LARGEST_FILE = 256 * 1024
"""Bytes of one file."""
MOST_FILES = 200
"""Files of one folder."""


@dataclass(frozen=True)
class ToolFile:
    """A tool file as it was read; exactly that content is loaded."""

    path: Path
    shown: str
    """Its path as users write it, for `file:line`."""
    content: bytes
    place: Literal["project", "user"]


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
    """The files with given suffixes directly in `base/parts…`, except those that begin with `.` or
    `_`.

    Each is read once, through no link, and read again only if something about it changed.
    """

    def __init__(
        self,
        base: Path,
        parts: tuple[str, ...],
        place: Literal["project", "user"],
        suffixes: tuple[str, ...],
    ) -> None:
        """Links below `base` are never followed."""
        self._base = base
        self._parts = parts
        self.place = place
        self._suffixes = suffixes
        self._signature: tuple[object, ...] | None = None
        self._state = FolderState()

    def read(self) -> FolderState:
        """Return the current state; the same object as before if nothing changed. Blocks on a few
        small files."""
        try:
            signature, state = self._look()
        except FileNotFoundError:
            signature, state = None, FolderState()
        except OSError as error:
            signature, state = None, self._unread(error)
        if signature is None and state == self._state:
            state = self._state
        self._signature = signature
        self._state = state
        return state

    def _look(self) -> tuple[tuple[object, ...], FolderState]:
        """Return the stamps that tell whether a file changed, and the state. Raises OSError."""
        with closing_fd(open_folder(self._base, follow=True)) as base:
            folder = open_below(base, self._parts, listed=True)
        try:
            with os.scandir(folder) as entries:
                found = sorted(entry.name for entry in entries)
            names = [
                name
                for name in found
                if name.endswith(self._suffixes) and not name.startswith((".", "_"))
            ]
            signature = tuple(_stamp(folder, name) for name in names)
            same = signature == self._signature
            return signature, self._state if same else self._read_all(folder, names)
        finally:
            os.close(folder)

    def _unread(self, error: OSError) -> FolderState:
        """Return the state if the folder cannot be read: empty for a link, else the files that were
        read before.

        Those may include restrictions, which must not end because of an error.
        """
        where = self._shown("")
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            text = "it is a link, or not a folder: nothing in it is loaded"
            return FolderState(problems=(ToolProblem(where, text, "warning"),))
        kept = "what was read before stays" if self._state.files else "nothing in it is loaded"
        return FolderState(
            self._state.files,
            (ToolProblem(where, f"it cannot be read ({error.strerror}): {kept}"),),
        )

    def _read_all(self, folder: int, names: list[str]) -> FolderState:
        files: list[ToolFile] = []
        problems: list[ToolProblem] = []
        for name in names[:MOST_FILES]:
            try:
                content = read_regular(name, within=folder, largest=LARGEST_FILE)
            except OSError as error:
                problems.append(
                    ToolProblem(self._shown(name), f"it cannot be read: {error.strerror or error}")
                )
                continue
            files.append(
                ToolFile(
                    self._base.joinpath(*self._parts, name), self._shown(name), content, self.place
                )
            )
        if len(names) > MOST_FILES:
            text = f"only the first {MOST_FILES} of {len(names)} files are loaded"
            problems.append(ToolProblem(self._shown(""), text, partial=True))
        return FolderState(tuple(files), tuple(problems))

    def _shown(self, name: str) -> str:
        inner = Path(*self._parts, name)
        return str(inner if self.place == "project" else self._base / inner)


class ProjectTrust:
    """Whether the files of a project's folders are trusted; trust is given to all of them together,
    as they are."""

    def __init__(
        self, folders: Sequence[ToolFolder], record: TrustRecord | None, *, accept: bool
    ) -> None:
        """`record` keeps the trust; if it is None, nothing is trusted.

        `accept`: the files are trusted as they are at the first look; that is not kept.
        """
        self._folders = folders
        self._record = record
        self._accept_first = accept
        self._accepted: str | None = None

    def of_project(self, states: Sequence[FolderState]) -> list[FolderState]:
        """Return the states of the project's folders that have files, out of the states of all
        folders."""
        pairs = zip(self._folders, states, strict=True)
        return [state for folder, state in pairs if folder.place == "project" and state.files]

    def digest(self, states: Sequence[FolderState]) -> str | None:
        """Return the digest that is trusted, over all of the project's folders; None if they are
        empty."""
        digests = [state.digest for state in self.of_project(states)]
        if len(digests) < 2:
            return digests[0] if digests else None
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def holds(self, states: Sequence[FolderState]) -> bool:
        """Whether the files are trusted as they are. Raises ConfigError if the record of trust is
        damaged."""
        digest = self.digest(states)
        if digest is None:
            return True
        if self._accept_first:
            self._accept_first = False
            self._accepted = digest
        return digest == self._accepted or (
            self._record is not None and self._record.trusts(digest)
        )

    def give(self, digest: str | None) -> None:
        """Trust the files with this digest, in later sessions as well. Blocks. Raises
        ConfigError."""
        if self._record is None:
            raise ConfigError("trust cannot be stored here, so nothing of the project is loaded")
        if digest is not None:
            self._record.trust(digest)

    def take_back(self) -> None:
        """Stop trusting any files. Blocks. Raises ConfigError."""
        self._accepted = None
        self._accept_first = False
        if self._record is not None:
            self._record.forget()


def _stamp(folder: int, name: str) -> tuple[object, ...]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return (name,)
    return (
        name,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@dataclass(frozen=True)
class Loaded:
    """The tools of a file or a package, and its problems."""

    tools: tuple[Tool[Any], ...] = ()
    """In the order of the file; none if there is an error."""
    problems: tuple[ToolProblem, ...] = ()
    agents: "tuple[AgentDefinition, ...]" = ()
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
