"""Scans the workspace for a snapshot: through open folders only, so that no link can lead the scan
outside."""

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import field, replace

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import (
    GIT_RUNS,
    git_layout,
    plain_name,
    protected_part,
    watched,
    watched_folder,
)
from codeagent.disk.atomic import LEFTOVER, is_leftover
from codeagent.disk.opens import open_below, open_folder
from codeagent.workspace.ignore import IgnoreScope
from codeagent.workspace.snapshots.contents import (
    NotCovered,
    read_content,
    shown_size,
    stamp_of,
    trusted,
)
from codeagent.workspace.snapshots.coverage import SnapshotRecord
from codeagent.workspace.snapshots.index import NO_STAMP, Folder, IndexEntry, Stamp
from codeagent.workspace.snapshots.objects import blob_name

_OURS = frozenset({".git", ".codeagent"})
_PLAIN = lazy_regex(r"[ABD-FH-Zabd-fh-z0-9_][ -~]*")
"""Names that cannot be another spelling of a protected one: most of them."""
_ALL_PLAIN = lazy_regex(rf"(?:{_PLAIN.pattern}\0)*")
"""All names of a folder, each with a NUL behind it: one match for most folders, in place of one for
each name."""
_DEEPEST = 200
_LARGEST_RULES = 1 << 20
_MIB = 1 << 20
IgnoredFolders = dict[str, tuple[Stamp, frozenset[str], tuple[str, ...]]]
"""By path of an ignored folder: its stamp, its names if git would see something there, and the
folders in it."""


@dataclass(frozen=True)
class SizeLimits:
    """Bytes of one file, and of all files together."""

    file: int = 20 * _MIB
    total: int = 2048 * _MIB


@dataclass
class ScanResult:
    """What a scan found; it also brings the index folders it was given up to date."""

    changed: dict[str, IndexEntry] = field(default_factory=dict)
    """Files whose content, kind or stamp is new."""
    written: list[str] = field(default_factory=list)
    """Those of them whose content or kind is new."""
    gone: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    """Files left unfinished by a process that was killed."""
    repositories: list[tuple[str, str]] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    """As in `Snapshot.marks`."""
    linked: dict[str, str] = field(default_factory=dict)
    """As in `Snapshot.linked`."""
    files: int = 0
    size: int = 0


@dataclass(frozen=True)
class _Here:
    """One open folder of the scan."""

    fd: int
    prefix: str
    scope: IgnoreScope
    ignored: bool
    depth: int


