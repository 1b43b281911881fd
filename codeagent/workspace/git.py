"""Git on the user's repository, over git directories of ours: the one importer of GitPython, which is slow to load.

What a repository's configuration names (hooks, filters, fsmonitor, signing, diff drivers, …) is not run, because git
never sees it. Even `git status` would run fsmonitor, and `filter.*.clean` for files whose time stamp changed, under
names that no option can forbid. Git gets only the repository's objects, branches and index. GitPython itself reads
nothing but copies that we made of regular files: it would follow a link, wait for a pipe, or read a device.
"""

import os
import re
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from codeagent.core.programs import find_program
from codeagent.disk.opens import read_regular
from codeagent.disk.repository import isolated_environment, work_tree_of

_NO_GIT = {"GIT_PYTHON_REFRESH": "quiet", "GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git"}
"""Hides every git from GitPython, which would run the first one on PATH as soon as it is imported."""
_NO_REPOSITORY = dict.fromkeys(("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"))
"""Variables that lead GitPython to another repository than the one it is given."""
_changing = threading.Lock()


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change this process's environment while GitPython reads it; None removes a variable."""
    with _changing:
        before = {name: os.environ.pop(name, None) for name in changes}
        os.environ.update({name: value for name, value in changes.items() if value is not None})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


with _environment(_NO_GIT):
    from git import Git, Head, Repo, SymbolicReference
    from git.exc import GitError

_ENV = "/usr/bin/env"
_STATUS_SECONDS = 5.0
_LARGEST = 256 << 20
LARGEST_HEAD = 4096
_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]{1,200}")
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
FAILURES = (OSError, subprocess.SubprocessError, GitError)
"""What running git may raise."""


class GitStatus(NamedTuple):
    """What the status line shows of a repository."""

    branch: str = ""
    """Empty without git; the first characters of the commit if no branch is checked out."""
    changes: int = 0
    """Files that differ from the last commit, new ones included; 0 if that cannot be told safely."""


class IsolatedGit(Git):
    """GitPython's git as one program that we chose, in an environment that is `environment()` and nothing else."""

    program: str

    def execute(self, command: Any, *arguments: Any, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        """Run a command with our program in place of GitPython's; everything else is done as GitPython does it."""
        variables = {**self.environment(), **(env or {})}
        words = [f"{name}={value}" for name, value in variables.items()]
        return super().execute([_ENV, "-i", *words, self.program, *command[1:]], *arguments, **options)

    def completed(
        self, folder: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, seconds: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in `folder` to its end, killed after `seconds`. Raises `FAILURES`."""
        command = getattr(self(C=folder), arguments[0])
        process = command(*arguments[1:], istream=subprocess.PIPE, as_process=True, env=env)
        try:
            out, errors = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


class GitDirectory(Repo):
    """A temporary git directory of ours; as a context manager it closes itself."""

    GitCommandWrapperType = IsolatedGit
    git: IsolatedGit

    def __init__(self, folder: Path, head: bytes, program: str = "") -> None:
        """Make it in an empty folder; `head` is the content of `HEAD`. Raises OSError, GitError for a broken HEAD."""
        for name in ("refs", "objects", "info", "logs"):
            (folder / name).mkdir()
        (folder / "config").write_text(_CONFIG)
        (folder / "HEAD").write_bytes(head)
        with _environment(_NO_REPOSITORY):
            super().__init__(folder, expand_vars=False)
        self.folder = folder
        self._written = head.strip().decode("utf-8", "replace")
        self.git.program = program

    def __enter__(self) -> Self:
        return self

    def isolate(self, variables: Mapping[str, str], settings: Mapping[str, str]) -> None:
        """Set git's variables and settings, in addition to those that every git of ours gets."""
        self.git.update_environment(**isolated_environment(self.folder), **variables)
        options = {**_GUARDS, **settings}
        self.git.set_persistent_git_options(no_pager=True, c=[f"{key}={value}" for key, value in options.items()])

    def branch(self) -> str:
        """Return the branch that is checked out, empty if none is. Raises ValueError if HEAD is not as git makes it."""
        if self.head.is_detached:
            return ""
        ref = self.head.reference
        name = ref.name if isinstance(ref, Head) and self._written == f"ref: {ref.path}" else ""
        if not _BRANCH.fullmatch(name) or ".." in name or name.endswith(("/", ".lock")):
            raise ValueError("HEAD does not lead to a branch")
        return name


def copy_regular(source: Path, target: Path, name: str) -> None:
    """Copy a regular file of a git directory, if it is there, with its time, by which git judges an index.

    Raises OSError, also for a link or a pipe.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        found, data = (source / name).lstat(), read_regular(source / name, largest=_LARGEST)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
        os.utime(target / name, ns=(found.st_atime_ns, found.st_mtime_ns))


def checked_out(git: Path, shared: Path) -> bytes:
    """Return what HEAD of a git directory is with no branch checked out: its commit, or as it is before the first one.

    `shared` is the directory with the branches. Raises OSError.
    """
    head = read_regular(git / "HEAD", most=LARGEST_HEAD)
    try:
        with tempfile.TemporaryDirectory(prefix="codeagent-git-") as own, GitDirectory(Path(own), head) as repository:
            branch = repository.branch()
            for name in ("packed-refs", *([f"refs/heads/{branch}"] if branch else [])):
                copy_regular(shared, repository.folder, name)
            return f"{SymbolicReference.dereference_recursive(repository, 'HEAD')}\n".encode()
    except (ValueError, GitError):
        return head


def git_status(root: Path) -> GitStatus:
    """Read branch and number of changed files of the repository this folder is in; blocks as long as `git status`.

    A repository whose `.git` is not a plain directory (linked worktrees, submodules) is not read: where its pointer
    leads is the repository's word. Nor is one that belongs to somebody else, which git itself refuses. Never raises.
    """
    top = work_tree_of(root) or root
    folder = top / ".git"
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or (folder / "reftable").exists():
            return GitStatus()
        program = find_program("git", top)
        head = read_regular(folder / "HEAD", most=LARGEST_HEAD)
        with (
            tempfile.TemporaryDirectory(prefix="codeagent-git-") as own,
            GitDirectory(Path(own), head, program or "") as repository,
        ):
            branch = repository.branch()
            shown = branch or SymbolicReference.dereference_recursive(repository, "HEAD")[:8]
            try:
                return GitStatus(shown, _changes(repository, branch, top, root) if program else 0)
            except FAILURES:
                return GitStatus(shown)
    except (OSError, ValueError, GitError):
        return GitStatus()


def _changes(repository: GitDirectory, branch: str, top: Path, root: Path) -> int:
    """Count the changed files below `root`. Raises `FAILURES`."""
    folder = top / ".git"
    for name in ("index", "info/exclude", "packed-refs", *([f"refs/heads/{branch}"] if branch else [])):
        copy_regular(folder, repository.folder, name)
    own = {"GIT_WORK_TREE": str(top), "GIT_OBJECT_DIRECTORY": str(folder / "objects")}
    repository.isolate(own, {"core.untrackedCache": "false"})
    options = ("--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal")
    done = repository.git.completed(top, "status", *options, "--", str(root), seconds=_STATUS_SECONDS)
    done.check_returncode()
    return done.stdout.count(b"\0")
