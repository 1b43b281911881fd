"""Git for commits, over git directories of ours: the one importer of GitPython, which is slow to
load.

Git never sees the repository's configuration, as in `workspace.git_status`. GitPython itself reads
nothing but copies that we made of regular files: it would follow a link, wait for a pipe, or read a
device.
"""

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from codeagent.core.host_programs import GIT_COMMIT, marked_environment, set_limits
from codeagent.disk.opens import read_regular
from codeagent.disk.repository import isolated_environment
from codeagent.workspace.git_status import (
    LARGEST_HEAD,
    branch_of,
    copy_regular,
    guarded,
    make_directory,
)

_NO_GIT = {"GIT_PYTHON_REFRESH": "quiet", "GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git"}
"""Hides every git from GitPython, which would run the first one on PATH as soon as it is
imported."""
_NO_REPOSITORY = dict.fromkeys(
    ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE")
)
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
    from git import Git, Repo, SymbolicReference
    from git.exc import GitError

_ENV = "/usr/bin/env"
FAILURES = (OSError, subprocess.SubprocessError, GitError)
"""What running git may raise."""


class IsolatedGit(Git):
    """GitPython's git as one program that we chose, in an environment that is `environment()` and
    nothing else."""

    program: str

    def execute(
        self, command: Any, *arguments: Any, env: Mapping[str, str] | None = None, **options: Any
    ) -> Any:
        """Run a command with our program in place of GitPython's; everything else is done as
        GitPython does it."""
        variables = marked_environment(GIT_COMMIT, {**self.environment(), **(env or {})})
        words = [f"{name}={value}" for name, value in variables.items()]
        started = super().execute(
            [_ENV, "-i", *words, self.program, *command[1:]], *arguments, **options
        )
        if not isinstance(started, Git.AutoInterrupt) or started.proc is None:
            raise TypeError(f"git {command[1]} ran to its end without limits: it needs as_process")
        set_limits(GIT_COMMIT, started.proc.pid)
        return started

    def completed(
        self,
        folder: Path,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        seconds: float,
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
        """Make it in an empty folder; `head` is the content of `HEAD`. Raises OSError, GitError for
        a broken HEAD."""
        make_directory(folder, head)
        with _environment(_NO_REPOSITORY):
            super().__init__(folder, expand_vars=False)
        self.folder = folder
        self.git.program = program

    def __enter__(self) -> Self:
        return self

    def isolate(self, variables: Mapping[str, str], settings: Mapping[str, str]) -> None:
        """Set git's variables and settings, in addition to those that every git of ours gets."""
        self.git.update_environment(**isolated_environment(self.folder), **variables)
        self.git.set_persistent_git_options(no_pager=True, c=guarded(settings))


def checked_out(git: Path, shared: Path) -> bytes:
    """Return what HEAD of a git directory is with no branch checked out: its commit, or as it is
    before the first one.

    `shared` is the directory with the branches. Raises OSError.
    """
    head = read_regular(git / "HEAD", most=LARGEST_HEAD)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="codeagent-git-") as own,
            GitDirectory(Path(own), head) as repository,
        ):
            branch = branch_of(head)
            for name in ("packed-refs", *([f"refs/heads/{branch}"] if branch else [])):
                copy_regular(shared, repository.folder, name)
            return f"{SymbolicReference.dereference_recursive(repository, 'HEAD')}\n".encode()
    except (ValueError, GitError):
        return head
