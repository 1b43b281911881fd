"""How a server's program is started, and what of it is in the workspace, which the user has to
agree to."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.ports import StdioProgram
from codeagent.core.programs import SEARCH_VARIABLES
from codeagent.core.sanitize import one_line
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.pins import Changed, ProgramPin
from codeagent.extensions.mcp.program_files import ProgramFiles, program_files

_DATA = frozenset({".csv", ".db", ".jsonl", ".log", ".sqlite", ".sqlite3"})
"""Suffixes of files that a server writes as it works, and that say nothing of what it runs."""
_SETTINGS = frozenset(
    {".cfg", ".conf", ".env", ".ini", ".json", ".md", ".toml", ".txt", ".xml", ".yaml", ".yml"}
)
"""Suffixes of files that no program is run from, so that the files beside them do not belong to
one."""
_RUNNERS_AS_TEXT = """
bash bun bunx bundle cargo conda dash deno direnv dotnet env fish gem go hatch java just ksh
make mise nix node nodejs npm npx pdm perl php pipx pnpm pnpx poetry pypy python rake ruby rye
sh task ts-node tsx uv uvx yarn zsh
"""
_RUNNERS = frozenset(_RUNNERS_AS_TEXT.split())
"""Programs that run what they find in a folder that they are given."""
_INTERPRETERS = frozenset(
    {"bash", "dash", "node", "nodejs", "perl", "php", "pypy", "python", "ruby", "sh", "zsh"}
)
"""Those that run a file; what follows is for the file."""
_OF_PACKAGES = frozenset({"bunx", "npx", "pnpx", "uvx"})
"""Those that run a package, by its name; what follows is for the package."""
_ALONE = frozenset({"-y", "--yes", "-q", "--quiet", "--offline"})
"""Their flags without a value."""
_SEARCHED = SEARCH_VARIABLES | {"PATH"}
"""Variables that say where programs and code are found."""
_UPWARD_AS_TEXT = """
.cargo .npmrc .pnp.cjs .pnp.loader.mjs .python-version .yarnrc.yml Cargo.toml Gemfile
bunfig.toml deno.json deno.jsonc go.mod go.work package.json pyproject.toml tsconfig.json
uv.toml
"""
_UPWARD = tuple(_UPWARD_AS_TEXT.split())
"""What programs look for in the folders above theirs, too, and take code or settings from."""
_MANIFESTS = (
    "Cargo.toml",
    "Gemfile",
    "composer.json",
    "deno.json",
    "go.mod",
    "package.json",
    "pyproject.toml",
    "setup.py",
)
"""What makes a folder a package, whose files import each other."""
_MODULES = "node_modules"
_NO_MODULES = frozenset({".py", ".pyz", ".rb", ".sh"})
"""Suffixes of programs that never look for `node_modules`."""


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
    named = list(_named(words, here, root))
    paths = tuple(
        dict.fromkeys(path for path in named if _is_in(path, root) and path.suffix not in _DATA)
    )
    variables, beside = dict(config.env), tuple[Path, ...]()
    if directory is None and any(path.suffix == ".py" for path in named):
        variables = {"PYTHONSAFEPATH": ""} | variables  # the modules beside it are its own
    if config.is_powerful:
        programs = (*paths, *_searched(config, root))
        paths, beside = _trees(programs, root), tuple(_above(programs, root))
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
    return word if found is None or not _is_in(found, root) else f"{option}{equals}{found}"


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


def _named(words: Sequence[str], here: Path | None, root: Path) -> Iterator[Path]:
    """Yield the files and folders that a command line names, without the workspace where it is only
    data.

    `here`: where it starts, if not in a folder of its own.
    """
    within = re.compile(re.escape(str(root)) + r"(?:/[^\s:;,'\"|&<>()]*)?(?=$|[\s:;,'\"|&<>()])")
    for at, word in enumerate(words):
        value = word.partition("=")[2] if word.startswith("-") else word
        is_path = (
            bool(value)
            and (at > 0 or "/" in value)
            and (Path(value).is_absolute() or here is not None)
        )
        candidates = [Path(here or "/", value)] if is_path else []
        if here is not None and at and words[at - 1] == "-m":
            module = here / value.replace(".", "/")
            candidates += [module, module.with_name(f"{module.name}.py")]
        if not any(map(os.path.lexists, candidates)):
            candidates = [Path(found) for found in within.findall(word)]
        for path in candidates:
            is_root = os.path.realpath(path) == str(root)
            if os.path.lexists(path) and not (
                is_root and (here is not None or _is_data(words[:at]))
            ):
                yield path


def _is_data(words: Sequence[str]) -> bool:
    """Tell whether the workspace itself, given behind these words, is for the program they name,
    not what to run."""
    if not words:
        return False
    name, rest = _program(words[0]), words[1:]
    if name not in _RUNNERS:
        return True
    if name in _INTERPRETERS and rest and rest[0].startswith("/") and os.path.lexists(rest[0]):
        return True
    if name in ("python", "pypy") and "-m" in rest[:-1]:
        at = rest.index("-m")
        return (
            all(word.startswith("-") for word in rest[:at])
            and _program(rest[at + 1]) not in _RUNNERS
        )
    if name in _OF_PACKAGES:
        at = next((at for at, word in enumerate(rest) if word not in _ALONE), len(rest))
        package = rest[at] if at < len(rest) else "-"
        return not package.startswith(("-", ".", "/")) and _program(package) not in _RUNNERS
    return False


def _program(word: str) -> str:
    """Return the name of a program or package, without its folder and version."""
    return re.sub(r"(?<=[a-z])[@\d.]*$", "", Path(word).name.partition("@")[0] or word)


def _trees(paths: Sequence[Path], root: Path) -> tuple[Path, ...]:
    """Return what programs at these paths can import: the folders they are in, and the packages
    around those."""
    found: dict[Path, None] = {}
    for path in paths:
        found[path] = None
        for each in (path, Path(os.path.realpath(path))):
            if each.is_relative_to(root) and each.suffix not in _SETTINGS:
                folder = each if each.is_dir() else each.parent
                found |= dict.fromkeys((folder, *_packages(folder, root)))
    return tuple(found)


def _packages(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the package below the workspace that a folder is in, and the virtual environment inside
    it, if any."""
    for top in (folder, *folder.parents):
        if top == root or not top.is_relative_to(root):
            return
        if _is_environment(top):
            yield top
        elif any(os.path.lexists(top / name) for name in _MANIFESTS):
            yield top
            return


