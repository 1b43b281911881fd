"""The store: whose it is, what goes wrong with it, who takes turns in it, and how it is pruned."""

import asyncio
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.checkpoints import Node
from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots import store as store_module
from codeagent.workspace.snapshots.store import Retention, SnapshotStore
from tests.workspace.trees import texts

PROCESS = """
import asyncio, sys
from pathlib import Path
from codeagent.workspace.checkpoints import GitCheckpoints

async def main():
    checkpoints = GitCheckpoints(Path(sys.argv[1]), Path(sys.argv[2]))
    for number in range(int(sys.argv[4])):
        Path(sys.argv[2], f"{sys.argv[3]}-{number}").write_text(str(number))
        print((await checkpoints.take()).id, flush=True)

asyncio.run(main())
"""


def both_take(state: Path, root: Path) -> list[list[str]]:
    """What two processes took that run at the same time, each after a file of its own."""
    command = [sys.executable, "-c", PROCESS, str(state), str(root)]
    processes = [
        subprocess.Popen([*command, name, "12"], stdout=subprocess.PIPE, text=True)
        for name in ("left", "right")
    ]
    taken = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return taken


async def test_the_store_is_nobody_elses_and_never_part_of_a_snapshot(root: Path) -> None:
    checkpoints = GitCheckpoints(root / "state", root)
    (root / ".env").write_text("TOKEN=x")
    assert (await checkpoints.take()).files == 1
    assert (await checkpoints.take()).files == 1
    assert stat.S_IMODE((root / "state/checkpoints").stat().st_mode) == 0o700
    (store,) = (root / "state/checkpoints").iterdir()
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert (store / "workspace").read_text() == f"{root}\n"
    checkpoints.close()


async def test_without_git_or_with_an_old_one_the_user_is_told(
    state: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        CheckpointError, match="git is not on PATH, so no checkpoints are kept: install git"
    ):
        await GitCheckpoints(state, root).take()
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.17.1\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(
        CheckpointError, match=r"says 'git version 2\.17\.1'.*install git 2\.29 or newer"
    ):
        await GitCheckpoints(state, root).take()


