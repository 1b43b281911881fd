"""What commands see of the repository around the workspace and of a git directory elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.guard import SessionResources
from tests.conftest import MakeSandbox
from tests.sandboxes import make_repository, outside, run, sandbox_spec


@pytest.fixture
def grounds(tmp_path: Path) -> Iterator[list[SessionResources]]:
    made: list[SessionResources] = []
    yield made
    for ground in made:
        ground.close()


def test_a_repository_that_holds_keys_is_not_shown_around_one_of_its_folders(
    tmp_path: Path, grounds: list[SessionResources]
) -> None:
    home = make_repository(tmp_path / "home")
    (home / "project").mkdir()
    (home / "keys").mkdir()
    for fields in ({"home": home}, {"private": (home / "keys",)}):
        grounds.append(
            SessionResources(
                sandbox_spec(
                    home / "project", tmp_path / "state", docker_host="unix:///x", **fields
                )
            )
        )
        grounds[-1].open()
        assert grounds[-1].repository.root is None
        assert "are not visible" in grounds[-1].repository.warnings[0]


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
    said = (await sandbox.start(lambda _: None)).told
    assert [text.partition("are ")[2] for text in said] == [
        "read-only; only this folder can be changed"
    ]


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
    ran = await run(
        agreed,
        f"touch new; git status --short; git log --oneline; git add new; ls -A {workspace_dir}",
    )
    assert b"?? new\n" in ran.stdout and b"first" in ran.stdout
    assert b"Read-only file system" in ran.stderr
    assert ran.stdout.endswith(b"\n.git\n"), "nothing else of the other work tree"
    assert "git does not work" not in await warnings(agreed)


@pytest.mark.docker
async def test_git_works_in_a_submodule_once_the_user_agrees(
    make_sandbox: MakeSandbox, submodule: Path
) -> None:
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