def _is_environment(folder: Path) -> bool:
    return os.path.lexists(folder / "pyvenv.cfg")


def _searched(config: ServerConfig, root: Path) -> Iterator[Path]:
    """Yield what is in the workspace of the places where its variables say that code is found."""
    for name in _SEARCHED & config.env.keys():
        for value in re.split(r"[:=\s]", config.env[name]):
            if Path(value).is_absolute() and os.path.lexists(value) and _is_in(Path(value), root):
                yield Path(value)


def _above(paths: Sequence[Path], root: Path) -> Iterator[Path]:
    """Yield what programs at these paths look for in the folders above theirs, up to the
    workspace."""
    for path in paths:
        alone = path.suffix in _NO_MODULES | _SETTINGS or any(map(_is_environment, path.parents))
        names = _UPWARD if alone else (*_UPWARD, _MODULES)
        for folder in dict.fromkeys((*path.parents, *Path(os.path.realpath(path)).parents)):
            if folder.is_relative_to(root):
                yield from (folder / name for name in names)


def _is_in(path: Path, root: Path) -> bool:
    """Tell whether a path is the workspace or in it, as it is written or after following links."""
    written = ".." not in path.parts and path.is_relative_to(root)
    return written or Path(os.path.realpath(path)).is_relative_to(root)
