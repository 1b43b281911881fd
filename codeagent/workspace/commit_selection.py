"""Selects the files of a commit and what git will store of each; refuses what only a program could
store.

The files are read beneath the workspace's own descriptor: git opens none of them.
"""

import os
import posixpath
import stat
from typing import TYPE_CHECKING, Literal

from codeagent.core.changes import CommitRefused
from codeagent.core.dataclass import dataclass
from codeagent.core.paths import plain_name, secret_reason
from codeagent.core.ports import Workspace
from codeagent.disk.opens import closing_fd, open_folder
from codeagent.workspace.snapshots.contents import Content, NotCovered, read_content

if TYPE_CHECKING:  # it loads GitPython
    from codeagent.workspace.repository import ShadowGit

_MOST_FILES = 1000
_SUBMODULE = "160000"
_NOTHING = "0" * 40
LARGEST_FILE = 100 << 20
"""Bytes; anything larger hardly belongs in a repository."""
_MODES = {"file": "100644", "executable": "100755", "link": "120000"}


Found = Content | Literal["folder"] | None
"""What is at a path now."""


@dataclass(frozen=True)
class Selection:
    """The files of one commit."""

    entries: tuple[tuple[str, str, str], ...]
    """Path, mode and blob; mode `0` for a deleted file."""
    prefix: str
    """See CommitRepository; the paths are the workspace's, without it."""

    def index_info(self) -> bytes:
        """Return input for `git update-index -z --index-info`; deletions first, so that a folder
        can replace a file."""
        rows = sorted(self.entries, key=lambda entry: entry[1] != "0")
        return b"".join(
            os.fsencode(f"{mode} {blob}\t{self.prefix}{path}\0") for path, mode, blob in rows
        )


def select(
    git: "ShadowGit", workspace: Workspace, paths: tuple[str, ...], parent: str, prefix: str
) -> Selection:
    """Read the files and write their blobs to the directory of ours. Raises CommitRefused,
    WorkspaceError."""
    named = list(dict.fromkeys(workspace.relative(path) for path in paths))
    _refuse_names(named)
    known = _known(git, named, parent)
    found: dict[str, Content | None] = {}
    for path in named:
        there = _on_disk(workspace, path)
        if there == "folder":
            inside = {file: _on_disk(workspace, file) for file in _below(git, path, parent)}
            found |= {file: None if there == "folder" else there for file, there in inside.items()}
            continue
        if there is None and path not in known:
            raise CommitRefused(f"{path} does not exist and git does not know it; check the path")
        found[path] = there
    if len(found) > _MOST_FILES:
        raise CommitRefused(f"these are {len(found)} files; commit at most {_MOST_FILES} at once")
    present = [path for path, there in found.items() if there is not None]
    _refuse_ignored(git, present)
    _refuse_filtered(git, present)
    return Selection(tuple(_entry(git, path, there) for path, there in found.items()), prefix)


def _entry(git: "ShadowGit", path: str, there: Content | None) -> tuple[str, str, str]:
    if there is None:
        return path, "0", _NOTHING
    how = "--no-filters" if there.kind == "link" else f"--path={path}"
    blob = git.run("hash-object", "-w", "--stdin", how, stdin=there.data).decode().strip()
    return path, _MODES[there.kind], blob


def _refuse_names(named: list[str]) -> None:
    for path in named:
        if any(plain_name(part) == ".git" or part.lower() == ".git" for part in path.split("/")):
            raise CommitRefused(f"{path} belongs to git itself and is never committed")


def _known(git: "ShadowGit", named: list[str], parent: str) -> frozenset[str]:
    """Return which of the paths, and what below them, git has in the index or the last commit.
    Raises CommitRefused."""
    command = ("ls-files", "-t", "--stage", "-z", "--", *named)
    rows = git.run(*command).split(b"\0")
    if parent:
        rows += git.run(*command, index=git.committed).split(b"\0")
    known = set()
    for row in filter(None, rows):
        facts, _, raw = row.partition(b"\t")
        tag, mode = facts.decode().split(" ")[:2]
        path = os.fsdecode(raw)
        if path in named and mode == _SUBMODULE:
            raise CommitRefused(f"{path} is a submodule; ask the user to commit it")
        if path in named and tag == "S":
            raise CommitRefused(f"{path} is outside the sparse checkout; ask the user to commit it")
        known.add(path)
    return frozenset(known)