@dataclass
class Scan:
    """One scan of the workspace."""

    limits: SizeLimits
    outside: SnapshotRecord
    """Holds the rules from outside the workspace."""
    tracked: frozenset[str]
    """By the user's own git: covered even if ignored."""
    sticky: bool
    """What the last snapshot covers stays covered, whatever the ignore files say now."""
    skip: tuple[int, int]
    """Device and inode of the store, in case it is in the workspace."""
    keep: Callable[[str, bytes], None]
    """Called with the hash and content of every new file."""
    stop: threading.Event
    """Ends the scan with CheckpointError."""
    glances: IgnoredFolders
    """What earlier scans saw of ignored folders; it is brought up to date."""
    found: ScanResult = field(default_factory=ScanResult)

    def __post_init__(self) -> None:
        self._tracked_folders = frozenset(_folders_of(self.tracked))

    def run(self, root: int, known: Folder) -> ScanResult:
        """Scan the workspace. Raises CheckpointError if the root cannot be listed."""
        here = _Here(root, "", self.outside.base_scope(), False, 0)
        if not self._folder(here, known):
            raise CheckpointError(
                "the workspace cannot be listed; nothing was changed: make it readable, then try again"
            )
        return self.found

    def _folder(self, here: _Here, known: Folder) -> bool:
        """Bring `known` up to date; False if the folder cannot be listed."""
        if self.stop.is_set():
            raise CheckpointError("the snapshot was interrupted; nothing was changed")
        try:
            with os.scandir(here.fd) as listing:
                entries = list(listing)
        except OSError:
            return False
        names = {entry.name for entry in entries}
        self._note_git(here.fd, here.prefix, names)
        scope = here.scope
        if here.depth and ".git" in names:
            exclude = _nested_exclude(here.fd)
            self.found.repositories.append((here.prefix, exclude))
            scope = self.outside.repository_scope(here.prefix, exclude)
        if ".gitignore" in names:
            scope = scope.inside(here.prefix, _rules(here.fd, ".gitignore"))
        if scope is not here.scope:
            here = replace(here, scope=scope)
        folders = self._files(here, entries, known)
        self._folders(here, folders, known)
        return True

    def _files(
        self, here: _Here, entries: list[os.DirEntry[str]], known: Folder
    ) -> list[os.DirEntry[str]]:
        """Scan everything but the folders, which are returned."""
        old = known.files
        new = dict[str, IndexEntry]()
        folders = []
        found = self.found
        prefix = here.prefix
        sticky = self.sticky
        limits = self.limits
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry)
                continue
            name = entry.name
            if name[0] == "." and LEFTOVER.fullmatch(name) and prefix + name not in self.tracked:
                if is_leftover(here.fd, name):
                    found.leftovers.append(prefix + name)
                continue
            was = old.get(name)
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if (was is None or not sticky) and not self._covers(here, name):
                continue
            if found.size + status.st_size > limits.total:
                alone = (
                    f"larger than {shown_size(limits.file)}" if status.st_size > limits.file else ""
                )
                why = alone or f"beyond the {shown_size(limits.total)} that a snapshot holds"
                self._leave_out_file(here, name, why)
                continue
            now = (
                was
                if was is not None and was[0] == stamp_of(status)
                else self._read(here, name, was)
            )
            if now is None:
                continue
            new[name] = now
            if now[1] == "link" and watched(prefix + name):
                self._note_link(here, name)
            found.files += 1
            found.size += status.st_size
            if now is was:
                continue
            found.changed[prefix + name] = now
            if was is None or was[1:] != now[1:]:
                found.written.append(prefix + name)
        if new.keys() != old.keys():
            found.gone.extend(prefix + name for name in old.keys() - new.keys())
        known.files = new
        return folders

    def _note_link(self, here: _Here, name: str) -> None:
        try:
            target = os.readlink(name, dir_fd=here.fd)
        except OSError:
            return
        self.found.linked[os.path.normpath(here.prefix + target)] = here.prefix + name

    def _covers(self, here: _Here, name: str) -> bool:
        path = here.prefix + name
        if name in _OURS:
            return False
        ignored = here.ignored or here.scope.ignored(path, name, False)
        if ignored and path not in self.tracked and not watched(path):
            return False
        if protected_part(name) is not None:
            self._leave_out(path, "a protected name")
            return False
        return True

    def _read(self, here: _Here, name: str, was: IndexEntry | None) -> IndexEntry | None:
        try:
            content = read_content(here.fd, name, self.limits.file)
        except NotCovered as reason:
            self._leave_out_file(here, name, str(reason))
            return None
        if content is None:
            return None
        if content.kind == "link" and plain_name(name) == ".gitmodules":
            self._leave_out(here.prefix + name, "a link, which git does not keep under this name")
            return None
        blob = blob_name(content.data)
        if was is None or was[2] != blob:
            self.keep(blob, content.data)
        return (content.stamp, content.kind, blob)

    def _folders(self, here: _Here, entries: list[os.DirEntry[str]], known: Folder) -> None:
        old = known.folders
        known.folders = {}
        for entry in entries:
            name = entry.name
            path = here.prefix + entry.name
            if name in _OURS or self._is_store(here.fd, entry):
                continue
            if name not in old and protected_part(name) is not None:
                self._leave_out(f"{path}/", "a protected name")
                continue
            hidden = here.ignored or here.scope.ignored(path, name, True)
            kept = (
                (self.sticky and name in old)
                or path in self._tracked_folders
                or watched_folder(path)
            )
            if hidden and not kept:
                self._glance(here.fd, name, f"{path}/")
                continue
            folder = old.pop(name, None) or Folder()
            if not self._enter(here, name, folder, hidden):
                self.found.gone.extend(folder.paths(f"{path}/"))
            elif folder.files or folder.folders:
                known.folders[name] = folder
        for name, folder in old.items():
            self.found.gone.extend(folder.paths(f"{here.prefix}{name}/"))

    def _enter(self, here: _Here, name: str, folder: Folder, hidden: bool) -> bool:
        """Scan one folder; False if nothing of it can be covered."""
        prefix = f"{here.prefix}{name}/"
        if here.depth == _DEEPEST:
            self._leave_out(prefix, f"deeper than {_DEEPEST} folders")
            return False
        try:
            inner = open_folder(name, within=here.fd)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                self._leave_out(prefix, f"cannot be read ({os.strerror(error.errno or 0)})")
            return False
        try:
            if self._folder(_Here(inner, prefix, here.scope, hidden, here.depth + 1), folder):
                return True
        finally:
            os.close(inner)
        self._leave_out(prefix, "cannot be listed")
        return False

    def _note_git(self, folder: int, prefix: str, names: set[str]) -> None:
        joined = "".join([f"{name}\0" for name in names])
        if prefix and not _ALL_PLAIN.fullmatch(joined):
            for name in names:
                if not _PLAIN.fullmatch(name) and protected_part(name) is not None:
                    self.found.marks[prefix + name] = _mark(folder, name)
        if "head" in joined.lower() and git_layout(names):
            self.found.marks[f"{prefix}HEAD"] = ""

    def _glance(self, parent: int, name: str, prefix: str) -> None:
        """Look for git's folders below an ignored one by name only; a folder with its old stamp is
        not listed again."""
        if self.stop.is_set():
            raise CheckpointError("the snapshot was interrupted; nothing was changed")
        started = time.time_ns()
        try:
            fd = open_folder(name, within=parent)
        except OSError:
            self.glances.pop(prefix, None)
            return
        try:
            status = os.fstat(fd)
            stamp = trusted(status, status, started)
            known = self.glances.get(prefix)
            if known is None or known[0] != stamp or stamp == NO_STAMP:
                with os.scandir(fd) as listing:
                    entries = list(listing)
                folders = tuple(
                    entry.name for entry in entries if entry.is_dir(follow_symlinks=False)
                )
                names = frozenset(entry.name for entry in entries)
                telling = (
                    names if git_layout(names) or any(map(protected_part, names)) else frozenset()
                )
                known = self.glances[prefix] = (stamp, telling, folders)
            self._note_git(fd, prefix, set(known[1]))
            for inner in known[2]:
                if inner not in _OURS and prefix.count("/") < _DEEPEST:
                    self._glance(fd, inner, f"{prefix}{inner}/")
        except OSError:
            self.glances.pop(prefix, None)
        finally:
            os.close(fd)

    def _is_store(self, parent: int, entry: os.DirEntry[str]) -> bool:
        if entry.inode() != self.skip[1]:
            return False
        try:
            return entry.stat(follow_symlinks=False).st_dev == self.skip[0]
        except OSError:
            return False

    def _leave_out_file(self, here: _Here, name: str, why: str) -> None:
        path = here.prefix + name
        self._leave_out(path, why)
        if watched(path):
            self.found.marks[path] = _stamp_text(here.fd, name)

    def _leave_out(self, path: str, why: str) -> None:
        self.found.left_out.append((path, why))


