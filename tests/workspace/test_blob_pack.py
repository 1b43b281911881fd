"""A snapshot of many files is one pack that git itself finds sound, and a crash leaves nothing of
it behind."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots import objects
from codeagent.workspace.snapshots.objects import BlobPack, ObjectReader
from codeagent.workspace.snapshots.store import SnapshotStore
from tests.workspace.trees import empty, go_back, look

SIZES = (0, 1, 15, 16, 17, 2047, 2048, 2049, 300_000)


@pytest.fixture
def many(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with more files than are sent to git one by one, some of them alike."""
    monkeypatch.setattr(objects, "_FEW", 20)
    for number in range(60):
        (root / f"d{number % 7}").mkdir(exist_ok=True)
        size = SIZES[number % len(SIZES)]
        (root / f"d{number % 7}" / f"{number}.bin").write_bytes(bytes([number % 50]) * size)
    return root


def store_of(state: Path) -> Path:
    (found,) = state.glob("checkpoints/*/git")
    return found


def git(store: Path, *arguments: str) -> str:
    command = ["git", f"--git-dir={store}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("large", [1 << 31, 500])
async def test_git_finds_the_pack_sound_and_every_file_comes_back(
    checkpoints: GitCheckpoints,
    many: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    large: int,
) -> None:
    monkeypatch.setattr(objects, "_LARGE", large)
    before, snapshot = look(many), await checkpoints.take()
    store = store_of(state)
    packs = list(store.glob("objects/pack/pack-*.idx"))
    assert len(packs) == 1
    git(store, "fsck", "--full", "--strict")
    git(store, "verify-pack", str(packs[0]))
    empty(many)
    await go_back(checkpoints, snapshot.id)
    assert look(many) == before


async def test_a_few_files_make_no_pack(
    checkpoints: GitCheckpoints, root: Path, state: Path
) -> None:
    (root / "a").write_text("one")
    await checkpoints.take()
    assert not list(store_of(state).glob("objects/pack/*"))


@pytest.mark.parametrize("left", ["tmp_pack_0", "tmp_idx_0", "pack-0.pack"])
async def test_what_a_crash_left_of_a_pack_is_removed(
    checkpoints: GitCheckpoints, many: Path, state: Path, left: str
) -> None:
    await checkpoints.take()
    plant(store_of(state), left)
    (many / "new").write_text("new")
    await checkpoints.take()
    assert not (store_of(state) / "objects/pack" / left).exists()
    git(store_of(state), "fsck", "--full", "--strict")


def plant(store: Path, name: str) -> None:
    (store / "objects/pack" / name).write_bytes(b"PACK")
    (store.parent / "writing").touch()


async def test_a_pack_that_cannot_be_written_is_given_up(
    checkpoints: GitCheckpoints, many: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(pack: objects.BlobPack, name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(objects.BlobPack, "add", full)
    with pytest.raises(
        CheckpointError, match="No space left on device; nothing was changed: make room"
    ):
        await checkpoints.take()
    assert not list(store_of(state).glob("objects/pack/*"))
    monkeypatch.undo()
    assert (await checkpoints.take()).files == 60


def test_a_pack_whose_last_bytes_do_not_fit_on_the_disk_is_given_up(tmp_path: Path) -> None:
    pack = BlobPack(tmp_path)
    pack.add("0" * 64, b"one")
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        os.dup2(full.fileno(), pack._file.fileno())
    pack.abandon()
    assert not list(tmp_path.iterdir())


def test_many_contents_cannot_be_read_if_the_disk_is_full(
    state: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(objects, "TemporaryFile", full)
    monkeypatch.setattr(objects, "_ASKED", 0)
    store = SnapshotStore(state, root)
    refused = pytest.raises(
        CheckpointError, match="No space left on device; nothing was changed: make room"
    )
    with store.locked(threading.Event()), ObjectReader(store) as reader, refused:
        next(reader.each(["0" * 64]))
    store.close()
