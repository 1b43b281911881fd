"""Folders that many tests begin with: made once in each process, by git say, and copied for each
test."""

import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

Make = Callable[[Path], object]
"""Fills the folder, which is there and empty; what it writes names no place of its own."""


def copied(make: Make, target: Path) -> Path:
    """`target`, holding what `make` made; time stamps are kept, so git takes an index for
    current."""
    shutil.copytree(Path(_original(make).name) / "original", target, symlinks=True)
    return target


@functools.cache
def _original(make: Make) -> "tempfile.TemporaryDirectory[str]":
    """A folder only we enter, around what is copied; removed at the end of the process."""
    around = tempfile.TemporaryDirectory(prefix="codeagent-original-")
    folder = Path(around.name, "original")
    folder.mkdir()
    make(folder)
    for sample in folder.rglob(".git/hooks/*.sample"):
        sample.unlink()
    return around
