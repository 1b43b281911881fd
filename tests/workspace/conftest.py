"""A workspace with a store of snapshots beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.workspace.checkpoints import GitCheckpoints


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def checkpoints(state: Path, root: Path) -> Iterator[GitCheckpoints]:
    with_home = GitCheckpoints(state, root, environment={"HOME": str(state.parent)})
    yield with_home
    with_home.close()
