"""Where the repository of a workspace is, and what of it commands see (SECURITY.md T03, T11)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.ground import Ground
from codeagent.sandbox.repository import OutsideGit, repository_of
from tests.conftest import MakeSandbox
from tests.sandboxes import make_repository, run, sandbox_spec


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def worktree(workspace_dir: Path) -> Path:
    """A linked worktree beside the repository it belongs to."""
    git(workspace_dir, "worktree", "add", "-q", "../linked")
    return workspace_dir.parent / "linked"


@pytest.fixture
def submodule(workspace_dir: Path) -> Path:
    """A submodule in a repository."""
    make_repository(workspace_dir.parent / "other")
    git(workspace_dir, "submodule", "add", "-q", "../other", "inner")
    return workspace_dir / "inner"


def outside(root: Path) -> OutsideGit | None:
    repository = repository_of(root)
    return None if repository is None else repository.outside


def problem(root: Path) -> str:
    repository = repository_of(root)
    return "no repository" if repository is None else repository.problem


def test_a_worktree_leads_to_the_git_directory_it_shares(worktree: Path, workspace_dir: Path) -> None:
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
def test_a_pointer_to_something_else_is_not_followed(tmp_path: Path, pointer: str, said: str) -> None:
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


def test_another_directory_in_the_same_place_needs_another_yes(worktree: Path, workspace_dir: Path) -> None:
    before = outside(worktree)
    (workspace_dir / ".git").rename(workspace_dir / "old")
    subprocess.run(["cp", "-r", workspace_dir / "old", workspace_dir / ".git"], check=True)
    after = outside(worktree)
    assert before is not None and after is not None and before.digest != after.digest


@pytest.fixture
def grounds(tmp_path: Path) -> Iterator[list[Ground]]:
    made: list[Ground] = []
    yield made
    for ground in made:
        ground.close()


def test_a_repository_that_holds_keys_is_not_shown_around_one_of_its_folders(
    tmp_path: Path, grounds: list[Ground]
) -> None:
    home = make_repository(tmp_path / "home")
    (home / "project").mkdir()
    (home / "keys").mkdir()
    for fields in ({"home": home}, {"private": (home / "keys",)}):
        grounds.append(Ground(sandbox_spec(home / "project", tmp_path / "state", docker_host="unix:///x", **fields)))
        grounds[-1].open()
        assert grounds[-1].around.root is None
        assert "are not there" in grounds[-1].around.warnings[0]


async def warnings(sandbox: DockerSandbox) -> str:
    return "; ".join((await sandbox.start(lambda _: None)).warnings)


@pytest.mark.docker
async def test_a_folder_of_a_repository_has_git_and_the_rest_of_it_read_only(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    (workspace_dir / "packages/a").mkdir(parents=True)
    (workspace_dir / ".env").write_text("CANARY")
    sandbox = await make_sandbox(workspace_dir / "packages/a")
    text = "echo x > made; git status --short; git log --oneline; cat ../../hello.py ../../.env; touch ../../no ../no"
    ran = await run(sandbox, f"{text}; ls {workspace_dir.parent}")
    assert b"?? ../\n" in ran.stdout and b"first" in ran.stdout and b"def hello" in ran.stdout
    assert b"CANARY" not in ran.stdout
    assert ran.stderr.count(b"Read-only file system") == 2
    assert ran.stdout.splitlines()[-1] == b"project", "nothing beside the repository is there"
    said = (await sandbox.start(lambda _: None)).narrowed
    assert [text.partition("are ")[2] for text in said] == ["read-only; only this folder can be changed"]


@pytest.mark.docker
async def test_a_git_directory_elsewhere_is_mounted_read_only_once_the_user_agrees(
    make_sandbox: MakeSandbox, worktree: Path, workspace_dir: Path
) -> None:
    found = outside(worktree)
    assert found is not None
    unasked = await make_sandbox(worktree)
    ran = await run(unasked, f"git status --short; ls {workspace_dir}")
    assert b"not a git repository" in ran.stderr and b".git" not in ran.stdout
    assert "outside the workspace; codeagent sandbox git --allow" in await warnings(unasked)
    agreed = await make_sandbox(worktree, agreed_git=frozenset({found.digest}))
    ran = await run(agreed, f"touch new; git status --short; git log --oneline; git add new; ls -A {workspace_dir}")
    assert b"?? new\n" in ran.stdout and b"first" in ran.stdout
    assert b"Read-only file system" in ran.stderr
    assert ran.stdout.endswith(b"\n.git\n"), "nothing else of the other work tree"
    assert "git does not work" not in await warnings(agreed)


@pytest.mark.docker
async def test_git_works_in_a_submodule_once_the_user_agrees(make_sandbox: MakeSandbox, submodule: Path) -> None:
    found = outside(submodule)
    assert found is not None
    sandbox = await make_sandbox(submodule, agreed_git=frozenset({found.digest}))
    assert b"first" in (await run(sandbox, "git log --oneline")).stdout


@pytest.mark.docker
async def test_a_pointer_of_a_hostile_repository_never_shows_what_it_names(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    victim = make_repository(tmp_path / "victim")
    (victim / ".git/CANARY").write_text("CANARY")
    root = tmp_path / "hostile"
    root.mkdir()
    (root / ".git").write_text(f"gitdir: {victim}/.git\n")
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, f"cat {victim}/.git/CANARY; ls {victim}; grep -r CANARY {tmp_path}")
    assert b"CANARY" not in ran.stdout
