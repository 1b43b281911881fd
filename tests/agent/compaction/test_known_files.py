"""What a compaction keeps about files is told of each file once, under the name that the tools
take."""

import os
from pathlib import Path

from codeagent.agent.compaction.known_files import DetailsInContext, KnownFiles
from codeagent.changes.diff import diff_block
from codeagent.core.history import BranchingHistory
from codeagent.core.messages import Attachment, Message, UserMessage
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


def test_attachments_count_as_read_in_order_and_while_they_are_in_the_conversation() -> None:
    def note(name: str) -> UserMessage:
        shown = Attachment(name=name, about="1 line", details={"path": name})
        return UserMessage(content=(), source="note", attached=(shown,))

    line: BranchingHistory[Message] = BranchingHistory([note("a")])
    told: list[list[object]] = []
    known = DetailsInContext(
        [ToolDetails("", {"path": "a"}, "@0")],
        lambda left: told.append([one.details["path"] for one in left]),
        line,
    )
    known.hear()
    assert told == []  # nothing is new
    line.mark("before")
    known.add(ToolDetails("edit", {"path": "a, edited"}, "call_1"))
    line.items.append(note("b"))
    known.hear()
    known.add(ToolDetails("edit", {"path": "b, edited"}, "call_2"))
    known.forget_others()
    assert told == [["a", "a, edited", "b"], ["a", "a, edited", "b", "b, edited"]]
    line.go_back("before")
    known.hear()
    assert told[-1] == ["a", "a, edited", "b, edited"]
    line.replace([note("c")])
    known.keep_only(["call_2"])
    assert told[-1] == ["b, edited", "c"]
