"""What a worktree brings back into its folder, file by file."""

import argparse
import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from codeagent.core.errors import CheckpointError, WorkspaceError
from codeagent.core.runtime import SessionSummary
from codeagent.extensions.worktrees import command
from codeagent.extensions.worktrees.merging import merge_of
from codeagent.extensions.worktrees.opening import in_worktree
from codeagent.session.store import SessionStore
from tests.workspace.test_git_status import git

OLD = "".join(f"line {number}\n" for number in range(1, 21))
NAMES = ("ours.txt", "both.txt", "clash.txt", "gone.txt", "data.bin", "run.sh", "same.txt")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in (("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    root = tmp_path / "project"
    root.mkdir()
    for name in NAMES:
        (root / name).write_bytes(OLD.encode())
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def change(folder: Path, **lines: str) -> None:
    for name, line in lines.items():
        path = folder / f"{name}.txt"
        path.write_text(path.read_text().replace("line 10\n", f"{line}\n"))


def copied(root: Path) -> Path:
    """The worktree, with changes of its own and of the folder's."""
    with in_worktree(root, "fix") as copy:
        (copy / "added.txt").write_text("added\n")
        (copy / "gone.txt").unlink()
        (copy / "data.bin").write_bytes(b"\0\1")
        (copy / "run.sh").chmod(0o755)
        change(copy, ours="theirs", clash="theirs", same="the same")
        (copy / "both.txt").write_text(OLD.replace("line 2\n", "theirs\n"))
    change(root, both="yours", clash="yours", same="the same")
    return copy


def test_each_file_is_offered_on_top_of_what_the_folder_has(root: Path) -> None:
    copy = copied(root)

    async def offered() -> None:
        async with merge_of(copy) as merge:
            offers = {offer.path: offer for offer in await merge.offers()}
            assert set(offers) == {
                *("added.txt", "gone.txt", "data.bin", "run.sh"),
                *("ours.txt", "both.txt", "clash.txt"),
            }
            assert [path for path, offer in offers.items() if offer.clashes] == ["clash.txt"]
            by_hunk = [path for path, offer in offers.items() if offer.diff is not None]
            assert by_hunk == ["added.txt", "both.txt", "clash.txt", "ours.txt"]
            assert not await merge.take(offers["ours.txt"], (False,))
            assert await merge.take(offers["both.txt"], (True,))
            for path in ("added.txt", "gone.txt", "data.bin", "run.sh"):
                assert await merge.take(offers[path])
            left = [offer.path for offer in await merge.offers()]
            assert left == ["clash.txt", "ours.txt"]
            change(root, ours="meanwhile")
            with pytest.raises(WorkspaceError):
                await merge.take(offers["ours.txt"], (True,))

    asyncio.run(offered())
    both = OLD.replace("line 2\n", "theirs\n").replace("line 10\n", "yours\n")
    assert (root / "both.txt").read_text() == both
    assert (root / "ours.txt").read_text() == OLD.replace("line 10\n", "meanwhile\n")
    assert (root / "clash.txt").read_text() == OLD.replace("line 10\n", "yours\n")
    assert not (root / "gone.txt").exists()
    assert (root / "data.bin").read_bytes() == b"\0\1"
    assert (root / "run.sh").stat().st_mode & 0o100


def test_a_folder_that_is_not_a_worktree_says_how_to_get_one(root: Path) -> None:
    async def merge() -> None:
        async with merge_of(root):
            pass

    with pytest.raises(CheckpointError, match="--worktree NAME works in a copy"):
        asyncio.run(merge())


def test_a_worktree_is_returned_to_and_a_free_number_names_the_next(root: Path) -> None:
    with in_worktree(root, "fix") as first:
        (first / "kept.txt").write_text("kept")
    with in_worktree(root, "fix") as again, in_worktree(again, "") as beside:
        assert again == first and (again / "kept.txt").exists()
        assert beside.parent.name.startswith("1-") and not (beside / "kept.txt").exists()


def test_starts_at_the_same_time_do_not_remove_each_others_worktree(root: Path) -> None:
    def started(name: str) -> Path:
        with in_worktree(root, name) as copy:
            (copy / "kept.txt").write_text("kept")
            return copy

    with ThreadPoolExecutor() as threads:
        copies = list(threads.map(started, ("fix", "", "fix", "")))
    assert len(set(copies)) == 3 and copies[0] == copies[2]
    assert all((copy / "kept.txt").exists() for copy in copies)


@pytest.mark.parametrize("removed", ["the copy", "its folder"])
def test_a_worktree_that_was_removed_by_hand_is_made_again(root: Path, removed: str) -> None:
    with in_worktree(root, "fix") as copy:
        pass
    shutil.rmtree(copy if removed == "the copy" else copy.parent)
    with in_worktree(root, "fix") as again:
        assert again == copy and (copy / "ours.txt").exists()
        git(copy, "status")


def test_what_cannot_be_compared_is_named_and_holds_up_neither_merge_nor_removal(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_worktree(root, "fix") as copy:
        change(copy, ours="theirs", both="theirs")
        (copy / "huge.bin").write_bytes(b"")
        os.truncate(copy / "huge.bin", 64 << 20)
    os.truncate(root / "both.txt", 64 << 20)

    async def compared() -> None:
        async with merge_of(copy) as merge:
            assert [offer.path for offer in await merge.offers()] == ["ours.txt"]
            named = [phrase.partition(":")[0] for phrase in merge.left_out]
            assert named == ["huge.bin", "both.txt"]

    asyncio.run(compared())
    args = argparse.Namespace(action="remove", cwd=root, names=["fix"], discard=False)
    assert asyncio.run(command.main(args, None)) == 1
    assert "cannot be compared" in capsys.readouterr().err and copy.exists()


def test_a_worktree_whose_origin_cannot_be_read_is_not_replaced(root: Path) -> None:
    with in_worktree(root, "fix") as copy:
        (copy / "kept.txt").write_text("kept")
    (copy.parent / "origin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="File exists"), in_worktree(root, "fix"):
        pass
    assert (copy / "kept.txt").exists()


def test_a_worktree_is_kept_while_a_session_works_in_a_folder_of_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_worktree(root, "fix") as copy:
        pass
    working = SessionSummary("s1", 0.0, 0, str(copy / "src"), "m", "go", in_use=True)
    monkeypatch.setattr(SessionStore, "summaries", lambda self: [working])
    args = argparse.Namespace(action="remove", cwd=root, names=["fix"], discard=True)
    assert asyncio.run(command.main(args, None)) == 1
    assert "a session is working in it" in capsys.readouterr().err and copy.exists()
