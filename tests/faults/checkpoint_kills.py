"""Kills a process that takes snapshots and goes back, again and again, at any moment: run by its
test.

A process of its own, so that it may fork without the threads of the test run. Arguments: folder,
seed, kills.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints

Tree = dict[str, bytes]


def write(root: Path, tree: Tree) -> None:
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, data in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def read(root: Path) -> Tree:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def some_tree(rng: random.Random) -> Tree:
    """Names that are files in one and folders in the other are likely."""
    names = rng.sample(["a", "b/c", "b", "d/e/f", "d/e", "d", "g", "h", "i/j", "i/k"], 6)
    kept: Tree = {}
    for name in names:
        if not any(other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in kept):
            kept[name] = rng.randbytes(rng.choice([0, 10, 3000]))
    return kept


def opened(base: Path) -> GitCheckpoints:
    return GitCheckpoints(base / "state", base / "work", environment={})


async def snapshot(base: Path) -> str:
    checkpoints = opened(base)
    try:
        return (await checkpoints.take()).id
    finally:
        checkpoints.close()


async def to_be_killed(base: Path, target: str) -> None:
    checkpoints = opened(base)
    present = (await checkpoints.take()).id
    await checkpoints.restore(target, present=present)
    await checkpoints.take()


def killed_at(base: Path, target: str, seconds: float) -> bool:
    """Whether it was killed before it was done."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(to_be_killed(base, target))
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


async def after(base: Path, present: Tree, target: Tree, ids: tuple[str, str]) -> dict[str, bool]:
    """What was found; raises AssertionError where something was lost."""
    checkpoints = opened(base)
    try:
        half = read(base / "work")
        said = await checkpoints.recover()
        found = read(base / "work")
        assert found in (present, target), f"neither as before nor as after: {found}, from {half}"
        if said is not None:
            assert found == (target if "was finished" in said else present), f"{said!r} is not true"
        assert await checkpoints.recover() is None
        now = (await checkpoints.take()).id
        assert now == ids[found == target], "the snapshot afterwards is another one"
        other, tree = (ids[0], present) if found == target else (ids[1], target)
        await checkpoints.restore(other, present=now)
        assert read(base / "work") == tree, "a snapshot is not what it was"
        return {
            "recovered": said is not None,
            "half": half not in (present, target),
            "reached": found == target,
        }
    finally:
        checkpoints.close()


def main(base: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    (base / "work").mkdir()
    count = {"kills": 0, "recovered": 0, "half": 0, "reached": 0}
    span = 0.1
    while count["kills"] < kills:
        present, target = some_tree(rng), some_tree(rng)
        if present == target:
            continue
        write(base / "work", target)
        wanted = asyncio.run(snapshot(base))
        write(base / "work", present)
        if not killed_at(base, wanted, rng.uniform(0, span)):
            span *= 0.9
            continue
        span *= 1.03
        found = asyncio.run(
            after(base, present, target, (asyncio.run(expected(base, present)), wanted))
        )
        count["kills"] += 1
        for name, happened in found.items():
            count[name] += happened
    sys.stdout.write(json.dumps(count))


async def expected(base: Path, tree: Tree) -> str:
    """The id of a tree, from a store and a workspace that nobody is killed in."""
    other = base / "other"
    (other / "work").mkdir(parents=True, exist_ok=True)
    write(other / "work", tree)
    return await snapshot(other)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    except CheckpointError as error:
        raise SystemExit(f"the store is not usable: {error}") from None