def _rules(folder: int, name: str) -> str:
    """Return an ignore file's text; like git, follow no link."""
    try:
        content = read_content(folder, name, _LARGEST_RULES)
    except NotCovered:
        return ""
    if content is None or content.kind == "link":
        return ""
    return content.data.decode("utf-8-sig", "surrogateescape")


def _nested_exclude(folder: int) -> str:
    """Return the exclude file of the repository in this folder, if its `.git` is a folder."""
    try:
        fd = open_below(folder, (".git", "info"))
    except OSError:
        return ""
    try:
        return _rules(fd, "exclude")
    finally:
        os.close(fd)


def _mark(folder: int, name: str) -> str:
    """Return a text that changes with everything in a git directory that decides what git runs, or
    with a file."""
    try:
        fd = open_folder(name, within=folder)
    except OSError:
        return _stamp_text(folder, name)
    try:
        hooks = [f"hooks/{hook}" for hook in _listed(fd, "hooks")]
        return " ".join(_stamp_text(fd, inner) for inner in (*GIT_RUNS, *hooks))
    finally:
        os.close(fd)


def _listed(folder: int, name: str) -> list[str]:
    try:
        fd = open_folder(name, within=folder)
    except OSError:
        return []
    try:
        return sorted(os.listdir(fd))  # noqa: PTH208  # a Path has no descriptor to list
    except OSError:
        return []
    finally:
        os.close(fd)


def _stamp_text(folder: int, name: str) -> str:
    try:
        return ",".join(map(str, stamp_of(os.stat(name, dir_fd=folder, follow_symlinks=False))))
    except OSError:
        return "-"


def _folders_of(paths: frozenset[str]) -> set[str]:
    folders: set[str] = set()
    for path in paths:
        head = path.rpartition("/")[0]
        while head and head not in folders:
            folders.add(head)
            head = head.rpartition("/")[0]
    return folders
