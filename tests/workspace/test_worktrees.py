"""Worktrees of agents on disk: what is in them, what git makes of them, and that none is left
behind."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codeagent.core.checkpoints import Node
from codeagent.core.errors import CheckpointError
from codeagent.disk.repository import OutsideGit
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots.objects import ObjectReader
from codeagent.workspace.snapshots.store import SnapshotStore
from codeagent.workspace.worktrees import Worktree, make_worktree, sweep
from tests.workspace.test_git_status import git


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "state/worktrees"


@pytest.fixture
def repository(root: Path) -> Path:
    (root / "a.txt").write_text("one\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / ".gitignore").write_text("built\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "pack-refs", "--all")
    return root


def gone(*paths: Path) -> bool:
    return not any(path.exists() for path in paths)


def in_the_way(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("in the way")


@asynccontextmanager
async def copied(
    place: Path, root: Path, agreed: Callable[[OutsideGit], bool] = lambda git: False
) -> AsyncIterator[Worktree]:
    store = GitCheckpoints(place.parent, root, environment={"HOME": str(place.parent)})
    try:
        worktree = await make_worktree(place, root, "s.1", store, agreed)
        yield worktree
        await worktree.remove()
        assert gone(place)
    finally:
        store.close()


async def test_a_copy_has_what_is_not_committed_and_not_what_is_ignored(
    place: Path, repository: Path
) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "new.txt").write_text("new\n")
    (repository / "built").write_text("x")
    async with copied(place, repository) as worktree:
        found = {path.name for path in worktree.root.iterdir()}
        assert found == {".git", ".gitignore", "a.txt", "link", "new.txt", "run.sh"}
        assert (worktree.root / "link").is_symlink() and (
            worktree.root / "run.sh"
        ).stat().st_mode & 0o100
        assert git(worktree.root, "status", "--short") == " M a.txt\n?? new.txt\n"
        assert git(worktree.root, "rev-parse", "HEAD") == git(repository, "rev-parse", "main")
        assert git(worktree.root, "branch", "--show-current") == ""
        assert str(worktree.root) in git(repository, "worktree", "list")
    assert git(repository, "worktree", "list").count("\n") == 1
    assert not (repository / ".git/worktrees").exists()


async def test_what_was_changed_in_it_is_told_as_it_was_and_as_it_is(
    place: Path, repository: Path
) -> None:
    async with copied(place, repository) as worktree:
        (worktree.root / "a.txt").write_text("two\n")
        (worktree.root / "run.sh").unlink()
        (worktree.root / "built").write_text("ignored")
        assert await worktree.changed() == ("a.txt", "run.sh")
        changed = await worktree.file("a.txt")
        assert (changed.before, changed.after) == (Node("file", b"one\n"), Node("file", b"two\n"))
        assert (await worktree.file("run.sh")).after is None


async def test_many_changed_files_are_read_by_one_git_until_they_are_large(
    place: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ObjectReader] = []
    start = ObjectReader.__init__

    def counted(reader: ObjectReader, store: SnapshotStore) -> None:
        started.append(reader)
        start(reader, store)

    async with copied(place, repository) as worktree:
        for name, size in {"b": 1, "c": 9, "d": 2, "e": 3}.items():
            (worktree.root / name).write_bytes(b"x" * size)
        paths = await worktree.changed()
        monkeypatch.setattr(ObjectReader, "__init__", counted)
        monkeypatch.setattr("codeagent.workspace.worktrees._AHEAD", 10)
        files = [await worktree.file(path) for path in paths]
    assert [(file.path, file.before) for file in files] == [(path, None) for path in "bcde"]
    assert [len(file.after.data) for file in files if file.after is not None] == [1, 9, 2, 3]
    assert len(started) == 2


async def test_before_the_first_commit_and_without_a_repository_there_is_a_copy_too(
    place: Path, root: Path
) -> None:
    (root / "a.txt").write_text("one\n")
    async with copied(place, root) as worktree:
        assert (worktree.git, [path.name for path in worktree.root.iterdir()]) == ("", ["a.txt"])
    git(root, "init", "-q")
    async with copied(place, root) as worktree:
        assert git(worktree.root, "status", "--short") == "?? a.txt\n"


async def test_a_folder_of_a_repository_is_copied_without_git(
    place: Path, repository: Path
) -> None:
    (repository / "src").mkdir()
    async with copied(place, repository / "src") as worktree:
        assert worktree.git == "" and not (worktree.root / ".git").exists()


@pytest.mark.parametrize("agreed", [True, False])
async def test_the_git_directory_of_a_linked_worktree_is_used_only_if_the_user_agreed(
    place: Path, repository: Path, agreed: bool
) -> None:
    linked = repository.with_name("linked")
    git(repository, "worktree", "add", "-q", str(linked))
    async with copied(place, linked, lambda outside: agreed) as worktree:
        assert bool(worktree.git) == agreed == (worktree.root / ".git").exists()
        if agreed:
            assert git(worktree.root, "rev-parse", "HEAD") == git(linked, "rev-parse", "HEAD")


async def test_it_is_removed_although_its_commands_took_permissions_away(
    place: Path, repository: Path
) -> None:
    async with copied(place, repository) as worktree:
        for mode in (0o000, 0o500):
            folder = worktree.root / f"deep{mode}/er"
            folder.mkdir(parents=True)
            (folder / "file").write_text("x")
            folder.chmod(mode)
        worktree.root.chmod(0o500)


@pytest.mark.parametrize("rounds", [0, 1, 3, 10, 30])
async def test_a_copy_that_is_cancelled_while_it_is_made_leaves_nothing(
    place: Path, repository: Path, rounds: int
) -> None:
    store = GitCheckpoints(place.parent, repository)
    making = asyncio.create_task(make_worktree(place, repository, "s.1", store, lambda git: False))
    for _ in range(rounds):
        await asyncio.sleep(0.002)
    making.cancel()
    await asyncio.wait({making})
    if not making.cancelled():
        await making.result().remove()
    store.close()
    assert gone(place, repository / ".git/worktrees")


async def test_it_is_made_while_the_last_other_one_goes(
    place: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    is_link = Path.is_symlink

    def look(path: Path) -> bool:
        if path.name == "worktrees" and not looks:
            looks.append(path)
            path.rmdir()
        return is_link(path)

    monkeypatch.setattr(Path, "is_symlink", look)
    async with copied(place, repository) as worktree:
        assert git(worktree.root, "log", "--format=%s") == "first\n"
    assert looks


async def test_one_that_cannot_be_made_says_why_and_leaves_nothing(
    place: Path, repository: Path
) -> None:
    in_the_way(place)
    with pytest.raises(CheckpointError, match="no worktree can be made in"):
        async with copied(place, repository):
            pass
    assert not (repository / ".git/worktrees").exists()


async def test_a_sweep_removes_those_whose_process_is_gone_and_no_other(
    place: Path, repository: Path
) -> None:
    async with copied(place, repository) as worktree:
        sweep(place)
        assert (worktree.root / "a.txt").exists()
        dead = place / "s.2"
        shutil.copytree(worktree.root.parent, dead, symlinks=True)
        theirs = repository / ".git/worktrees/codeagent-s.2"
        shutil.copytree(repository / ".git/worktrees/codeagent-s.1", theirs)
        (dead / "link").write_text(str(theirs))
        (place / "s.2.lock").touch()
        sweep(place)
        assert not dead.exists() and not theirs.exists() and not (place / "s.2.lock").exists()
        assert git(worktree.root, "status", "--short") == ""
