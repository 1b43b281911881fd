"""What a compaction keeps about files is told of each file once, under the name that the tools
take."""

import os
from pathlib import Path

from codeagent.agent.compaction.known_files import KnownFiles
from codeagent.changes.diff import diff_block
from codeagent.session.transcript import ToolDetails
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import put
from tests.table import for_each


@for_each(
    ("name", "told"),
    [(b"a.py", "a.py"), (b"bad\xff", "bad\\xff"), (b"a\nb", "a\\x0ab"), (b"a\\x0ab", "a\\x5cx0ab")],
)
def test_a_file_that_was_read_and_changed_is_one_line(
    tmp_path: Path, name: bytes, told: str
) -> None:
    path = os.fsdecode(name)
    put(tmp_path, path, "new\n")
    workspace = LocalWorkspace(tmp_path)
    wrote = ReadTracker(workspace).wrote(path, b"new\n", ((1, 1),), whole=True)
    changed = (diff_block(path, "old\n", "new\n").path,)
    facts = KnownFiles(workspace, [ToolDetails("write", wrote, "call_1", changed)])
    assert facts.lines() == (f"{told}: changed by you, unchanged since",)
    workspace.close()
