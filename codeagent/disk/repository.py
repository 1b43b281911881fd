"""Where the repository of a workspace is (in it, around it, or elsewhere), and the environment that
our git runs in.

A folder of a repository sees the rest of that repository read-only. A linked worktree or a
submodule has a file `.git` that names its git directory. That name is the repository's word and
could be any folder of the user's, so commands read that directory, and commits go to it, only once
the user has agreed to that very directory.
"""

import os
import stat
from hashlib import sha256
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import read_regular

_POINTER = "gitdir: "
_LARGEST = 4096
_PARTS = ("HEAD", "objects", "refs")
"""What every git directory has."""


@dataclass(frozen=True)
class OutsideGit:
    """A git directory that a file `.git` leads to."""

    pointer: Path
    """The file `.git`."""
    directory: Path
    """What git needs of it: with the objects and branches that a worktree shares with others."""
    own: Path
    """The folder below it with the HEAD and index of this linked worktree; the same directory for a
    submodule."""
    device: int
    inode: int

    @property
    def digest(self) -> str:
        """Sixty-four hex digits that name this pointer and this very directory."""
        return sha256(
            f"{self.pointer}\0{self.directory}\0{self.device}\0{self.inode}".encode()
        ).hexdigest()


@dataclass(frozen=True)
class Repository:
    """The repository a workspace belongs to."""

    top: Path
    """Its work tree; the workspace or a folder above it."""
    outside: OutsideGit | None = None
    problem: str = ""
    """Why git does not work in commands, as a phrase; empty if it does."""


def isolated_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a git whose directory and home is `folder`: nothing of the caller's
    is in it.

    It has no configuration of the user or the system, and no program to ask or to page with.
    """
    return {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "HOME": str(folder),
        "GIT_DIR": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def work_tree_of(root: Path) -> Path | None:
    """Return the nearest folder with a `.git`, `root` (absolute, links resolved) or one above it;
    follows no link."""
    return next(
        (folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None
    )


def repository_of(root: Path) -> Repository | None:
    """Find the repository of `root` (absolute, links resolved); follows no link. None if there is
    none."""
    top = work_tree_of(root)
    if top is None:
        return None
    try:
        owner, git = root.stat().st_uid, (top / ".git").lstat()
        if top != root and owner not in (git.st_uid, 0):
            return Repository(top, problem=f"{top / '.git'} belongs to another user")
        if stat.S_ISDIR(git.st_mode):
            return Repository(top)
        if not stat.S_ISREG(git.st_mode):
            return Repository(top, problem=f"{top / '.git'} is neither a folder nor a file")
        outside = _followed(top / ".git", owner)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return Repository(
            top, problem=f"{top / '.git'} does not lead to a git directory ({reason})"
        )
    return Repository(top, outside)


def _followed(pointer: Path, owner: int) -> OutsideGit:
    """Find the git directory that a file `.git` names. Raises OSError, ValueError."""
    own = Path(os.path.realpath(pointer.parent / _text(pointer).removeprefix(_POINTER)))
    directory = own
    if os.path.lexists(own / "commondir"):
        directory = Path(os.path.realpath(own / _text(own / "commondir")))
        if directory not in own.parents:
            raise ValueError("a worktree's own part is not in the directory it shares")
        if Path(os.path.realpath(_text(own / "gitdir"))) != pointer:
            raise ValueError("it does not point back")
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or not all(
        os.path.lexists(directory / name) for name in _PARTS
    ):
        raise ValueError("no git directory is there")
    if owner not in (status.st_uid, 0):
        raise ValueError("it belongs to another user")
    return OutsideGit(pointer, directory, own, status.st_dev, status.st_ino)


def _text(path: Path) -> str:
    """Return the one line of a small regular file. Raises OSError, ValueError."""
    text = read_regular(path, most=_LARGEST + 1).decode().removesuffix("\n")
    if not text or "\n" in text or "\0" in text or len(text) > _LARGEST:
        raise ValueError("it is not one line")
    return text
