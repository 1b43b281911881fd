"""Which files a snapshot covers: the rules from outside the workspace, what was left out, and what
is ignored."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from codeagent.core.host_programs import GIT_CHECKPOINTS, run_program
from codeagent.core.paths import watched, watched_folder
from codeagent.disk.opens import read_regular
from codeagent.disk.private import write_private
from codeagent.disk.repository import isolated_environment, repository_of, work_tree_of
from codeagent.workspace.ignore import IgnoreFile, IgnoreLayer, IgnoreScope, folders_of
from codeagent.workspace.snapshots.contents import stamp_of
from codeagent.workspace.snapshots.index import Stamp
from codeagent.workspace.snapshots.store import UMASK, SnapshotStore

_MOST_PHRASES = 50
_MOST_RECORDED = 5000
_LARGEST = 1 << 20
_LARGEST_INDEX = 256 << 20
_SECONDS = 20.0
_CONFIGURED = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL")
"""By these variables git finds the user's own configuration."""
_READER = (
    "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {kind}\n"
)


class OuterRules(NamedTuple):
    """Ignore rules from outside the workspace."""

    above: str
    """The path from the folder of the rules down to the workspace, with a slash at the end; empty
    for the same."""
    text: str


class SnapshotRecord(NamedTuple):
    """What a snapshot records about itself: what it leaves out, and by which rules."""

    left_out: tuple[tuple[str, str], ...] = ()
    """Path (a folder's ends with a slash) and why, in order."""
    outer: tuple[OuterRules, ...] = ()
    """Rules from outside the workspace, the strongest first."""
    everywhere: str = ""
    """The user's own for all repositories; also among `outer`."""
    repositories: tuple[tuple[str, str], ...] = ()
    """Folders (with a slash) that are repositories of their own, and their own exclude file."""
    watches: bool = True
    """What runs outside the sandbox (`paths.watched`) is covered even if ignored."""

    def encode(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    def phrases(self) -> tuple[str, ...]:
        """Describe what is left out, to the user; a bounded number of phrases."""
        shown = [f"{path}: {why}" if path else why for path, why in self.left_out[:_MOST_PHRASES]]
        shown = [
            text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            for text in shown
        ]
        rest = len(self.left_out) - len(shown)
        return (*shown, f"and at least {rest:,} more") if rest else tuple(shown)

    def base_scope(self) -> IgnoreScope:
        return IgnoreScope(
            tuple(IgnoreLayer(IgnoreFile(outer.text), above=outer.above) for outer in self.outer)
        )

    def repository_scope(self, folder: str, exclude: str) -> IgnoreScope:
        """Return the rules of a nested repository (its folder with a slash): its own, and the
        user's for all."""
        texts = (exclude, self.everywhere)
        return IgnoreScope(
            tuple(IgnoreLayer(IgnoreFile(text), below=len(folder)) for text in texts if text)
        )


def bounded(left_out: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Sort the list and bound it; a longer one begins with an entry that may stand for any path."""
    rows = sorted(left_out)
    if len(rows) <= _MOST_RECORDED:
        return tuple(rows)
    return (("", f"{len(rows):,} files and folders are not covered"), *rows[:_MOST_RECORDED])


def decode(data: bytes) -> SnapshotRecord:
    """Read a record; older ones do not contain `watches`, which is False for them."""
    record = {"watches": False} | json.loads(data or b"{}")
    outer = tuple(OuterRules(*pair) for pair in record.get("outer", ()))
    return SnapshotRecord(**record | {"outer": outer})


class Coverage:
    """Tells which paths a snapshot says nothing about: left out, or ignored by its own rules."""

    def __init__(self, record: SnapshotRecord, read: Callable[[str], str]) -> None:
        """`read` returns a `.gitignore` of the snapshot by its path; empty if there is none."""
        self._record = record
        self._read = read
        self._scopes: dict[str, IgnoreScope] = {}
        self._ignored: dict[str, bool] = {}
        self._repositories = dict(record.repositories)
        self._left_out = frozenset(path for path, _ in record.left_out)

    def hides(self, path: str) -> bool:
        """Tell whether a file may have been there although the snapshot does not hold it."""
        return self.leaves_out(path) or self.ignored(path)

    def leaves_out(self, path: str) -> bool:
        if not self._left_out:
            return False
        return not self._left_out.isdisjoint(("", path, *folders_of(path)))

    def ignored(self, path: str) -> bool:
        watches = self._record.watches
        above = False
        for folder in folders_of(path):
            if above or self._itself(folder[:-1], directory=True):
                above = True
                if not (watches and watched_folder(folder[:-1])):
                    return True
        return (above or self._itself(path, directory=False)) and not (watches and watched(path))

    def _itself(self, path: str, *, directory: bool) -> bool:
        folder = path[: path.rfind("/") + 1]
        if not directory:
            return self._scope(folder).ignored(path, path[len(folder) :], directory)
        if path not in self._ignored:
            self._ignored[path] = self._scope(folder).ignored(path, path[len(folder) :], directory)
        return self._ignored[path]

    def _scope(self, folder: str) -> IgnoreScope:
        if folder not in self._scopes:
            if not folder:
                outside = self._record.base_scope()
            elif folder in self._repositories:
                outside = self._record.repository_scope(folder, self._repositories[folder])
            else:
                outside = self._scope(folder[: folder.rfind("/", 0, -1) + 1])
            self._scopes[folder] = outside.inside(folder, self._read(f"{folder}.gitignore"))
        return self._scopes[folder]


class OutsideRules:
    """What the user's own git leaves out and tracks, read as data: no git ever runs on their
    repository.

    It is asked before every snapshot; what seldom changes is read again only when it did. Never
    raises.
    """

    def __init__(self, store: SnapshotStore, environment: Mapping[str, str]) -> None:
        self._store = store
        self._environment = environment
        self._index_state: Stamp | None = None
        self._tracked: frozenset[str] = frozenset()

    def outer(self) -> tuple[OuterRules, ...]:
        """Return the rules above the workspace's own `.gitignore`, the strongest first."""
        root = self._store.workspace
        top = work_tree_of(root) or root
        found = []
        folder = root
        while folder != top:
            folder = folder.parent
            found.append(OuterRules(_leading(folder, root), _read_rules(folder / ".gitignore")))
        exclude, _ = _git_files(top)
        if exclude is not None:
            found.append(OuterRules(_leading(top, root), _read_rules(exclude, follow=True)))
        found.append(OuterRules(_leading(top, root), self.everywhere))
        return tuple(found)

    @cached_property
    def everywhere(self) -> str:
        """The user's global ignore file, as it is when it is first asked for."""
        environment = self._environment
        home = environment.get("HOME", "/")
        base = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
        settings = isolated_environment(self._store.git)
        del settings["GIT_CONFIG_NOSYSTEM"], settings["GIT_CONFIG_GLOBAL"]
        settings |= {name: environment[name] for name in _CONFIGURED if environment.get(name)}
        said = self._git(["config", "--type=path", "--get", "core.excludesFile"], settings)
        return _read_rules(
            Path(os.fsdecode(said.rstrip(b"\n")) or f"{base}/git/ignore"), follow=True
        )

    def tracked(self) -> frozenset[str]:
        """Return the workspace's files in the user's index, ignored or not; empty if that cannot be
        read."""
        root = self._store.workspace
        top = work_tree_of(root) or root
        _, index = _git_files(top)
        try:
            state = None if index is None else stamp_of(index.lstat())
        except OSError:
            state = None
        if state != self._index_state:
            self._index_state = state
            names = [] if index is None or state is None else self._index_names(index)
            lead = _leading(top, root)
            self._tracked = frozenset(name[len(lead) :] for name in names if name.startswith(lead))
        return self._tracked

    def _index_names(self, index: Path) -> list[str]:
        """List the index with git's own parser, from a copy in a folder with nothing else; either
        kind of hash."""
        data = _read(index, _LARGEST_INDEX, follow=False)
        for kind in ("sha1", "sha256"):
            reader = self._store.folder / f"index-{kind}"
            copy = reader / f"index-{self._store.session}"
            try:
                for name in ("objects", "refs"):
                    (reader / name).mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(reader / "HEAD", b"ref: refs/heads/none\n")
                write_private(reader / "config", _READER.format(kind=kind).encode())
                write_private(copy, data)
            except OSError:
                return []
            settings = isolated_environment(reader) | {"GIT_INDEX_FILE": str(copy)}
            names = self._git(["ls-files", "-z"], settings).split(b"\0")
            copy.unlink(missing_ok=True)
            if len(names) > 1:
                return [os.fsdecode(name) for name in names if name]
        return []

    def _git(self, arguments: list[str], environment: Mapping[str, str]) -> bytes:
        try:
            return run_program(
                GIT_CHECKPOINTS,
                [self._store.program, *arguments],
                folder=self._store.git,
                environment=environment,
                seconds=_SECONDS,
                umask=UMASK,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return b""


def _git_files(top: Path) -> tuple[Path, Path] | tuple[None, None]:
    """Return exclude file and index of the repository whose work tree this is; of a submodule,
    neither is read."""
    found = repository_of(top)
    if found is None or found.problem:
        return None, None
    if found.outside is None:
        return top / ".git/info/exclude", top / ".git/index"
    if found.outside.own == found.outside.directory:
        return None, None
    return found.outside.directory / "info/exclude", found.outside.own / "index"


def _read_rules(path: Path, *, follow: bool = False) -> str:
    """Return an ignore file's text; empty if there is none."""
    return _read(path, _LARGEST, follow=follow).decode("utf-8-sig", "surrogateescape")


def _read(path: Path, most: int, *, follow: bool) -> bytes:
    try:
        return read_regular(path, most=most, follow=follow)
    except (OSError, ValueError):
        return b""


def _leading(folder: Path, root: Path) -> str:
    inner = os.fspath(root.relative_to(folder))
    return "" if inner == "." else f"{inner}/"
