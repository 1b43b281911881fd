"""A workspace that the tools of the web do not touch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.workspace.files import LocalWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[LocalWorkspace]:
    made = LocalWorkspace(tmp_path)
    yield made
    made.close()
