"""What of a program is in the workspace: what its command line names there, what it can import, and
what these files hold, with a cheap way to see a change."""

import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.programs import SEARCH_VARIABLES
from codeagent.disk.opens import read_regular

MOST_FILES = 10_000
MOST_BYTES = 128 << 20
_MOST_LINKS = 40
_LONGEST_TEXT = 64 * 1024
_MOST_TEXT = 1 << 20
"""Bytes of a file, and of all together, that are kept to show later what changed in them."""
_SETTLED_NS = 2_000_000_000
"""How old a change must be for the file system's clock to tell it from a later one."""
_MOVE = "put its program into a folder of its own, without its data, or outside the workspace"

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

Stamp = tuple[int, ...]


@dataclass(frozen=True)
class ProgramFiles:
    """What a program is made of. Two are equal if the files are: whoever agreed to one has agreed
    to the other."""

    digests: Mapping[str, str]
    """By path, relative to the workspace if it is in there: SHA-256 of a file, `-> TARGET` of a
    link."""
    texts: Mapping[str, str]
    """Of small files of text, by path."""
    stamps: Mapping[str, Stamp | None]
    """What the file system says of each path, links and folders too; None if there is nothing."""
    settled: bool
    """Whether any later change shows in the stamps."""

    @property
    def manifest(self) -> str:
        """Return a line for each file, which says all of it: what the user sees and agrees to."""
        lines = sorted(self.digests.items())
        return "\n".join(
            f"{path if path.isprintable() else json.dumps(path)}  {digest}"
            for path, digest in lines
        )

    def may_have_changed(self) -> bool:
        """Tell whether the files have to be read again. Blocks, much shorter than reading them."""
        return not self.settled or any(
            _stamp(path) != before for path, before in self.stamps.items()
        )


def program_files(paths: Iterable[Path], beside: Iterable[Path], root: Path) -> ProgramFiles:
    """Read files, and folders with all that is in them; links are followed, and what is `beside`
    may be missing.

    Blocks. Raises SandboxUnavailable if that is too much to be watched, or cannot be read.
    """
    look = _Look(root)
    try:
        for path in paths:
            look.take(path)
        for path in beside:
            look.take(path, missing=True)
    except OSError as error:
        problem = f"what it would run cannot be read: {error.filename} ({error.strerror})"
        raise SandboxUnavailable(problem, _MOVE) from error
    newest = max((stamp[-1] for stamp in look.stamps.values() if stamp), default=0)
    return ProgramFiles(look.digests, look.texts, look.stamps, newest < look.began - _SETTLED_NS)


class _Look:
    def __init__(self, root: Path) -> None:
        self.began = time.time_ns()
        self.digests: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.stamps: dict[str, Stamp | None] = {}
        self._root = os.path.realpath(root)
        self._bytes = 0
        self._kept = 0

    def take(self, path: Path, *, missing: bool = False) -> None:
        """Read what is at a path, and below it. Raises OSError; FileNotFoundError unless it may be
        `missing`."""
        there = self._followed(path)
        if not missing and _stamp(there) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(there))
        pending = [str(there)]
        while pending:
            found = pending.pop()
            if found in self.stamps:
                continue
            stamp = self.stamps[found] = _stamp(found)
            if stamp is not None and stat.S_ISDIR(stamp[0]):
                with os.scandir(found) as listed:
                    pending += [
                        str(self._followed(Path(one))) if one.is_symlink() else one.path
                        for one in listed
                    ]
            elif stamp is not None:
                self._read(found, stamp)
            if len(self.stamps) > MOST_FILES or len(pending) > MOST_FILES:
                self._refuse()

    def _followed(self, path: Path) -> Path:
        """Return where a path leads, and note every link on the way."""
        done, left, links = Path("/"), list(reversed(path.parts[1:])), 0
        while left:
            part = left.pop()
            here = done.parent if part == ".." else done / part
            stamp = _stamp(here)
            if stamp is None or not stat.S_ISLNK(stamp[0]):
                done = here
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = here.readlink()
            self.stamps[str(here)] = stamp
            self.digests[self._name(str(here))] = f"-> {target}"
            left += reversed([part for part in target.parts if part != "/"])
            done = Path("/") if target.is_absolute() else done
        return done

    def _read(self, path: str, stamp: Stamp) -> None:
        name = self._name(path)
        if not stat.S_ISREG(stamp[0]):
            self.digests[name] = "not a file"
            return
        self._bytes += stamp[_SIZE]
        if self._bytes > MOST_BYTES:
            self._refuse()
        try:
            data = read_regular(path, largest=stamp[_SIZE])
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        self.digests[name] = hashlib.sha256(data).hexdigest()
        if len(data) > _LONGEST_TEXT or self._kept + len(data) > _MOST_TEXT or b"\0" in data:
            return
        try:
            self.texts[name] = data.decode()
            self._kept += len(data)
        except UnicodeDecodeError:
            return

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self._root}/")

    def _refuse(self) -> None:
        most = f"{MOST_FILES:,} files or {MOST_BYTES >> 20} MiB"
        raise SandboxUnavailable(
            f"what it would run in the workspace is too much to be watched (more than {most})",
            _MOVE,
        )


_SIZE = 3


def _stamp(path: str | Path) -> Stamp | None:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = status.st_mode
    return (
        kind,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def named_paths(words: Sequence[str], here: Path | None, root: Path) -> Iterator[Path]:
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


def importable(paths: Sequence[Path], root: Path) -> tuple[Path, ...]:
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


def searched(variables: Mapping[str, str], root: Path) -> Iterator[Path]:
    """Yield what is in the workspace of the places where variables say that code is found."""
    for name in _SEARCHED & variables.keys():
        for value in re.split(r"[:=\s]", variables[name]):
            if Path(value).is_absolute() and os.path.lexists(value) and is_in(Path(value), root):
                yield Path(value)


def looked_for(paths: Sequence[Path], root: Path) -> Iterator[Path]:
    """Yield what programs at these paths look for in the folders above theirs, up to the
    workspace."""
    for path in paths:
        alone = path.suffix in _NO_MODULES | _SETTINGS or any(map(_is_environment, path.parents))
        names = _UPWARD if alone else (*_UPWARD, _MODULES)
        for folder in dict.fromkeys((*path.parents, *Path(os.path.realpath(path)).parents)):
            if folder.is_relative_to(root):
                yield from (folder / name for name in names)


def is_in(path: Path, root: Path) -> bool:
    """Tell whether a path is the workspace or in it, as it is written or after following links."""
    written = ".." not in path.parts and path.is_relative_to(root)
    return written or Path(os.path.realpath(path)).is_relative_to(root)
