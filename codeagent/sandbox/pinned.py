"""The workspace's root, opened once: what may be mounted is looked at beneath it, links never followed."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.paths import protected_part
from codeagent.core.sanitize import visible

Kind = Literal["directory", "file", "link", "other"]
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_REFUSED = ("/", "/usr", "/etc", "/var", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/home", "/root", "/tmp", "/opt")
_REFUSED_BELOW = ("/proc", "/sys", "/dev")


@dataclass(frozen=True)
class Found:
    """Something below the root, as it was at one moment."""

    name: str
    """Relative to the root."""
    kind: Kind
    device: int
    inode: int


class PinnedRoot:
    """A directory held by descriptor."""

    def __init__(self, path: Path) -> None:
        """Raises SandboxUnavailable where `path` is no directory or is reached over a link."""
        self.path = path
        self.fd = _open_each(path)
        status = os.fstat(self.fd)
        self.uid, self.gid = status.st_uid, status.st_gid
        self._identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        os.close(self.fd)

    def unmoved(self) -> bool:
        """Whether the path still leads to this very directory."""
        try:
            now = os.lstat(self.path)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == self._identity

    def find(self, name: str) -> Found | None:
        """What `name` (relative) is, itself and not what it links to; None where nothing is."""
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
        return Found(name, _kind(status.st_mode), status.st_dev, status.st_ino)

    def protected(self) -> tuple[Found, ...]:
        """Every spelling of `.git` and `.codeagent` directly below the root."""
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.fd)
        try:
            names = sorted(name for name in os.listdir(fd) if protected_part(name))  # noqa: PTH208  # a descriptor, no path
        finally:
            os.close(fd)
        return tuple(found for found in map(self.find, names) if found is not None)


def folder_of(root: int, name: str) -> tuple[int, str]:
    """The open folder below `root` that `name` is in, to be closed by the caller, and its last part.

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
    """Raises SandboxUnavailable for a root that would show more than a workspace.

    `private` are paths that must not come to lie inside: the state directory, the engine's socket.
    """
    text = str(root)
    if not text.isascii() and not is_utf8(text):
        raise SandboxUnavailable(
            f"the name {visible(text)} is not UTF-8, and the Docker engine takes no other", "rename the folder"
        )
    if text in _REFUSED or any(_contains(Path(top), root) for top in _REFUSED_BELOW):
        raise SandboxUnavailable(f"{root} is a system directory, not a workspace", "start codeagent in a project")
    if _contains(root, home):
        raise SandboxUnavailable(f"{root} holds your home directory", "start codeagent in a project below it")
    for path in private:
        if _contains(root, Path(os.path.realpath(path))):
            raise SandboxUnavailable(f"{root} holds {path}, which no command may reach", "start in another directory")


def is_utf8(name: str) -> bool:
    """Whether a file's name, as Python has it, was UTF-8 on disk."""
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
        raise SandboxUnavailable(problem, "check that it exists and is no link") from error
    return fd


def _kind(mode: int) -> Kind:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"
