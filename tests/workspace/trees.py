"""What a folder holds, to compare before and after; and a git for tests to set repositories up
with."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

from codeagent.core.checkpoints import FileChange
from codeagent.workspace.checkpoints import GitCheckpoints

Look = dict[bytes, tuple[str, bytes, int]]
"""Kind, content and permission bits of everything but folders, by its path."""
IDENTITY = (
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@b",
    "-c",
    "init.defaultBranch=main",
    "-c",
    "protocol.file.allow=always",
)


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def look(root: Path, *, within_git: bool = False) -> Look:
    """Files and links; those below any `.git` only on request, and then nothing else."""
    found: Look = {}
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if (path.is_symlink() or not path.is_dir()) and (".git" in relative.parts) == within_git:
            found[os.fsencode(relative)] = _node(path)
    return found


def texts(root: Path) -> set[str]:
    """What the files say that stand directly in the folder."""
    return {path.read_text() for path in root.iterdir()}


def empty(root: Path) -> None:
    """Remove everything but `.git`."""
    for path in root.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _node(path: Path) -> tuple[str, bytes, int]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "link", os.fsencode(path.readlink()), 0
    if not stat.S_ISREG(status.st_mode):
        return "special", b"", status.st_mode
    return "file", path.read_bytes(), stat.S_IMODE(status.st_mode)


async def go_back(checkpoints: GitCheckpoints, target: str) -> tuple[FileChange, ...]:
    """From the workspace as it is now."""
    return await checkpoints.restore(target, present=(await checkpoints.take()).id)
