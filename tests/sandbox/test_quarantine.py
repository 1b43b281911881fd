"""What commands plant is moved out of the workspace, also when it comes after their end."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.sandbox import SandboxSweep
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.guard import set_aside
from codeagent.sandbox.mounts import PinnedRoot
from tests.conftest import MakeSandbox
from tests.sandboxes import run
from tests.workspace.trees import git


@pytest.fixture
def root(tmp_path: Path) -> Iterator[PinnedRoot]:
    (tmp_path / "work/sub").mkdir(parents=True)
    pinned = PinnedRoot(tmp_path / "work")
    yield pinned
    pinned.close()


def test_a_repository_is_moved_below_the_state_folder_unread(
    root: PinnedRoot, tmp_path: Path
) -> None:
    git(root.path / "sub", "init", "-q")
    place = set_aside(root, "sub/.git", tmp_path / "state")
    assert (place / "HEAD").exists()
    assert place.is_relative_to(tmp_path / "state/sandbox/quarantine")
    assert list((root.path / "sub").iterdir()) == []


def test_on_another_file_system_it_stays_and_git_does_not_know_it_any_more(
    root: PinnedRoot,
) -> None:
    git(root.path, "init", "-q", "--bare", "sub/.git")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        place = set_aside(root, "sub/.git", Path(elsewhere))
    assert place.parent == root.path / "sub"
    assert place.name.startswith("quarantined-git-")
    assert "fatal: not a git repository" in git_says(place)
    git(root.path, "init", "-q", "--bare", "control")
    assert "fatal: this operation must be run in a work tree" in git_says(root.path / "control")


def test_no_link_on_the_way_is_followed(root: PinnedRoot, tmp_path: Path) -> None:
    (tmp_path / "outside/.git").mkdir(parents=True)
    (root.path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="Not a directory"):
        set_aside(root, "link/.git", tmp_path / "state")
    assert (tmp_path / "outside/.git").exists()


def git_says(folder: Path) -> str:
    return subprocess.run(
        ["git", "status"], cwd=folder, capture_output=True, text=True, check=False
    ).stderr


@pytest_asyncio.fixture
async def plain(make_sandbox: MakeSandbox, tmp_path: Path) -> DockerSandbox:
    """Over a folder without a repository."""
    (tmp_path / "plain").mkdir()
    return await make_sandbox(tmp_path / "plain")


LATER = (
    "mkfifo gate done; (setsid nohup bash -c 'read _ < gate; mkdir -p .git; echo yes > done' "
    ">/dev/null 2>&1 &) ; true"
)


@pytest.mark.docker
async def test_what_a_process_plants_after_its_command_is_found_at_the_next_look(
    plain: DockerSandbox,
) -> None:
    root = plain.spec.root
    ran = await run(plain, LATER)
    assert ran.result.notices == ()
    assert await plain.sweep() == SandboxSweep(alive=True)
    await asyncio.to_thread((root / "gate").write_text, "now\n")
    await asyncio.to_thread((root / "done").read_text)
    assert "created .git" in " ".join((await plain.sweep()).notices)
    assert sorted(os.listdir(root)) == ["done", "gate"]  # noqa: PTH208  # only names are wanted
    while (swept := await plain.sweep()).alive:
        assert not swept.notices


@pytest.mark.docker
async def test_what_it_plants_while_the_sandbox_is_closed_is_found_once_all_has_ended(
    plain: DockerSandbox,
) -> None:
    root = plain.spec.root
    plant = "mkdir -p .git; echo > on; while :; do mkdir -p .git; done"
    ran = await run(plain, f"mkfifo on; (setsid nohup bash -c '{plant}' &>/dev/null &) ; true")
    await asyncio.to_thread((root / "on").read_text)
    await plain.close()
    swept = await plain.sweep()
    assert "created .git" in " ".join([*ran.result.notices, *swept.notices])
    assert os.listdir(root) == ["on"]  # noqa: PTH208  # only names are wanted
    assert await plain.sweep() == SandboxSweep()


@pytest.mark.docker
async def test_what_is_planted_after_a_look_that_closing_overtook_is_found(
    plain: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, close = asyncio.Event(), SessionContainer.close

    async def overtaken(container: SessionContainer) -> bool:
        await closing.wait()
        return True  # it has been given up, but not everything inside has ended

    async def plants(container: SessionContainer) -> None:
        if container is plain._default:
            closing.set()
            assert plain._looking is not None
            await asyncio.wait({plain._looking})
            (plain.spec.root / ".git").mkdir()
        await close(container)

    monkeypatch.setattr(SessionContainer, "is_quiet", overtaken)
    monkeypatch.setattr(SessionContainer, "close", plants)
    await run(plain, "true")
    await plain.close()
    assert "created .git" in " ".join((await plain.sweep()).notices)
    assert os.listdir(plain.spec.root) == []  # noqa: PTH208  # only names are wanted


@pytest.mark.docker
@pytest.mark.parametrize("command", ["true", "sleep 0.01 &"])
async def test_a_repository_the_user_makes_while_nothing_runs_is_theirs(
    plain: DockerSandbox, command: str
) -> None:
    await run(plain, command)
    while (await plain.sweep()).alive:
        pass
    git(plain.spec.root, "init", "-q")
    assert await plain.sweep() == SandboxSweep()
    await run(plain, "true")
    assert (await plain.sweep()).notices == ()
    await plain.close()
    assert await plain.sweep() == SandboxSweep()
    assert os.listdir(plain.spec.root) == [".git"]  # noqa: PTH208  # only names are wanted
