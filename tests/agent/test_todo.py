"""The to-do list of an agent: logged, known again after a resume, and taken along when the
conversation goes back."""

import json

from codeagent.agent.todo import Todo
from codeagent.core.acts import Restore
from codeagent.core.memory import TodoChanged
from codeagent.session.fold import fold
from codeagent.tools.builtin.todo import TodoTool
from tests.agent.doubles import Scene, Turn, of, scene
from tests.agent.memory_checkpoints import MemoryCheckpoints


def writes(*steps: str, doing: str = "") -> Turn:
    items = [{"text": step, "state": "active" if step == doing else "pending"} for step in steps]
    return Turn("", (("todo", json.dumps({"items": items})),))


def begin(*turns: Turn) -> Scene:
    todo = Todo()
    return scene(*turns, todo=todo, more=(TodoTool(todo),), checkpoints=MemoryCheckpoints({}))


def lists(s: Scene) -> list[list[str]]:
    return [[str(item) for item in event.items] for event in of(s.journal.events, TodoChanged)]


async def test_each_change_is_logged_once_and_known_again_after_a_resume() -> None:
    s = begin(
        writes("read", "fix", doing="read"),
        writes("read", "fix", doing="read"),
        writes("fix"),
        Turn("done"),
    )
    await s.run()
    assert lists(s) == [["[>] read", "[ ] fix"], ["[ ] fix"]]
    assert [str(item) for item in fold(s.journal.events).todo.items] == ["[ ] fix"]


async def test_the_list_goes_back_with_the_conversation_and_comes_again_with_it() -> None:
    s = begin(writes("one"), Turn("done"), writes("two"), Turn("done"))
    await s.run("first")
    await s.run("second")
    assert s.agent.rewind is not None
    point = s.agent.rewind.points()[-1]
    assert await s.agent.finish(Restore(point.id, "rewind", files=False, conversation=True)) is None
    assert lists(s)[-1] == ["[ ] one"]
    assert (
        await s.agent.finish(Restore((await s.agent.rewind.redo_target()).id, "redo", files=False))
        is None
    )
    assert lists(s)[-1] == ["[ ] two"]
    assert [str(item) for item in fold(s.journal.events).todo.items] == ["[ ] two"]
