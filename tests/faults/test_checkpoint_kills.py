"""Whenever the process dies, the workspace is as before or as after, and the store goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.core.errors import CheckpointError
from codeagent.disk import atomic
from codeagent.disk.confined import Location
from codeagent.workspace.checkpoints import GitCheckpoints
from tests.effort import SEED, times

KILLS = times(5)


class Crash(BaseException):
    """Stands for the end of the process in the middle of a restore."""


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The file with this name does not get it any more, nor is anything done afterwards."""
    fail_at(monkeypatch, name, Crash())


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, failure: BaseException) -> None:
    """No written file gets this name; the files before it have theirs already."""
    give_name = atomic.give_name

    def given(
        location: Location, draft: str, *, replacing: bool, folder: int | None = None
    ) -> None:
        if location.name == name:
            raise failure
        give_name(location, draft, replacing=replacing, folder=folder)

    monkeypatch.setattr(atomic, "give_name", given)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def half_restored(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[GitCheckpoints, tuple[str, str]]:
    """Of three files the first is as before the restore's end, the others as before its
    beginning."""
    first = GitCheckpoints(tmp_path / "state", root)
    for name in "abc":
        (root / name).write_text("one")
    target = (await first.take()).id
    for name in "abc":
        (root / name).write_text("two")
    present = (await first.take()).id
    with monkeypatch.context() as patch:
        crash_at(patch, "b")
        with pytest.raises(Crash):
            await first.restore(target, present=present)
    first.close()
    return GitCheckpoints(tmp_path / "state", root), (target, present)


@pytest.mark.soak(tried=KILLS, row="kills at random")
def test_after_kill_9_at_any_moment_the_workspace_is_whole_and_the_store_goes_on(
    tmp_path: Path,
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.faults.checkpoint_kills",
        str(tmp_path),
        str(SEED),
        str(KILLS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stdout.write(f"\nseed {SEED}: {done.stdout}\n")
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    count = json.loads(done.stdout)
    assert count["kills"] == KILLS


async def test_a_broken_off_restore_is_finished_by_the_next_start_which_says_so(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, (target, _) = await half_restored(tmp_path, root, monkeypatch)
    assert [(root / name).read_text() for name in "abc"] == ["one", "two", "two"]
    said = await checkpoints.recover()
    assert (
        said
        == "going back, which a crash had interrupted, was finished: 3 files are as they were then"
    )
    assert [(root / name).read_text() for name in "abc"] == ["one", "one", "one"]
    assert (await checkpoints.take()).id == target
    assert await checkpoints.recover() is None
    checkpoints.close()


async def test_what_the_user_edited_after_the_crash_is_kept_and_named(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, _ = await half_restored(tmp_path, root, monkeypatch)
    (root / "a").write_text("mine")
    (root / "c").unlink()
    said = await checkpoints.recover()
    assert said is not None and said.endswith(
        "1 file is as it was then; a, c changed since and were kept"
    )
    assert ((root / "a").read_text(), (root / "b").read_text(), (root / "c").exists()) == (
        "mine",
        "one",
        False,
    )
    checkpoints.close()


async def test_a_broken_off_restore_that_cannot_be_finished_is_taken_back(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, (_, present) = await half_restored(tmp_path, root, monkeypatch)
    with monkeypatch.context() as patch:
        fail_at(patch, "b", OSError(28, "No space left on device"))
        said = await checkpoints.recover()
    assert (
        said
        == "going back, which a crash had interrupted, was undone: 3 files are as they were before it"
    )
    assert [(root / name).read_text() for name in "abc"] == ["two", "two", "two"]
    assert (await checkpoints.take()).id == present
    checkpoints.close()


async def test_until_it_is_finished_no_snapshot_hides_what_was_broken_off(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, (target, present) = await half_restored(tmp_path, root, monkeypatch)
    for work in (checkpoints.take(), checkpoints.restore(target, present=present)):
        with pytest.raises(
            CheckpointError, match="not finished; nothing was changed: start codeagent again"
        ):
            await work
    await checkpoints.prune()
    assert await checkpoints.recover() is not None
    checkpoints.close()


async def test_a_disk_that_fills_up_midway_takes_back_what_was_done(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = GitCheckpoints(tmp_path / "state", root)
    for name in "abc":
        (root / name).write_text("one")
    target = (await checkpoints.take()).id
    (root / "a").unlink()
    (root / "b").write_text("two")
    (root / "c").write_text("two")
    present = (await checkpoints.take()).id
    fail_at(monkeypatch, "c", OSError(28, "No space left on device"))
    with pytest.raises(
        CheckpointError, match="going back failed: No space left on device; nothing was changed"
    ):
        await checkpoints.restore(target, present=present)
    assert ((root / "a").exists(), (root / "b").read_text(), (root / "c").read_text()) == (
        False,
        "two",
        "two",
    )
    assert await checkpoints.recover() is None
    checkpoints.close()


async def test_locks_and_drafts_that_a_dead_git_left_do_not_stop_the_next_snapshot(
    tmp_path: Path, root: Path
) -> None:
    checkpoints = GitCheckpoints(tmp_path / "state", root)
    (root / "f").write_text("one")
    first = await checkpoints.take()
    (store,) = (tmp_path / "state/checkpoints").glob("*")
    (session,) = store.glob("git/refs/sessions/*")
    (store / "writing").touch()
    for name in (f"{session.name}.lock", "gone.lock"):
        session.with_name(name).touch()
    (store / "git/objects/pack/tmp_pack_x").touch()
    (root / "f").write_text("two")
    assert (await checkpoints.take()).id != first.id
    assert [
        path for path in store.rglob("*") if path.name.startswith("tmp_") or path.suffix == ".lock"
    ] == []
    checkpoints.close()
