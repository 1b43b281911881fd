"""Branch and number of changed files, read so that nothing the repository holds is run.

`git status` in a repository runs what its configuration names: fsmonitor, and `filter.*.clean` for files whose time
stamp changed, under names no option can forbid. So git never sees that configuration: it gets a git directory of ours,
without one, and only the index and the objects of the repository. A filter that nobody configured is not run.
A repository whose `.git` is not a plain directory (linked worktrees, submodules) is not read: where its pointer leads
is the repository's word. Nor is one that belongs to somebody else, which git itself refuses too.
"""

import os
import re
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.programs import find_program

_SECONDS = 5.0
_LARGEST_REFS = 32 << 20
_HASH = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"refs/heads/(?P<branch>[^\x00-\x20\x7f]{1,200})")
_OPTIONS = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    f"core.hooksPath={os.devnull}",
    "core.splitIndex=false",
)


@dataclass(frozen=True)
class GitFacts:
    branch: str = ""
    """Empty without git; the first characters of the commit where no branch is checked out."""
    changes: int = 0
    """Files that differ from the last commit, new ones included; 0 where that cannot be told safely."""


def git_facts(root: Path) -> GitFacts:
    """Of the repository this folder is in; blocks for as long as `git status` takes. Never raises."""
    top = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), root)
    folder = top / ".git"
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or (folder / "reftable").exists():
            return GitFacts()
        branch, commit = _head(folder)
    except (OSError, ValueError):
        return GitFacts()
    git = find_program("git", top)
    if git is None:
        return GitFacts(branch)
    try:
        return GitFacts(branch, _changes(git, top, commit, root))
    except (OSError, subprocess.SubprocessError):
        return GitFacts(branch)


def _head(folder: Path) -> tuple[str, str]:
    """Branch, and the commit's hash; empty before the first commit. Raises OSError, ValueError."""
    head = _text(folder / "HEAD").strip()
    if _HASH.fullmatch(head):
        return head[:8], head
    match = _REF.fullmatch(head.removeprefix("ref: "))
    if match is None:
        raise ValueError("HEAD is no branch")
    return match["branch"], _commit(folder, match[0])


def _commit(folder: Path, ref: str) -> str:
    try:
        found = "" if ".." in ref else _text(folder / ref).strip()
    except OSError:
        found = ""
    if found and not _HASH.fullmatch(found):
        raise ValueError("a hash of another kind")
    if found:
        return found
    try:
        lines = _text(folder / "packed-refs").splitlines()
    except OSError:
        return ""
    packed = (line.split(" ", 1) for line in lines if not line.startswith(("#", "^")))
    return next((words[0] for words in packed if words[1:] == [ref] and _HASH.fullmatch(words[0])), "")


def _text(path: Path) -> str:
    """A regular file's text, no link followed. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("no regular file")
        return file.read(_LARGEST_REFS).decode("utf-8", "replace")


def _changes(git: str, top: Path, commit: str, root: Path) -> int:
    """Below `root` only. Raises OSError, SubprocessError."""
    folder = top / ".git"
    with tempfile.TemporaryDirectory(prefix="codeagent-git-") as own:
        shadow = Path(own)
        for name in ("refs", "objects"):
            (shadow / name).mkdir()
        (shadow / "HEAD").write_text(f"{commit}\n" if commit else "ref: refs/heads/none\n")
        (shadow / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        index = shadow / "index"
        if data := _bytes(folder / "index"):
            index.write_bytes(data)
        environment = {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "HOME": own,
            "GIT_DIR": own,
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
        }
        settings = (*_OPTIONS, f"core.excludesFile={folder / 'info/exclude'}")
        options = [word for setting in settings for word in ("-c", setting)]
        arguments = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
            "--untracked-files=normal",
        ]
        done = subprocess.run(
            [git, *options, *arguments, "--", str(root)],
            cwd=top,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        )
        return done.stdout.count(b"\0")


def _bytes(path: Path) -> bytes:
    """The index; empty where nothing was ever added. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("no regular file")
        return file.read()
