"""Branch and changes of the user's repository, from a git directory of ours; without GitPython,
which is slow to load.

What a repository's configuration names (hooks, filters, fsmonitor, signing, diff drivers, …) is not
run, because git never sees it. Even `git status` would run fsmonitor, and `filter.*.clean` for
files whose time stamp changed, under names that no option can forbid. Git gets only the
repository's objects, branches and index.
"""

import os
import re
import stat
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from codeagent.core.host_programs import GIT_STATUS, open_program
from codeagent.core.programs import find_program
from codeagent.core.sandbox import CHECK
from codeagent.disk.opens import read_regular
from codeagent.disk.repository import isolated_environment, work_tree_of

LARGEST_HEAD = 4096
_STATUS_SECONDS = 5.0
_PIECE = 1 << 16
_LARGEST = 256 << 20
_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]{1,200}")
_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_GUARDS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "keep",
    "core.splitIndex": "false",
    "core.editor": "true",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.bare": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "credential.helper": "",
    "protocol.allow": "never",
}


class GitStatus(NamedTuple):
    """What the status line shows of a repository."""

    branch: str = ""
    """Empty without git; the first characters of the commit if no branch is checked out."""
    changes: int = 0
    """Files that differ from the last commit, new ones included; 0 if that cannot be told
    safely."""


def make_directory(folder: Path, head: bytes) -> None:
    """Make an empty folder a git directory; `head` is the content of `HEAD`. Raises OSError."""
    for name in ("refs", "objects", "info", "logs"):
        (folder / name).mkdir()
    (folder / "config").write_text(_CONFIG)
    (folder / "HEAD").write_bytes(head)


def guarded(settings: Mapping[str, str]) -> list[str]:
    """Return git's settings as `key=value`: these, and before them those that every git of ours
    gets."""
    return [f"{key}={value}" for key, value in {**_GUARDS, **settings}.items()]


def branch_of(head: bytes) -> str:
    """Return the branch that this content of HEAD leads to; empty for a commit.

    Raises ValueError if it is not as git makes it.
    """
    text = head.strip().decode("utf-8", "replace")
    if _COMMIT.fullmatch(text):
        return ""
    name = text.removeprefix("ref: refs/heads/")
    if name == text or not _BRANCH.fullmatch(name) or ".." in name or name.endswith(("/", ".lock")):
        raise ValueError("HEAD does not lead to a branch")
    return name


def copy_regular(source: Path, target: Path, name: str) -> None:
    """Copy a regular file of a git directory, if it is there, with its time, by which git judges an
    index.

    Raises OSError, also for a link or a pipe.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        found = (source / name).lstat()
        data = read_regular(source / name, largest=_LARGEST)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
        os.utime(target / name, ns=(found.st_atime_ns, found.st_mtime_ns))


def git_status(root: Path) -> GitStatus:
    """Read branch and number of changed files of the repository this folder is in; blocks as long
    as `git status`.

    A repository whose `.git` is not a plain directory (linked worktrees, submodules) is not read:
    where its pointer leads is the repository's word. Nor is one that belongs to somebody else,
    which git itself refuses. Never raises.
    """
    top = work_tree_of(root) or root
    folder = top / ".git"
    try:
        found = folder.lstat()
        if (
            not stat.S_ISDIR(found.st_mode)
            or found.st_uid != os.getuid()
            or (folder / "reftable").exists()
        ):
            return GitStatus()
        program = find_program("git", top)
        head = read_regular(folder / "HEAD", most=LARGEST_HEAD)
        shown = branch_of(head) or head.strip().decode()[:8]
    except (OSError, ValueError):
        return GitStatus()
    try:
        return GitStatus(shown, _changes(program, head, top, root) if program else 0)
    except (OSError, subprocess.SubprocessError):
        return GitStatus(shown)


def _changes(program: str, head: bytes, top: Path, root: Path) -> int:
    """Count the changed files below `root`. Raises OSError, subprocess.SubprocessError."""
    branch = branch_of(head)
    with tempfile.TemporaryDirectory(prefix="codeagent-git-") as own:
        make_directory(Path(own), head)
        for name in (
            "index",
            "info/exclude",
            "packed-refs",
            *([f"refs/heads/{branch}"] if branch else []),
        ):
            copy_regular(top / ".git", Path(own), name)
        places = {"GIT_WORK_TREE": str(top), "GIT_OBJECT_DIRECTORY": str(top / ".git/objects")}
        ignored = Path(own) / "ignored"
        ignored.write_text(f"{CHECK}*\n", encoding="ascii")
        own_settings = {"core.untrackedCache": "false", "core.excludesFile": str(ignored)}
        settings = [word for setting in guarded(own_settings) for word in ("-c", setting)]
        options = (
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
            "--untracked-files=normal",
        )
        with open_program(
            GIT_STATUS,
            [program, "--no-pager", *settings, "status", *options, "--", str(root)],
            folder=own,
            environment=isolated_environment(Path(own)) | places,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            deadline = threading.Timer(_STATUS_SECONDS, process.kill)
            deadline.start()
            assert process.stdout is not None
            changes = sum(
                piece.count(b"\0") for piece in iter(partial(process.stdout.read, _PIECE), b"")
            )
        deadline.cancel()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, program)
    return changes
