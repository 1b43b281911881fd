"""What containers see of the workspace: its root, held open, what is protected in it, and files
masked as secrets."""

import os
import re
import stat
import threading
import time
from collections import deque
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import protected_part, secret_reason
from codeagent.core.sanitize import visible
from codeagent.disk.opens import closing_fd, open_below, open_file, open_folder

EntryKind = Literal["directory", "file", "link", "other"]
_REFUSED = (
    "/",
    "/usr",
    "/etc",
    "/var",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/boot",
    "/home",
    "/root",
    "/tmp",
    "/opt",
)
_REFUSED_BELOW = ("/proc", "/sys", "/dev")
_MOUNTINFO = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
_ESCAPED = lazy_regex(rb"\\([0-7]{3})")
MOST_FILES = 100
MOST_ENTRIES = 200_000
"""Entries searched, the least deep first; `complete` says if a larger tree was not searched to its
end."""
_SKIPPED = frozenset(
    {
        ".git",
        "node_modules",
        ".venv",
        "venv",
        "site-packages",
        "__pycache__",
        ".tox",
        ".nox",
        ".mypy_cache",
        "target",
        "test",
        "tests",
        "testdata",
        "fixtures",
        "examples",
    }
)
"""Keys below folders of tests and examples are test data and stay readable."""
_OFTEN_PUBLIC = lazy_regex(r".+\.(pem|key|asc)|\.npmrc", re.IGNORECASE)
"""Certificates and package settings: secret only if they contain one of the marks below."""
_MARKS = (b"PRIVATE KEY", b"_auth", b"_password")
_LOOKED_AT = 64 * 1024
NOT_ALL_MASKED = "not all of it could be searched for files that look like secrets"
_SETTLED_NS = 2_000_000_000
"""A folder whose time stamp is younger may change once more within the same tick of the file
system's clock."""


@dataclass(frozen=True)
class PinnedEntry:
    """Something below the root, as it was at one moment."""

    path: str
    """Absolute."""
    name: str
    """Relative to the root."""
    kind: EntryKind
    device: int
    inode: int