def _below(git: "ShadowGit", folder: str, parent: str) -> list[str]:
    """List what below a folder differs from the last commit, or is new and not ignored. Raises
    CommitRefused."""
    unstaged = "ls-files -z --modified --deleted --others --exclude-standard --"
    staged = "diff-index --cached -z --relative --name-only --no-renames"
    out = git.run(*unstaged.split(), folder)
    if parent:
        out += git.run(*staged.split(), parent, "--", folder)
    else:
        out += git.run("ls-files", "-z", "--", folder)
    paths = sorted({os.fsdecode(raw) for raw in out.split(b"\0") if raw})
    for path in paths:
        if path.endswith("/"):
            raise CommitRefused(
                f"{path} is a repository of its own; name the files beside it one by one"
            )
        if reason := secret_reason(path):
            raise CommitRefused(f"{reason}; to commit it all the same, name the file itself")
    _known(git, paths, parent)
    return paths


def _refuse_ignored(git: "ShadowGit", paths: list[str]) -> None:
    lines = os.fsencode("".join(f"./{path}\0" for path in paths))
    out = git.run("check-ignore", "-z", "--stdin", stdin=lines, codes=(0, 1))
    for path in filter(None, out.split(b"\0")):
        name = os.fsdecode(path).removeprefix("./")
        raise CommitRefused(
            f"{name} is ignored (.gitignore); leave it out, or ask the user to add it"
        )


def _refuse_filtered(git: "ShadowGit", paths: list[str]) -> None:
    """Refuse files with a filter: their content would have to be run through a program."""
    lines = os.fsencode("".join(f"{path}\0" for path in paths))
    out = git.run("check-attr", "-z", "--stdin", "filter", stdin=lines).split(b"\0")
    for path, value in zip(out[0::3], out[2::3], strict=False):
        if value not in (b"unspecified", b"unset"):
            name, through = os.fsdecode(path), value.decode("utf-8", "replace")
            raise CommitRefused(
                f"{name} is stored through a filter ({through}), which is not run here; ask the user to commit it"
            )


def _on_disk(workspace: Workspace, path: str) -> Found:
    """Read what is at the path, None if nothing; no link is followed in it. Raises CommitRefused,
    WorkspaceError."""
    if path == ".":
        return "folder"
    head, name = posixpath.split(path)
    folder = os.dup(workspace.descriptor())
    try:
        for part in head.split("/") if head else []:
            folder = _entered(folder, part, path)
            if _holds_repository(folder):
                raise CommitRefused(
                    f"{path} is in a repository of its own; ask the user to commit it there"
                )
        content = read_content(folder, name, LARGEST_FILE)
        if content is not None:
            return content
        with closing_fd(open_folder(name, within=folder)) as inner:
            if _holds_repository(inner):
                raise CommitRefused(
                    f"{path} is a repository of its own (a submodule?); ask the user to commit it"
                )
        return "folder"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotCovered as reason:
        raise CommitRefused(f"{path} cannot be committed: it is {reason}") from None
    except OSError as error:
        raise CommitRefused(f"{path} cannot be read: {error.strerror}") from None
    finally:
        os.close(folder)


def _holds_repository(folder: int) -> bool:
    try:
        os.stat(".git", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _entered(folder: int, part: str, path: str) -> int:
    """Open the folder `part` and close the one it is in. Raises OSError, CommitRefused."""
    try:
        inner = open_folder(part, within=folder)
    except OSError:
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            raise CommitRefused(f"{path} is reached through a link; name the file itself") from None
        raise
    os.close(folder)
    return inner
