"""A call about a file whose name is not UTF-8 can be asked about, logged and edited."""

import json
import os
from pathlib import Path

import pytest

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.event_json import event_json, parse_event_json
from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision
from codeagent.core.redact import Redactor
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Turn, of, scene

TOLD = "new\\xff.txt"


@pytest.mark.parametrize("edited", [None, {"path": "other\\xfe.txt", "content": "theirs\n"}])
async def test_the_name_is_spelled_alike_in_question_log_and_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: dict[str, str] | None
) -> None:
    workspace = LocalWorkspace(tmp_path)
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: workspace)
    call = ("write", json.dumps({"path": TOLD, "content": "ours\n"}))
    s = scene(Turn("", (call,)), Turn("done"), more=(Write(workspace, ReadTracker(workspace)),))
    asked: list[ApprovalRequested] = []

    def answer(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event)
            edits = edited is not None and len(asked) == 1
            decision = Decision("edit", arguments=json.dumps(edited)) if edits else Decision("once")
            s.act(Answer(event.approval_id, decision))

    events = await s.run(on_event=answer)
    workspace.close()

    (result,) = of(events, ToolResultAdded)
    name = TOLD if edited is None else edited["path"]
    assert f"Created {name}:" in text_of(result.content)
    wanted = b"new\xff.txt" if edited is None else b"other\xfe.txt"
    assert (tmp_path / os.fsdecode(wanted)).exists()
    assert (json.loads(asked[0].arguments)["path"], asked[0].target, asked[0].proposal) == (
        TOLD,
        TOLD,
        "",
    )
    for event in events:
        line = event_json(event, Redactor({}))
        assert parse_event_json(line) == event and "?" not in line
