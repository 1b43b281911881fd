"""Unfinished files: a process that is killed leaves none in the workspace, or one that the next
start removes."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.workspace.checkpoints import GitCheckpoints

KILLED = """
import os, signal, sys
from pathlib import Path
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.workspace.files import LocalWorkspace

call, name = sys.argv[2:]
real, count = getattr(os, call), [0]

def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

if call == "O_TMPFILE":
    os.O_TMPFILE, call = os.O_DIRECTORY | os.O_NOFOLLOW, "fsync"
setattr(os, call, die)
path = Path(sys.argv[1], name)
before = Node("file", path.read_bytes()) if path.exists() else None
LocalWorkspace(Path(sys.argv[1])).land([Change(name, before, Node("file", b"new"))])
"""


def killed_at(root: Path, call: str, name: str) -> set[str]:
    """What lies in the folder after a write was killed there."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(root), call, name], capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr.decode()
    return set(os.listdir(root))  # noqa: PTH208  # only names are wanted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/old.txt").write_text("old")
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("call", "name"),
    [("fsync", "old.txt"), ("fsync", "new.txt"), ("link", "new.txt"), ("link", "old.txt")],
)
def test_a_write_that_is_killed_before_its_file_has_a_name_leaves_nothing(
    root: Path, call: str, name: str
) -> None:
    assert killed_at(root, call, name) == {"old.txt"}
    assert (root / "old.txt").read_text() == "old"


@pytest.mark.parametrize("call", ["rename", "O_TMPFILE"])
async def test_what_lies_there_after_a_kill_is_removed_by_the_next_start(
    root: Path, tmp_path: Path, call: str
) -> None:
    left = killed_at(root, call, "old.txt")
    assert len(left) == 2, (
        "where it is killed in the last instant, or no file can be without a name"
    )
    checkpoints = GitCheckpoints(tmp_path / "state", root)
    assert (await checkpoints.take()).files == 1
    assert os.listdir(root) == ["old.txt"]  # noqa: PTH208  # only names are wanted
    checkpoints.close()


async def test_the_self_test_s_files_are_removed_too_and_those_in_use_are_not(
    root: Path, tmp_path: Path
) -> None:
    dead, alive = f".codeagent-check-{'0' * 16}", f".codeagent-check-{'1' * 16}"
    for name in (dead, f"{dead}-reply", alive, f"{alive}-reply", f".codeagent-{'2' * 16}.txt"):
        (root / name).write_text("x")
    checkpoints = GitCheckpoints(tmp_path / "state", root)
    with (root / alive).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert (await checkpoints.take()).files == 2
    left = {"old.txt", alive, f"{alive}-reply", f".codeagent-{'2' * 16}.txt"}
    assert set(os.listdir(root)) == left  # noqa: PTH208  # only names are wanted
    checkpoints.close()
