"""The toolbox of the other tests with the extra file tools in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.extensions.file_tools.apply_patch import ApplyPatch
from codeagent.extensions.file_tools.json_file import JsonRead, JsonWrite
from codeagent.extensions.file_tools.multi_edit import MultiEdit
from codeagent.extensions.file_tools.tree import Glob, Tree
from codeagent.tools.registry import ToolRegistry
from tests.toolbox import Toolbox


class ExtraBox(Toolbox):
    """The tools of one session over one folder, those that are off at the start turned on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        both = (self.workspace, self.reads)
        files = [MultiEdit(*both), ApplyPatch(*both), JsonRead(*both), JsonWrite(*both)]
        self.registry = ToolRegistry(
            [*self.registry, *files, Glob(self.workspace), Tree(self.workspace)]
        )


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ExtraBox]:
    root = tmp_path / "project"
    root.mkdir()
    toolbox = ExtraBox(root)
    yield toolbox
    toolbox.workspace.close()
