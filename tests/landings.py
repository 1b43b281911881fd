"""Lands one change of a workspace: the path is resolved first, as tools do it."""

import os
import stat
from pathlib import Path

from codeagent.changes.change_set import ChangeSet
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.errors import WorkspaceError
from codeagent.workspace.files import LocalWorkspace


def write(workspace: LocalWorkspace, path: str, data: bytes, *, base: bytes | None) -> None:
    """`base` is the content that is expected to be there; None: no file."""
    path = workspace.resolve(path)
    before = None if base is None else node(workspace, path, base)
    after = Node("file", data) if before is None else Node(before.kind, data, before.mode)
    ChangeSet((Change(path, before, after),)).land(workspace)


def remove(workspace: LocalWorkspace, path: str, *, base: bytes) -> None:
    path = workspace.resolve(path)
    ChangeSet((Change(path, node(workspace, path, base), None),)).land(workspace)


def move(workspace: LocalWorkspace, path: str, to: str, *, base: bytes) -> None:
    path, to = workspace.resolve(path), workspace.resolve(to)
    there = node(workspace, path, base)
    ChangeSet((Change(to, there, there, path),)).land(workspace)


def node(workspace: LocalWorkspace, path: str, data: bytes) -> Node:
    """This content, with the mode of the file that is there."""
    try:
        with workspace.open(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except WorkspaceError:
        return Node("file", data)
    return Node("executable" if mode & stat.S_IXUSR else "file", data, mode)


def tree(root: Path) -> dict[str, tuple[str, bytes]]:
    """The kind with the mode, and the content, of everything below that is not a folder."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            found[name] = (oct(stat.S_IMODE(path.stat().st_mode)), path.read_bytes())
    return found