class PinnedRoot:
    """A directory held by descriptor."""

    def __init__(self, path: Path) -> None:
        """Raises SandboxUnavailable if `path` is not a directory or is reached through a link."""
        self.path = path
        top = open_folder("/", listed=False)
        try:
            self.fd = open_below(top, path.parts[1:])
        except OSError as error:
            problem = f"the workspace {path} cannot be opened: {error.strerror}"
            raise SandboxUnavailable(problem, "check that it exists and is not a link") from error
        finally:
            os.close(top)
        status = os.fstat(self.fd)
        self.uid = status.st_uid
        self.gid = status.st_gid
        self._identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        os.close(self.fd)

    def listed(self) -> AbstractContextManager[int]:
        """Open it for the block so that it can be listed."""
        return closing_fd(open_folder(".", within=self.fd))

    def refuse_moved(self) -> None:
        """Raise SandboxUnavailable unless the path still leads to this very directory."""
        with suppress(OSError):
            now = os.lstat(self.path)
            if (now.st_dev, now.st_ino) == self._identity:
                return
        raise SandboxUnavailable(
            f"the workspace {self.path} was moved or replaced", "start codeagent again there"
        )

    def find(self, name: str) -> PinnedEntry | None:
        """Return what is at `name` (relative), a link itself and not its target; None if nothing
        is."""
        try:
            fd, last = folder_of(self.fd, name)
        except OSError:
            return None
        try:
            status = os.stat(last, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return None
        finally:
            os.close(fd)
        return PinnedEntry(
            f"{self.path}/{name}", name, _kind(status.st_mode), status.st_dev, status.st_ino
        )

    def protected(self) -> tuple[PinnedEntry, ...]:
        """Return every spelling of `.git` and `.codeagent` directly below the root."""
        with self.listed() as fd:
            names = sorted(name for name in os.listdir(fd) if protected_part(name))  # noqa: PTH208  # a descriptor, no path
        return tuple(found for found in map(self.find, names) if found is not None)


def folder_of(root: int, name: str) -> tuple[int, str]:
    """Open the folder below `root` that `name` is in, for the caller to close; return it and the
    last part.

    No link is followed. Raises OSError.
    """
    *parents, last = name.split("/")
    return open_below(root, parents), last


def refuse_unsuitable(root: Path, home: Path, private: tuple[Path, ...]) -> None:
    """Raise SandboxUnavailable for a root that would show more than a workspace.

    `private` are paths that must not be inside: the state directory, the engine's socket.
    """
    text = str(root)
    if not text.isascii() and not is_utf8(text):
        raise SandboxUnavailable(
            f"the name {visible(text)} is not UTF-8, which the Docker engine needs",
            "rename the folder",
        )
    if text in _REFUSED or any(_contains(Path(top), root) for top in _REFUSED_BELOW):
        raise SandboxUnavailable(
            f"{root} is a system directory, not a workspace", "start codeagent in a project"
        )
    if _contains(root, home):
        raise SandboxUnavailable(
            f"{root} contains your home directory", "start codeagent in a project below it"
        )
    for path in private:
        if _contains(root, Path(os.path.realpath(path))):
            raise SandboxUnavailable(
                f"{root} contains {path}, which no command may see", "start in another directory"
            )


def is_utf8(name: str) -> bool:
    """Tell whether a file's name, as Python has it, is UTF-8 on disk."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _contains(outer: Path, inner: Path) -> bool:
    return inner == outer or outer in inner.parents


def _kind(mode: int) -> EntryKind:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def submounts(root: Path) -> tuple[str, ...]:
    """Return where file systems are mounted below the root; none if the system does not list its
    mounts.

    A read-only mount of the workspace leaves them writable.
    """
    try:
        lines = _MOUNTINFO.read_bytes().splitlines()
    except OSError:
        return ()
    raw = (
        _ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), line.split()[_MOUNT_POINT])
        for line in lines
    )
    below = os.fsencode(root) + b"/"
    return tuple(dict.fromkeys(os.fsdecode(path) for path in raw if path.startswith(below)))


@dataclass(frozen=True)
class Secrets:
    masked: frozenset[PinnedEntry]
    """Files that look like secrets, MOST_FILES at the most."""
    complete: bool
    """Whether the whole tree was searched, and every such file is among them."""


@dataclass(frozen=True)
class _Folder:
    """One folder as it was listed."""

    identity: tuple[int, int, int]
    """Device, inode, and time of the last change of its entries, in nanoseconds."""
    folders: tuple[str, ...]
    suspects: tuple[str, ...]
    """Files whose names look like secrets."""
    entries: int


class SecretScan:
    """Searches one tree; folders that did not change since the last search are not listed again."""

    def __init__(
        self, root: PinnedRoot, without: str = "", most_entries: int = MOST_ENTRIES
    ) -> None:
        """`without`: a folder, relative to the root, that is not searched."""
        self._root = root
        self._without = without
        self._most_entries = most_entries
        self._known: dict[str, _Folder] = {}
        self._turn = threading.Lock()

    def look(self) -> Secrets:
        """Search; blocks for milliseconds if little changed, for a second on a large tree at
        first."""
        with self._turn:
            return self._look()

    def _look(self) -> Secrets:
        known: dict[str, _Folder] = {}
        found: list[PinnedEntry] = []
        pending = deque([""])
        entries = 0
        while pending and entries <= self._most_entries and len(found) <= MOST_FILES:
            name = pending.popleft()
            folder = self._folder(name)
            if folder is None:
                continue
            known[name] = folder
            entries += folder.entries
            pending.extend(
                path
                for path in (_joined(name, inner) for inner in folder.folders)
                if path != self._without
            )
            for suspect in folder.suspects:
                seen = self._root.find(_joined(name, suspect))
                if seen is not None and seen.kind == "file" and self._holds_secret(seen.name):
                    found.append(seen)
        self._known = {name: folder for name, folder in known.items() if folder.identity[2] >= 0}
        return Secrets(
            frozenset(found[:MOST_FILES]),
            not pending and entries <= self._most_entries and len(found) <= MOST_FILES,
        )

    def _folder(self, name: str) -> _Folder | None:
        try:
            fd = open_folder(name or ".", within=self._root.fd)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
            known = self._known.get(name)
            if known is not None and known.identity == identity:
                return known
            if time.time_ns() - status.st_mtime_ns < _SETTLED_NS:
                identity = (status.st_dev, status.st_ino, -1)
            with os.scandir(fd) as listed:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed]
        except OSError:
            return None
        finally:
            os.close(fd)
        folders = tuple(
            sorted(
                each for each, is_folder in entries if is_folder and each.lower() not in _SKIPPED
            )
        )
        suspects = tuple(
            sorted(each for each, is_folder in entries if not is_folder and secret_reason(each))
        )
        return _Folder(identity, folders, suspects, len(entries))

    def _holds_secret(self, name: str) -> bool:
        if not _OFTEN_PUBLIC.fullmatch(Path(name).name):
            return True
        try:
            fd = open_file(name, within=self._root.fd)
        except OSError:
            return True
        with os.fdopen(fd, "rb") as file:
            return is_secret(
                name, file.read(_LOOKED_AT) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
            )


def is_secret(path: str, head: bytes) -> bool:
    """Whether the file, which begins with `head`, is masked in containers; the folder it is in does
    not count."""
    if secret_reason(path) is None:
        return False
    return not _OFTEN_PUBLIC.fullmatch(Path(path).name) or any(
        mark in head[:_LOOKED_AT] for mark in _MARKS
    )


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
