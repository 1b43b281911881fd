"""Whenever the process dies, the workspace is as before a command was taken or as after, and no
layer is left behind."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from codeagent.sandbox import layers
from codeagent.sandbox.layers import new_layer, remove_layer
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.sandbox.tasks import finish_left
from tests.effort import SEED, times

KILLS = times(50)
DEEP = 2_000


@pytest.fixture
def root(tmp_path: Path) -> Iterator[PinnedRoot]:
    (tmp_path / "project").mkdir()
    with closing(PinnedRoot(tmp_path / "project")) as root:
        yield root


@pytest.mark.soak(row="kills of trials")
def test_after_kill_9_between_any_two_calls_the_workspace_is_whole_and_no_layer_is_left(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    program = [sys.executable, "-m", "tests.faults.layer_kills"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        done = subprocess.run(
            [*program, str(tmp_path), elsewhere, str(SEED), str(KILLS)],
            capture_output=True,
            text=True,
            check=False,
        )
    sys.stdout.write(f"\nseed {SEED}: {done.stdout}\n")
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    assert json.loads(done.stdout)["kills"] == KILLS
    tried(KILLS)


async def test_what_was_begun_is_finished_also_if_the_session_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def finish(state_dir: Path, root: Path) -> tuple[str, ...]:
        begun.set()
        go.wait()
        return ("finished",)

    monkeypatch.setattr(layers, "finish_landings", finish)
    (tmp_path / "sandbox" / "layers").mkdir(parents=True)
    task = asyncio.create_task(finish_left(tmp_path, tmp_path))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    go.set()
    assert await task == ("finished",)


def test_a_layer_is_removed_however_deep_and_closed_its_folders_are(
    tmp_path: Path, root: PinnedRoot
) -> None:
    layer = new_layer(tmp_path / "state", root)
    (root.path / "kept").touch()
    fd = os.open(layer.folder / "upper", os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=fd)
        above, fd = fd, os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(above)
    os.symlink(root.path, "link", dir_fd=fd)
    os.fchmod(fd, 0)
    os.close(fd)
    remove_layer(layer)
    assert not layer.folder.exists()
    assert (root.path / "kept").exists()


def test_a_layer_tells_what_changed_before_from_what_changes_afterwards(
    tmp_path: Path, root: PinnedRoot
) -> None:
    layer = new_layer(tmp_path / "state", root)
    for number in range(20):
        before, after = (root.path / f"{name}{number}" for name in ("before", "after"))
        before.touch()
        began = layer.now()
        after.touch()
        assert before.stat().st_ctime_ns <= began < after.stat().st_ctime_ns


def test_the_kernels_notes_about_a_layer_are_not_taken_over_from_the_workspace(
    tmp_path: Path, root: PinnedRoot
) -> None:
    """A command that ran in place may have written them."""
    os.setxattr(root.path, "user.overlay.opaque", b"y")
    os.setxattr(root.path, "user.note", b"kept")
    layer = new_layer(tmp_path / "state", root)
    assert os.listxattr(layer.folder / "upper") == ["user.note"]
