"""The files of a commit as they are on disk, read beneath the workspace's own descriptor: git opens none of them."""

import os
import posixpath
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
            inner = os.open(part, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
            if _holds_repository(folder):
                raise CommitRefused(f"{path} is in a repository of its own; it is committed there, by the person")
        content = read_content(folder, name, LARGEST_FILE)
        if content is not None:
            return OnDisk(_MODES[content.kind], content.data)
        return _folder(folder, name, path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        if _has_link(workspace, head):
            raise CommitRefused(f"{path} is reached over a link; name the file itself") from None
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


def _has_link(workspace: Workspace, head: str) -> bool:
    """Opening a link as a folder says only that it is none."""
    folder = os.dup(workspace.descriptor())
    try:
        for part in head.split("/"):
            inner = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
            if (os.fstat(folder).st_mode & 0o170000) == 0o120000:
                return True
    except OSError:
        return False
    finally:
        os.close(folder)
    return False
