"""What the person's own git leaves out and tracks, read as data: no git ever runs on their repository."""

import os
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codeagent.workspace.snapshots.place import StorePlace
from codeagent.workspace.snapshots.private import UMASK, write_private

_LARGEST = 1 << 20
_LARGEST_INDEX = 256 << 20
_SECONDS = 20.0
_POINTER = "gitdir: "
_READER = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {kind}\n"


@dataclass(frozen=True)
class Outer:
    """Rules from outside the workspace: what leads from their folder down to it, and the text."""

    above: str
    text: str


@dataclass(frozen=True)
class Repository:
    """Where the person's git keeps what is read here."""

    exclude: Path
    index: Path


class Surroundings:
    """Asked before every snapshot; what seldom changes is read again only when it did. Never raises."""

    def __init__(self, place: StorePlace, environment: Mapping[str, str]) -> None:
        self._place = place
        self._environment = environment
        self._global: str | None = None
        self._index_state: tuple[int, ...] | None = None
        self._tracked: frozenset[str] = frozenset()

    def outer(self) -> tuple[Outer, ...]:
        """The rules above the workspace's own `.gitignore`, the strongest first."""
        root = self._place.workspace
        top = _top(root)
        found = []
        folder = root
        while folder != top:
            folder = folder.parent
            found.append(Outer(_leading(folder, root), read_rules(folder / ".gitignore")))
        repository = repository_of(top)
        if repository is not None:
            found.append(Outer(_leading(top, root), read_rules(repository.exclude, follow=True)))
        found.append(Outer(_leading(top, root), self.everywhere()))
        return tuple(outer for outer in found)

    def everywhere(self) -> str:
        """The person's global ignore file; read once."""
        if self._global is None:
            self._global = read_rules(self._global_file(), follow=True)
        return self._global

    def tracked(self) -> frozenset[str]:
        """Files of the workspace in the person's index, ignored or not; empty where it cannot be read."""
        root = self._place.workspace
        top = _top(root)
        repository = repository_of(top)
        try:
            found = None if repository is None else repository.index.lstat()
        except OSError:
            found = None
        state = None if found is None else (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        if state != self._index_state:
            self._index_state = state
            names = [] if repository is None or state is None else self._index_names(repository.index)
            lead = _leading(top, root)
            self._tracked = frozenset(name[len(lead) :] for name in names if name.startswith(lead))
        return self._tracked

    def _global_file(self) -> Path:
        environment = self._environment
        home = environment.get("HOME", "/")
        base = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
        asked = {key: environment[key] for key in ("HOME", "XDG_CONFIG_HOME") if key in environment}
        settings = self._place.environment(asked)
        for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL"):
            settings[name] = environment.get(name, "")
            if not settings[name]:
                del settings[name]
        said = self._git(["config", "--type=path", "--get", "core.excludesFile"], settings)
        return Path(os.fsdecode(said.rstrip(b"\n")) or f"{base}/git/ignore")

    def _index_names(self, index: Path) -> list[str]:
        """By git's own parser, from a copy in a folder that holds nothing else; of either kind of hash."""
        data = _regular(index, _LARGEST_INDEX, follow=False)
        for kind in ("sha1", "sha256"):
            reader = self._place.folder / f"index-{kind}"
            copy = reader / f"index-{self._place.session}"
            try:
                for name in ("objects", "refs"):
                    (reader / name).mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(reader / "HEAD", b"ref: refs/heads/none\n")
                write_private(reader / "config", _READER.format(kind=kind).encode())
                write_private(copy, data)
            except OSError:
                return []
            settings = self._place.environment({"GIT_DIR": str(reader), "GIT_INDEX_FILE": str(copy)})
            names = self._git(["ls-files", "-z"], settings).split(b"\0")
            copy.unlink(missing_ok=True)
            if len(names) > 1:
                return [os.fsdecode(name) for name in names if name]
        return []

    def _git(self, arguments: list[str], environment: Mapping[str, str]) -> bytes:
        try:
            return subprocess.run(
                [self._place.program(), *arguments],
                cwd=self._place.git,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                umask=UMASK,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return b""


def repository_of(top: Path) -> Repository | None:
    """The repository whose work tree this is, where its `.git` is a folder or a linked worktree's pointer.

    A pointer counts only where the folder it names points back: otherwise it could name any folder of the person's.
    """
    git = top / ".git"
    try:
        if stat.S_ISDIR(git.lstat().st_mode):
            return Repository(git / "info/exclude", git / "index")
        own = Path(_regular(git, _LARGEST, follow=False).decode().strip().removeprefix(_POINTER))
        own = own if own.is_absolute() else top / own
        if Path((own / "gitdir").read_text().strip()).resolve() != git:
            return None
        common = (own / (own / "commondir").read_text().strip()).resolve()
        return Repository(common / "info/exclude", own / "index")
    except (OSError, ValueError):
        return None


def read_rules(path: Path, *, follow: bool = False) -> str:
    """An ignore file's text; empty where there is none."""
    return _regular(path, _LARGEST, follow=follow).decode("utf-8-sig", "surrogateescape")


def _regular(path: Path, most: int, *, follow: bool) -> bytes:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return b""


def _top(root: Path) -> Path:
    """The work tree the workspace is in; itself where it is in none."""
    return next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), root)


def _leading(folder: Path, root: Path) -> str:
    inner = os.fspath(root.relative_to(folder))
    return "" if inner == "." else f"{inner}/"
