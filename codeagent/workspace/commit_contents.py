"""The files of a commit as they are on disk, read beneath the workspace's own descriptor: git opens none of them."""

import os
import posixpath
import stat
from dataclasses import dataclass

from codeagent.core.commits import CommitRefused
from codeagent.core.ports import Workspace
from codeagent.workspace.snapshots.contents import FOLDER, NotCovered, read_content

LARGEST_FILE = 100 << 20
"""Bytes; what is larger hardly belongs into a repository."""
_MODES = {"file": "100644", "executable": "100755", "link": "120000"}


@dataclass(frozen=True)
class OnDisk:
    """What a path holds now."""

    mode: str
    """As git writes it; `040000` for a folder."""
    data: bytes = b""


def on_disk(workspace: Workspace, path: str) -> OnDisk | None:
    """None where nothing is. No link is followed anywhere in the path. Raises CommitRefused, WorkspaceError."""
    if path == ".":
        return OnDisk("040000")
    head, name = posixpath.split(path)
    folder = os.dup(workspace.descriptor())
    try:
        for part in head.split("/") if head else []:
            folder = _entered(folder, part, path)
            if _holds_repository(folder):
                raise CommitRefused(f"{path} is in a repository of its own; it is committed there, by the person")
        content = read_content(folder, name, LARGEST_FILE)
        if content is not None:
            return OnDisk(_MODES[content.kind], content.data)
        return _folder(folder, name, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotCovered as reason:
        raise CommitRefused(f"{path} cannot be committed: it is {reason}") from None
    except OSError as error:
        raise CommitRefused(f"{path} cannot be read: {error.strerror}") from None
    finally:
        os.close(folder)


def _folder(parent: int, name: str, path: str) -> OnDisk | None:
    try:
        fd = os.open(name, FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return None
    try:
        if _holds_repository(fd):
            raise CommitRefused(f"{path} is a repository of its own (a submodule?); it is committed by the person")
    finally:
        os.close(fd)
    return OnDisk("040000")


def _holds_repository(folder: int) -> bool:
    try:
        os.stat(".git", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _entered(folder: int, part: str, path: str) -> int:
    """The folder in the folder, in whose place it is held. Raises OSError, CommitRefused."""
    try:
        inner = os.open(part, FOLDER, dir_fd=folder)
    except OSError:
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            raise CommitRefused(f"{path} is reached over a link; name the file itself") from None
        raise
    os.close(folder)
    return inner