async def test_a_full_disk_is_said_leaves_nothing_behind_and_the_next_snapshot_is_taken(
    state: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "git"
    full = (
        "touch objects/pack/tmp_pack_x; echo 'fatal: write error. Out of diskspace' >&2; exit 128"
    )
    program.write_text(
        f'#!/bin/sh\ncase $1 in fast-import) {full};; esac\nexec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    (root / "f").write_bytes(b"x" * 200_000)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        checkpoints = GitCheckpoints(state, root)
        with pytest.raises(
            CheckpointError, match=r"^the disk of .* is full; nothing was changed: make room"
        ):
            await checkpoints.take()
        checkpoints.close()
    (store,) = (state / "checkpoints").glob("*")
    assert list(store.glob("git/objects/pack/*")) == []
    checkpoints = GitCheckpoints(state, root)
    assert (await checkpoints.take()).files == 1
    checkpoints.close()


async def test_a_state_folder_that_cannot_be_used_is_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(
        CheckpointError,
        match=r"checkpoints cannot be kept in .*: Not a directory; nothing was changed",
    ):
        await GitCheckpoints(tmp_path / "state", root).take()


async def test_a_damaged_store_says_so_and_a_damaged_memory_of_stamps_is_made_again(
    checkpoints: GitCheckpoints, state: Path, root: Path
) -> None:
    (root / "f").write_text("one")
    before = await checkpoints.take()
    checkpoints.close()
    (store,) = (state / "checkpoints").iterdir()
    (store / "known.sqlite").write_bytes(b"no database at all" * 500)
    (store / "known.sqlite-wal").unlink(missing_ok=True)
    assert (await checkpoints.take()).id == before.id
    shutil.rmtree(store / "git/objects")
    (store / "git/objects").mkdir()
    with pytest.raises(CheckpointError, match="no longer exists"):
        await checkpoints.changes(before.id, before.id)
    (root / "f").write_text("two")
    again = await checkpoints.take()
    assert await checkpoints.node(again.id, "f") == Node("file", b"two")


async def test_the_callers_git_variables_and_configuration_are_not_in_force(
    checkpoints: GitCheckpoints, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
        "GIT_CONFIG_COUNT",
    ):
        monkeypatch.setenv(name, str(root / "elsewhere"))
    (root / "f").write_text("one")
    assert (await checkpoints.take()).files == 1
    assert not (root / "elsewhere").exists()


async def test_two_processes_on_one_workspace_lose_no_snapshot(state: Path, root: Path) -> None:
    taken = both_take(state, root)
    checkpoints = GitCheckpoints(state, root)
    for name, ids in zip(("left", "right"), taken, strict=True):
        for number, snapshot in enumerate(ids):
            assert await checkpoints.node(snapshot, f"{name}-{number}") == Node(
                "file", str(number).encode()
            )
    checkpoints.close()


async def test_a_snapshot_names_the_other_processes_that_use_the_store(
    checkpoints: GitCheckpoints, state: Path
) -> None:
    assert (await checkpoints.take()).others == ()
    [store] = (state / "checkpoints").glob("*")
    with (store / "live/1-4242-ab").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert (await checkpoints.take()).others == (4242,)
    assert (await checkpoints.take()).others == ()


async def test_work_that_is_cancelled_has_ended_when_the_cancelling_is_over(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    for number in range(300):
        (root / str(number)).write_text("one")
    first = await checkpoints.take()
    for number in range(300):
        (root / str(number)).write_text("two")
    taking = asyncio.create_task(checkpoints.take())
    await asyncio.sleep(0.005)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    second = await checkpoints.take()
    restoring = asyncio.create_task(checkpoints.restore(first.id, present=second.id))
    await asyncio.sleep(0.02)
    restoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert texts(root) in ({"one"}, {"two"})
    assert await checkpoints.recover() is None


async def test_who_waits_for_another_process_can_be_cancelled_at_once(
    checkpoints: GitCheckpoints, state: Path
) -> None:
    await checkpoints.take()
    (store,) = (state / "checkpoints").glob("*")
    with (store / "lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = asyncio.create_task(checkpoints.take())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 10)
    assert (await checkpoints.take()).files == 0


async def test_the_event_loop_goes_on_while_a_snapshot_is_taken(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    for number in range(500):
        (root / str(number)).write_text("x" * 1000)
    turns = 0
    taking = asyncio.create_task(checkpoints.take())
    while not taking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 50


async def test_pruning_drops_old_sessions_of_dead_processes_and_keeps_the_living(
    state: Path, root: Path
) -> None:
    old, living = (
        GitCheckpoints(state, root),
        GitCheckpoints(state, root, allowance=Retention(age=-1)),
    )
    (root / "f").write_text("only in the old one")
    gone = (await old.take()).id
    (root / "f").write_text("in the living one")
    kept = (await living.take()).id
    await living.prune()
    assert await living.node(gone, "f") is not None
    old.close()
    await living.prune()
    with pytest.raises(CheckpointError, match="no longer exists"):
        await living.node(gone, "f")
    assert await living.node(kept, "f") == Node("file", b"in the living one")
    assert (await living.take()).id == kept
    living.close()


async def test_pruning_waits_for_a_git_that_is_slow_to_read_what_it_is_told(
    state: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, program = tmp_path / "gate", tmp_path / "bin/git"
    os.mkfifo(gate)
    program.parent.mkdir()
    slow = f"case $1 in update-ref) read _ <{gate};; esac"
    program.write_text(f'#!/bin/sh\n{slow}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    waited = []

    class Watched(subprocess.Popen[bytes]):
        """Lets git go on as soon as somebody has given up waiting for it once."""

        def communicate(self, *arguments: Any, **more: Any) -> tuple[bytes, bytes]:
            try:
                return super().communicate(*arguments, **more)
            except subprocess.TimeoutExpired:
                if "update-ref" in str(self.args) and self not in waited:
                    waited.append(self)
                    gate.write_text("go on\n")
                raise

    old = GitCheckpoints(state, root)
    (root / "f").write_text("only in the old one")
    gone = (await old.take()).id
    old.close()
    (root / "f").write_text("now")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(subprocess, "Popen", Watched)
    here = GitCheckpoints(state, root, allowance=Retention(age=-1))
    await here.take()
    await here.prune()
    assert waited
    with pytest.raises(CheckpointError, match="no longer exists"):
        await here.node(gone, "f")
    here.close()


async def test_pruning_drops_the_oldest_until_the_rest_is_small_enough(
    state: Path, root: Path
) -> None:
    ids = []
    for _ in range(4):
        session = GitCheckpoints(state, root)
        (root / "f").write_bytes(os.urandom(300_000))
        ids.append((await session.take()).id)
        session.close()
    last = GitCheckpoints(state, root, allowance=Retention(size=800_000))
    await last.prune()
    left = [snapshot for snapshot in ids if await _is_there(last, snapshot)]
    assert ids[-1] in left and ids[0] not in left
    last.close()


async def test_pruning_removes_the_stores_of_workspaces_that_nobody_used_for_long(
    state: Path, root: Path
) -> None:
    other = root.parent / "other"
    other.mkdir()
    forgotten = GitCheckpoints(state, other)
    await forgotten.take()
    here = GitCheckpoints(state, root)
    await here.take()
    for folder in (state / "checkpoints").iterdir():
        os.utime(folder, (1, 1))
    await here.prune()
    assert len(list((state / "checkpoints").iterdir())) == 2
    forgotten.close()
    for folder in (state / "checkpoints").iterdir():
        os.utime(folder, (1, 1))
    await here.prune()
    assert len(list((state / "checkpoints").iterdir())) == 1
    here.close()


async def _is_there(checkpoints: GitCheckpoints, snapshot: str) -> bool:
    try:
        return await checkpoints.node(snapshot, "f") is not None
    except CheckpointError:
        return False


async def test_one_that_gives_up_waiting_for_its_turn_leaves_the_one_whose_turn_it_is_alone(
    state: Path, root: Path
) -> None:
    store = SnapshotStore(state, root)
    with store.locked(threading.Event()):
        given_up = threading.Event()
        given_up.set()
        with pytest.raises(CheckpointError, match="interrupted"), store.locked(given_up):
            raise AssertionError("the turn is taken")
        assert store.run("rev-parse", "--is-bare-repository") == b"true\n"
    store.close()


def test_threads_that_need_a_new_store_at_once_all_get_it(
    state: Path, root: Path, monkeypatch: Any
) -> None:
    store, at_once, opens = (
        SnapshotStore(state, root),
        threading.Barrier(2),
        store_module.open_lock_file,
    )

    def together(path: Path) -> int:
        fd = opens(path)
        with suppress(threading.BrokenBarrierError):
            at_once.wait(0.5)  # the second one arrives if nothing keeps it out
        return fd

    monkeypatch.setattr(store_module, "open_lock_file", together)
    threads = [threading.Thread(target=store.ready, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads), "one waits for the other for ever"
    store.close()
