"""Whichever system call fails, nothing acknowledged is lost, no file is half written, and the
reason is said."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.effort import FACTOR, chance, part, up_to
from tests.faults.injected import Point, make, points, run, what_broke

pytestmark = pytest.mark.strace

CALLS = {
    "ENOSPC": "write,pwrite64,openat,mkdir,mkdirat,link,linkat,rename,renameat,renameat2,fsync,fdatasync",
    "EIO": "write,pwrite64,read,pread64,openat,fsync,fdatasync,unlink,unlinkat,ftruncate,newfstatat,getdents64",
    "EMFILE": "openat,dup,pipe2,socket",
    "EROFS": "openat,mkdir,mkdirat,link,linkat,rename,renameat,renameat2,unlink,unlinkat,fchmod",
}
GROUPS = 2
"""Of each error, so that several workers share the work."""
USUAL = {
    "ENOSPC": [Point("write", 60)],
    "EIO": [Point("fdatasync", 3)],
    "EMFILE": [Point("openat", 600)],
    "EROFS": [Point("link", 4)],
}


def chosen(folder: Path, error: str, group: int) -> list[Point]:
    """Calls about files of the session, the settings or the workspace; where descriptors run out,
    any call."""
    if not FACTOR:
        return USUAL[error]
    every = points(make(folder), CALLS[error], below="" if error == "EMFILE" else str(folder))
    chance(error).shuffle(every)
    return every[group : up_to(0, 90) : GROUPS]


@pytest.mark.soak(row="I/O faults")
@pytest.mark.parametrize("group", range(GROUPS if FACTOR else 1))
@pytest.mark.parametrize("error", part(list(CALLS), 2))
def test_a_call_that_fails_loses_nothing_and_is_said_in_a_line(
    tmp_path: Path, error: str, group: int, tried: Callable[[int], None]
) -> None:
    wanted = chosen(tmp_path / "counted", error, group)
    broken = {}
    for number, point in enumerate(wanted):
        product = make(tmp_path / str(number))
        done = run(product, point, f"error={error}")
        found = what_broke(product, done)
        if done.code < 0 or "Traceback" in done.err:
            found.append(f"it ended with {done.code}: {done.err[-1500:]}")
        if done.code and not done.err.strip():
            found.append(f"it ended with {done.code} and no word")
        if found:
            broken[point] = found
        shutil.rmtree(tmp_path / str(number))
    tried(len(wanted))
    assert broken == {}
