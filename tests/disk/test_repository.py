"""Where the repository of a workspace is; a pointer out of it is followed only to a git directory."""

import subprocess
from pathlib import Path

import pytest

from codeagent.disk.repository import repository_of
from tests.sandboxes import outside


def problem(root: Path) -> str:
    repository = repository_of(root)
    return "no repository" if repository is None else repository.problem


def test_a_worktree_leads_to_the_git_directory_it_shares(
    worktree: Path, workspace_dir: Path
) -> None:
    found = outside(worktree)
    assert found is not None and found.directory == workspace_dir / ".git"
    (worktree / "folder").mkdir()
    assert outside(worktree / "folder") == found


def test_a_submodule_leads_to_its_own_git_directory(submodule: Path, workspace_dir: Path) -> None:
    found = outside(submodule)
    assert found is not None and found.directory == workspace_dir / ".git/modules/inner"


def test_a_plain_repository_leads_nowhere(workspace_dir: Path, tmp_path: Path) -> None:
    repository = repository_of(workspace_dir)
    assert repository is not None and (repository.top, repository.outside) == (workspace_dir, None)
    assert repository_of(tmp_path) is None


@pytest.mark.parametrize(
    ("pointer", "said"),
    {
        "gitdir: ../victim": "no git directory is there",
        "gitdir: ../victim/.git/worktrees/x": "does not point back",
        "gitdir: /nowhere": "No such file",
        "": "not one line",
        "gitdir: ../project\nx": "not one line",
        "gitdir: ../a\0b": "not one line",
    }.items(),
)
def test_a_pointer_to_something_else_is_not_followed(
    tmp_path: Path, pointer: str, said: str
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    own = tmp_path / "victim/.git/worktrees/x"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text("/somebody/else/.git\n")
    (root / ".git").write_text(pointer)
    assert outside(root) is None
    assert said in problem(root)


def test_a_pointer_that_is_a_link_is_not_followed(worktree: Path, tmp_path: Path) -> None:
    (tmp_path / "linked-again").mkdir()
    (tmp_path / "linked-again/.git").symlink_to(worktree / ".git")
    assert outside(tmp_path / "linked-again") is None
    assert "neither a folder nor a file" in problem(tmp_path / "linked-again")


def test_another_directory_in_the_same_place_needs_another_yes(
    worktree: Path, workspace_dir: Path
) -> None:
    before = outside(worktree)
    (workspace_dir / ".git").rename(workspace_dir / "old")
    subprocess.run(["cp", "-r", workspace_dir / "old", workspace_dir / ".git"], check=True)
    after = outside(worktree)
    assert before is not None and after is not None and before.digest != after.digest
