"""The scratchpad tool: what a model asks of its notes, and what it is told where that does not
work."""

import json
from pathlib import Path

import pytest

from codeagent.core.errors import SessionError
from codeagent.core.memory import Note, ScratchpadFull
from codeagent.core.messages import text_of
from codeagent.core.tool import Failed, InvalidArgs, NotFound
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.scratchpad import ScratchpadTool
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import tool_context


class MemoryPad:
    """A Scratchpad in memory; `trouble` is raised by every change."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.notes: dict[str, str] = {}
        self.trouble = trouble

    def get(self, key: str) -> str | None:
        return self.notes.get(key)

    def set(self, key: str, value: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.notes[key] = value

    def append(self, key: str, value: str) -> None:
        self.set(key, self.notes.get(key, "") + value)

    def delete(self, key: str) -> bool:
        return self.notes.pop(key, None) is not None

    def list(self) -> tuple[Note, ...]:
        return tuple(Note(key, len(value)) for key, value in sorted(self.notes.items()))


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    return LocalWorkspace(tmp_path)


async def ask(tool: ScratchpadTool, workspace: LocalWorkspace, **arguments: object) -> str:
    args = parse_arguments(tool, json.dumps(arguments))
    return text_of((await tool.run(args, tool_context(workspace))).content)


async def test_notes_are_set_read_listed_and_deleted(workspace: LocalWorkspace) -> None:
    tool = ScratchpadTool(MemoryPad())
    assert await ask(tool, workspace, action="list") == "(no notes)"
    assert await ask(tool, workspace, action="set", key="plan", value="one") == "Kept 'plan'."
    await ask(tool, workspace, action="append", key="plan", value=" two")
    assert await ask(tool, workspace, action="get", key="plan") == "one two"
    assert await ask(tool, workspace, action="list") == "plan  7 characters"
    await ask(tool, workspace, action="delete", key="plan")
    assert await ask(tool, workspace, action="list") == "(no notes)"


async def test_the_projects_notes_are_others_than_the_sessions(workspace: LocalWorkspace) -> None:
    session, project = MemoryPad(), MemoryPad()
    tool = ScratchpadTool(session, project)
    await ask(tool, workspace, action="set", key="a", value="1", project=True)
    assert (session.notes, project.notes) == ({}, {"a": "1"})
    with pytest.raises(Failed, match="leave out project"):
        await ask(ScratchpadTool(session), workspace, action="list", project=True)


async def test_an_unknown_key_is_answered_with_the_closest(workspace: LocalWorkspace) -> None:
    pad = MemoryPad()
    tool = ScratchpadTool(pad)
    with pytest.raises(NotFound, match="there are none"):
        await ask(tool, workspace, action="get", key="plan")
    pad.notes |= {"plan": "x", "zzz": "y"}
    for action in ("get", "delete"):
        with pytest.raises(NotFound, match=r"unknown note 'plam'; did you mean plan\?$"):
            await ask(tool, workspace, action=action, key="plam")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"action": "get"}, "needs a key"),
        ({"action": "set", "key": " ", "value": "x"}, "needs a key"),
        ({"action": "set", "key": "a"}, "needs a value"),
        ({"action": "append", "key": "x" * 101, "value": "x"}, "at most 100"),
        ({"action": "clear"}, "action"),
    ],
)
async def test_arguments_that_make_no_sense_say_what_would(
    workspace: LocalWorkspace, arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(InvalidArgs, match=says):
        await ask(ScratchpadTool(MemoryPad()), workspace, **arguments)


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (ScratchpadFull("delete some"), "The scratchpad is full, nothing was changed: delete some"),
        (SessionError("it cannot be changed"), "it cannot be changed"),
    ],
)
async def test_what_cannot_be_kept_is_said(
    workspace: LocalWorkspace, trouble: Exception, says: str
) -> None:
    with pytest.raises(Failed, match=says):
        await ask(ScratchpadTool(MemoryPad(trouble)), workspace, action="set", key="a", value="b")


@pytest.mark.parametrize(
    ("first", "second", "at_once"),
    [
        ("get", "list", True),
        ("set", "get", False),
        ("append", "append", False),
        ("delete", "list", False),
    ],
)
def test_changes_of_one_batch_happen_in_their_order(
    workspace: LocalWorkspace, first: str, second: str, at_once: bool
) -> None:
    tool = ScratchpadTool(MemoryPad())
    one, other = (
        tool.access(parse_arguments(tool, json.dumps({"action": a})), workspace)
        for a in (first, second)
    )
    assert one.conflicts(other) is not at_once
