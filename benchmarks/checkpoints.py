"""Checkpoints of 5,000 and 50,000 files, against `git add -A` into an empty index, and `cp -a` of
what is restored."""

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, median_of, ms

if TYPE_CHECKING:
    from codeagent.workspace.checkpoints import GitCheckpoints

SIZES = (5_000, 50_000)
LINES = 80
CHANGED = 10


def figures() -> Iterator[Figure]:
    for files in SIZES:
        with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
            base = Path(folder)
            plant(base / "work", files)
            yield from _rows(base, files)


def plant(root: Path, files: int) -> None:
    """Files of 80 lines, 50 to a folder."""
    for number in range(files):
        folder = root / f"d{number // 1000}" / f"e{number // 50 % 20}"
        if number % 50 == 0:
            folder.mkdir(parents=True, exist_ok=True)
        lines = (f"def work_{number}_{line}(x): return x + {line}\n" for line in range(LINES))
        (folder / f"f{number}.py").write_text("".join(lines))
    # A file as young as its snapshot is read again by the next one.
    time.sleep(0.2)


def _rows(base: Path, files: int) -> Iterator[Figure]:
    times = 3 if files <= 5_000 else 1
    first, floor = median_of(times, lambda: _first(base)), median_of(times, lambda: _git_add(base))
    yield Figure(
        f"checkpoint: first of {files:,} files",
        ms(first),
        f"git add -A {ms(floor)}",
        first / floor,
        "<= 1.2",
    )
    from codeagent.workspace.checkpoints import GitCheckpoints

    checkpoints = GitCheckpoints(base / "state", base / "work")
    before = asyncio.run(checkpoints.take())
    again = median_of(7, lambda: _timed(checkpoints.take))
    floor = median_of(7, lambda: _git_add_again(base))
    target = "<= 150 ms" if files <= 5_000 else ""
    yield Figure(
        f"checkpoint: repeat, {files:,} files",
        ms(again),
        f"git add -A {ms(floor)}",
        again / floor,
        target,
    )
    for number in range(CHANGED):
        (base / f"work/d{number % 5}/e0/new{number}.py").write_text(f"{number}\n")
    changed = _timed(checkpoints.take)
    yield Figure(f"checkpoint: {CHANGED} of {files:,} changed", ms(changed), "", None, "")
    after = asyncio.run(checkpoints.take())
    back = _timed(lambda: checkpoints.restore(before.id, present=after.id))
    yield Figure(f"checkpoint: {CHANGED} of {files:,} brought back", ms(back), "", None, "")
    if files == SIZES[0]:
        yield _all_brought_back(base, checkpoints, after.id)
    checkpoints.close()


def _all_brought_back(base: Path, checkpoints: "GitCheckpoints", then: str) -> Figure:
    """Measure an undo of a batch that removed every file, beside a copy of them that is flushed
    once."""
    ours: list[float] = []
    floors: list[float] = []
    copy = base / "copy"
    shutil.copytree(base / "work", copy, symlinks=True)
    for _ in range(3):
        for path in (base / "work").iterdir():
            shutil.rmtree(path)
        now = asyncio.run(checkpoints.take())
        ours.append(_timed(partial(checkpoints.restore, then, present=now.id)))
        shutil.rmtree(base / "copied", ignore_errors=True)
        started = time.monotonic()
        subprocess.run(["cp", "-a", copy, base / "copied"], check=True)
        subprocess.run(["sync", "-f", base / "copied"], check=True)
        floors.append(time.monotonic() - started)
    mine = median(ours)
    floor = median(floors)
    name = f"checkpoint: all {SIZES[0]:,} files brought back"
    return Figure(name, ms(mine), f"cp -a, sync -f {ms(floor)}", mine / floor, "<= 1.3")


def _first(base: Path) -> float:
    from codeagent.workspace.checkpoints import GitCheckpoints

    shutil.rmtree(base / "first", ignore_errors=True)
    checkpoints = GitCheckpoints(base / "first", base / "work")
    seconds = _timed(checkpoints.take)
    checkpoints.close()
    return seconds


def _timed(work: Callable[[], Awaitable[object]]) -> float:
    async def timed() -> float:
        started = time.monotonic()
        await work()
        return time.monotonic() - started

    return asyncio.run(timed())


def _git_add(base: Path) -> float:
    shutil.rmtree(base / "floor", ignore_errors=True)
    subprocess.run(["git", "init", "-q", "--bare", base / "floor"], check=True)
    return _git_add_again(base)


def _git_add_again(base: Path) -> float:
    started = time.monotonic()
    command = ["git", f"--git-dir={base}/floor", f"--work-tree={base}/work", "add", "-A"]
    subprocess.run(command, cwd=base / "work", check=True)
    return time.monotonic() - started
