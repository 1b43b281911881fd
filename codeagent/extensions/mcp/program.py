"""How a server's program is started, and what of it is in the workspace, which the user has to
agree to."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sandbox import StdioProgram
from codeagent.core.sanitize import one_line
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.pins import Changed, ProgramPin
from codeagent.workspace.programs import (
    ProgramFiles,
    importable,
    is_in,
    looked_for,
    named_paths,
    program_files,
    searched,
)

_DATA = frozenset({".csv", ".db", ".jsonl", ".log", ".sqlite", ".sqlite3"})
"""Suffixes of files that a server writes as it works, and that say nothing of what it runs."""


@dataclass(frozen=True)
class ServerStart:
    """How a server's program is started."""

    program: StdioProgram
    paths: tuple[Path, ...] = ()
    """What it is made of in the workspace: files, and folders with all that is in them."""
    beside: tuple[Path, ...] = ()
    """What it would load as well if it were there."""
    root: Path = Path()
    hint: str = ""
    """What to write instead of an argument that names nothing where it starts; empty if there is no
    such one."""

    def files(self) -> ProgramFiles:
        """Read what it is made of; blocks. Raises SandboxUnavailable."""
        return program_files(self.paths, self.beside, self.root)


class AgreedProgram:
    """A server's program, which is started only as the user agreed to it; methods block, and may
    raise UnsafeFile, OSError and SandboxUnavailable."""

    def __init__(self, config: ServerConfig, root: Path, pins: Path) -> None:
        self._config = config
        self._root = Path(os.path.realpath(root))
        self._pin = ProgramPin(pins, config, self._root)
        self.start = ServerStart(StdioProgram((config.command, *config.args)))
        """How it is started, as of the last `changes`."""
        self._files: ProgramFiles | None = None

    @property
    def watched(self) -> bool:
        """Whether something of it is in the workspace."""
        return self._files is not None

    def changes(self) -> tuple[Changed, ...]:
        """Look at it again; return what the user has to agree to before it is started."""
        self.start = start_of(self._config, self._root)
        self._files = self.start.files() if self.start.paths else None
        return () if self._files is None else self._pin.changes(self._files)

    def agree(self, seen: Collection[str]) -> tuple[Changed, ...]:
        """Accept it if all of its files are as the user has `seen` them; return what waits then."""
        changes = self.changes()
        if not changes or self._files is None or changes[0].now.said not in seen:
            return changes
        self._pin.agree(self._files)
        return ()

    def accept(self) -> tuple[Changed, ...]:
        """Accept it as it is now; return what was new."""
        changes = self.changes()
        if changes and self._files is not None:
            self._pin.agree(self._files)
        return changes

    def altered(self) -> bool:
        """Tell whether it is no longer what was last looked at."""
        before = self._files
        if before is None or not before.may_have_changed():
            return False
        now = self.start.files()
        if now.digests != before.digests:
            return (
                True  # and stays so, for other calls at the same time, until it is looked at again
            )
        self._files = now
        return False


def start_of(config: ServerConfig, root: Path) -> ServerStart:
    """Decide where a server starts, and with which arguments. Blocks for a moment; `root` has no
    links.

    The user's servers start in an empty folder of their own, and so does a project's that is
    powerful: what is given a variable or a host must not search the workspace for its program. A
    project's other servers start in the workspace, where they can do what a command can. Raises
    SandboxUnavailable for a folder in which it must not start.
    """
    directory = _directory(config, root)
    words = [config.command, *config.args]
    if config.from_project and directory is None:
        bases = (root / config.cwd, root)
        command = _placed(words[0], bases, root) if "/" in words[0] else words[0]
        words = [command, *(_placed(word, bases, root) for word in words[1:])]
    here = None if directory is None else root / directory
    named = list(named_paths(words, here, root))
    paths = tuple(
        dict.fromkeys(path for path in named if is_in(path, root) and path.suffix not in _DATA)
    )
    variables, beside = dict(config.env), tuple[Path, ...]()
    if directory is None and any(path.suffix == ".py" for path in named):
        variables = {"PYTHONSAFEPATH": ""} | variables  # the modules beside it are its own
    if config.is_powerful:
        programs = (*paths, *searched(config.env, root))
        paths, beside = importable(programs, root), tuple(looked_for(programs, root))
        variables = (
            {"PYTHONDONTWRITEBYTECODE": "1"} | variables if paths else variables
        )  # else its start changes them
    owner = f"the MCP server {config.name}"
    program = StdioProgram(
        tuple(words), variables, directory, config.hosts, owner=owner, writes=config.write
    )
    return ServerStart(
        program,
        paths,
        beside if paths else (),
        root,
        _hint(words, root) if directory is None else "",
    )


def _directory(config: ServerConfig, root: Path) -> str | None:
    """Return where it starts, see `StdioProgram.directory`. Raises SandboxUnavailable."""
    there = Path(os.path.realpath(root / config.cwd))
    inside = there.is_relative_to(root)
    if config.from_project:
        return None if config.is_powerful else os.path.relpath(root / config.cwd, root)
    if not config.cwd:
        return None
    if inside and not config.is_powerful:
        return os.path.relpath(there, root)
    if not inside and config.where == "machine" and Path(config.cwd).is_absolute():
        return config.cwd
    if not inside:
        problem = (
            f"its cwd, {config.cwd}, is not in the workspace, and the sandbox has nothing else"
        )
        if config.where == "machine":
            problem = f"its cwd, {config.cwd}, is neither an absolute folder nor in the workspace"
        raise SandboxUnavailable(
            problem, "remove cwd from its entry: it starts in an empty folder of its own then"
        )
    has = "the rights that you have" if config.where == "machine" else "variables or hosts"
    raise SandboxUnavailable(
        f"its cwd, {config.cwd}, is in the workspace, where a server with {has} could load what it must not",
        "remove cwd from its entry, and give it paths that begin with ${workspaceFolder}",
    )


def _placed(word: str, bases: Sequence[Path], root: Path) -> str:
    """Return the argument with the path in it made absolute, if it names something in the
    workspace."""
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if not value or Path(value).is_absolute() or (word.startswith("-") and not equals):
        return word
    found = next((base / value for base in bases if os.path.lexists(base / value)), None)
    return word if found is None or not is_in(found, root) else f"{option}{equals}{found}"


def _hint(words: Sequence[str], root: Path) -> str:
    relative = (
        word
        for word in words
        if not Path(word).is_absolute() and ("/" in word or "." in word.strip("."))
    )
    found = next((word for word in relative if os.path.lexists(root / word)), None)
    return (
        f"it starts in an empty folder: write ${{workspaceFolder}}/{one_line(found, 60)}"
        if found
        else ""
    )
