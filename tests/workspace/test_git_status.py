"""Branch and changes are told without running anything of the repository's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.core.sandbox import CHECK
from codeagent.workspace.git_status import GitStatus, git_status


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "src/c.txt"):
        (folder / name).write_text(f"{name}\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def test_a_clean_repository_has_its_branch_and_no_changes(repository: Path) -> None:
    assert git_status(repository) == GitStatus("main", 0)


def test_changed_staged_new_and_removed_files_count_and_ignored_ones_do_not(
    repository: Path,
) -> None:
    (repository / "a.txt").write_text("changed\n")
    (repository / "b.txt").unlink()
    (repository / "new.txt").write_text("new\n")
    (repository / "staged.txt").write_text("new\n")
    git(repository, "add", "staged.txt")
    (repository / ".git/info/exclude").write_text("*.log\n")
    (repository / "x.log").write_text("ignored\n")
    git(repository, "checkout", "-qb", "feature/x")
    assert git_status(repository) == GitStatus("feature/x", 4)
    assert git_status(repository).changes == len(
        git(repository, "status", "--porcelain").splitlines()
    )


def test_what_the_sandbox_tests_itself_with_is_no_change_of_the_users(repository: Path) -> None:
    (repository / f"{CHECK}0123").write_text("x")
    assert git_status(repository) == GitStatus("main", 0)


def test_refs_may_be_packed_the_head_detached_or_without_a_commit(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "pack-refs", "--all")
    git(repository, "gc", "-q")
    assert git_status(repository) == GitStatus("main", 0)
    git(repository, "checkout", "-q", "--detach")
    assert git_status(repository) == GitStatus(git(repository, "rev-parse", "HEAD")[:8], 0)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    assert git_status(fresh) == GitStatus("main", 0)
    (fresh / "a").write_text("x")
    assert git_status(fresh) == GitStatus("main", 1)


def test_below_the_root_only_what_is_there_counts(repository: Path) -> None:
    (repository / "a.txt").write_text("changed\n")
    (repository / "src/c.txt").write_text("changed\n")
    assert git_status(repository / "src") == GitStatus("main", 1)


def test_without_git_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert git_status(tmp_path) == GitStatus()


def test_a_git_directory_elsewhere_is_not_read(repository: Path, tmp_path: Path) -> None:
    worktree = tmp_path / "worktree"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {repository}/.git\n")
    assert git_status(worktree) == GitStatus()
    (worktree / ".git").unlink()
    (worktree / ".git").symlink_to(repository / ".git")
    assert git_status(worktree) == GitStatus()


def test_a_repository_of_somebody_else_is_not_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git_status(repository) != GitStatus()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert git_status(repository) == GitStatus()


def poison(repository: Path, canary: Path) -> None:
    """Everything `git status` would run, each leaving the canary."""
    program = repository / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    for key in (
        "filter.evil.clean",
        "filter.evil.process",
        "core.fsmonitor",
        "diff.evil.textconv",
        "core.pager",
    ):
        git(repository, "config", key, str(program))
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit"):
        shutil.copy(program, repository / ".git/hooks" / hook)
    os.utime(repository / "a.txt", (1, 1))


@pytest.mark.parametrize("nested", [False, True])
def test_nothing_the_repository_names_is_run(
    repository: Path, tmp_path: Path, nested: bool
) -> None:
    canary = tmp_path / "canary"
    outer = repository
    if nested:
        outer = tmp_path / "outer"
        outer.mkdir()
        git(outer, "init", "-q")
        shutil.move(repository, outer / "inner")
        git(outer, "add", "inner")
        git(outer, "commit", "-qm", "a repository in a repository")
        repository = outer / "inner"
    poison(repository, canary)
    git_status(outer)
    assert not canary.exists()
    subprocess.run(["git", "status"], cwd=outer, capture_output=True)
    assert canary.exists(), "the poison works under plain git"


def test_gitpython_which_is_slow_to_load_is_not_needed(repository: Path) -> None:
    look = f"print(git_status(pathlib.Path({str(repository)!r})).branch, 'git' in sys.modules)"
    code = f"import pathlib, sys; from codeagent.workspace.git_status import git_status; {look}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "main False\n"


def test_loading_gitpython_runs_no_git_and_leaves_the_environment_as_it_was(tmp_path: Path) -> None:
    canary, program = tmp_path / "canary", tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n/bin/touch {canary}\necho git version 2.50.0\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    code = "import os; old = dict(os.environ); import {}; assert dict(os.environ) == old"
    for module, runs in (("codeagent.workspace.git", False), ("git", True)):
        environment = os.environ | {"PATH": path, "GIT_PYTHON_REFRESH": "raise"}
        subprocess.run([sys.executable, "-c", code.format(module)], env=environment, check=True)
        assert canary.exists() == runs, module


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_INDEX_FILE"]
)
@pytest.mark.parametrize("there", [True, False])
def test_what_this_process_s_environment_names_is_not_read(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, there: bool
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    if there:
        git(other, "init", "-q", "-b", "other")
    (repository / "a.txt").write_text("changed\n")
    monkeypatch.setenv(name, str(other / ".git"))
    assert git_status(repository) == GitStatus("main", 1)
    assert os.environ[name] == str(other / ".git")


@pytest.mark.parametrize("kind", ["a link", "a pipe"])
@pytest.mark.parametrize(
    ("name", "shown"),
    [("HEAD", ""), ("refs/heads/main", "main"), ("packed-refs", "main"), ("index", "main")],
)
def test_a_file_of_the_git_directory_that_is_not_plain_is_neither_followed_nor_waited_for(
    repository: Path, tmp_path: Path, name: str, shown: str, kind: str
) -> None:
    file = repository / ".git" / name
    (tmp_path / "elsewhere").write_bytes(file.read_bytes() if file.exists() else b"")
    file.unlink(missing_ok=True)
    file.symlink_to(tmp_path / "elsewhere") if kind == "a link" else os.mkfifo(file)
    assert git_status(repository) == GitStatus(shown, 0)


@pytest.mark.parametrize(
    "head", ["ref: refs/heads/../../config", "ref: config", "ref: /etc/passwd", "", "nonsense"]
)
def test_a_head_that_git_would_not_write_names_no_branch(repository: Path, head: str) -> None:
    (repository / ".git/HEAD").write_text(f"{head}\n")
    assert git_status(repository) == GitStatus()


def test_a_tracked_file_that_became_sparse_and_huge_is_not_hashed_for_ever(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has 32 bits for a size: git has to hash 1 TiB to compare it with nothing."""
    monkeypatch.setattr("codeagent.workspace.git_status._STATUS_SECONDS", 0.5)
    (repository / "empty").touch()
    git(repository, "add", "empty")
    git(repository, "commit", "-qm", "empty")
    os.truncate(repository / "empty", 1 << 40)
    assert git_status(repository) == GitStatus("main", 0)
    os.truncate(repository / "empty", 0)
    monkeypatch.setattr("codeagent.workspace.git_status._STATUS_SECONDS", 60)
    (repository / "a.txt").write_text("changed\n")
    assert git_status(repository) == GitStatus("main", 1)
