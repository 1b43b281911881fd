"""A call answered hunk by hunk, from the question to the file and the result the model reads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import HunkAnswer
from codeagent.core.events import RunFinished, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Scene, Turn, of, scene

OLD, NEW = "1\n2\n3\n4\n5\n", "one\n2\n3\n4\nfive\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LocalWorkspace]:
    (tmp_path / "a.txt").write_text(OLD)
    workspace = LocalWorkspace(tmp_path)
    yield workspace
    workspace.close()


async def answered(
    folder: LocalWorkspace,
    monkeypatch: pytest.MonkeyPatch,
    *answers: HunkAnswer,
    meanwhile: str = "",
) -> tuple[Scene, ToolResultAdded]:
    """The result of writing NEW to a.txt, answered so; before the answer the file can become
    something else."""
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: folder)
    seen = ReadTracker(folder)
    seen.read("a.txt", OLD.encode(), [(1, 5)], 5)
    call = ("write", json.dumps({"path": "a.txt", "content": NEW}))
    s = scene(Turn("", (call,)), Turn("done"), more=(Write(folder, seen),))

    def answer(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            assert event.by_hunk
            if meanwhile:
                (folder.root / "a.txt").write_text(meanwhile)
            s.act(Answer(event.approval_id, Decision("once", hunks=answers)))

    (result,) = of(await s.run(on_event=answer), ToolResultAdded)
    return s, result


async def test_the_file_has_what_was_taken_and_the_model_is_told(
    folder: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = await answered(folder, monkeypatch, True, False)

    assert (folder.root / "a.txt").read_text() == "one\n2\n3\n4\n5\n"
    assert result.error is None
    assert "The user took 1 of 2 hunks of this change and left out 1." in text_of(result.content)


async def test_none_taken_is_a_denial_after_which_the_run_goes_on(
    folder: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, result = await answered(folder, monkeypatch, False, False)

    assert (folder.root / "a.txt").read_text() == OLD
    assert result.error is not None
    assert (result.error.kind, result.executed) == ("denied", True)
    assert len(s.model.requests) == 2
    assert of(s.events, RunFinished)[0].reason in ("done", "denied")


async def test_answers_for_another_file_than_the_one_that_is_there_change_nothing(
    folder: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = await answered(folder, monkeypatch, True, False, meanwhile="theirs\n")

    assert (folder.root / "a.txt").read_text() == "theirs\n"
    assert result.error is not None
