"""Holds the workspace's root open: what is to be mounted is examined beneath it, and links are never followed."""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.paths import protected_part
from codeagent.core.sanitize import visible

EntryKind = Literal["directory", "file", "link", "other"]
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_REFUSED = ("/", "/usr", "/etc", "/var", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/home", "/root", "/tmp", "/opt")
_REFUSED_BELOW = ("/proc", "/sys", "/dev")
_MOUNTS = Path("/proc/self/mountinfo")
_WHERE = 4
_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class PinnedEntry:
    """Something below the root, as it was at one moment."""

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
        self.fd = _open_each(path)
        status = os.fstat(self.fd)
        self.uid, self.gid = status.st_uid, status.st_gid
        self._identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        os.close(self.fd)

    def unmoved(self) -> bool:
        """Tell whether the path still leads to this very directory."""
        try:
            now = os.lstat(self.path)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == self._identity

    def find(self, name: str) -> PinnedEntry | None:
        """Return what is at `name` (relative), a link itself and not its target; None if nothing is."""
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
        return PinnedEntry(name, _kind(status.st_mode), status.st_dev, status.st_ino)

    def protected(self) -> tuple[PinnedEntry, ...]:
        """Return every spelling of `.git` and `.codeagent` directly below the root."""
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.fd)
        try:
            names = sorted(name for name in os.listdir(fd) if protected_part(name))  # noqa: PTH208  # a descriptor, no path
        finally:
            os.close(fd)
        return tuple(found for found in map(self.find, names) if found is not None)


def folder_of(root: int, name: str) -> tuple[int, str]:
    """Open the folder below `root` that `name` is in, for the caller to close; return it and the last part.

    No link is followed. Raises OSError.
    """
    *parents, last = name.split("/")
    fd = os.dup(root)
    try:
        for part in parents:
            inner = os.open(part, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
    except OSError:
        os.close(fd)
        raise
    return fd, last


def refuse_unsuitable(root: Path, home: Path, private: tuple[Path, ...]) -> None:
    """Raise SandboxUnavailable for a root that would show more than a workspace.

    `private` are paths that must not be inside: the state directory, the engine's socket.
    """
    text = str(root)
    if not text.isascii() and not is_utf8(text):
        raise SandboxUnavailable(
            f"the name {visible(text)} is not UTF-8, which the Docker engine needs", "rename the folder"
        )
    if text in _REFUSED or any(_contains(Path(top), root) for top in _REFUSED_BELOW):
        raise SandboxUnavailable(f"{root} is a system directory, not a workspace", "start codeagent in a project")
    if _contains(root, home):
        raise SandboxUnavailable(f"{root} holds your home directory", "start codeagent in a project below it")
    for path in private:
        if _contains(root, Path(os.path.realpath(path))):
            raise SandboxUnavailable(f"{root} holds {path}, which no command may see", "start in another directory")


def is_utf8(name: str) -> bool:
    """Tell whether a file's name, as Python has it, is UTF-8 on disk."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _contains(outer: Path, inner: Path) -> bool:
    return inner == outer or outer in inner.parents


def _open_each(path: Path) -> int:
    fd = os.open("/", _PATH_ONLY | os.O_DIRECTORY)
    try:
        for part in path.parts[1:]:
            inner = os.open(part, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
    except OSError as error:
        os.close(fd)
        problem = f"the workspace {path} cannot be opened: {error.strerror}"
        raise SandboxUnavailable(problem, "check that it exists and is not a link") from error
    return fd


def _kind(mode: int) -> EntryKind:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def submounts(root: Path) -> tuple[str, ...]:
    """Return where file systems are mounted below the root; none if the system does not list its mounts.

    A read-only mount of the workspace leaves them writable.
    """
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return ()
    raw = (_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), line.split()[_WHERE]) for line in lines)
    below = os.fsencode(root) + b"/"
    return tuple(dict.fromkeys(os.fsdecode(path) for path in raw if path.startswith(below)))
