"""Work on one task: what its session may cost, and when it is tried again."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeagent.config.sessions import RunReader, Task
from codeagent.core.errors import CodeagentError, SandboxError
from codeagent.extensions.batch import perform as module
from codeagent.extensions.batch.perform import Place, given_up, perform
from codeagent.extensions.batch.results import Attempt, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from tests.extensions.batch.test_results import RECORD

PLACE = Place(Path("/nowhere"), Path("/nowhere"), {})


class App:
    """Ends each session before it is open, with an error."""

    def __init__(self, error: CodeagentError) -> None:
        self.error = error
        self.asked: list[Task] = []

    async def work(self, task: Task, reader: RunReader | None = None) -> None:
        self.asked.append(task)
        raise self.error


@pytest.fixture
def folder(tmp_path: Path) -> TaskFolder:
    found = TaskFolder(tmp_path / "results/key")
    found.path.mkdir(parents=True)
    found.begin(Attempt(1, "c" * 40))
    return found


async def worked(app: Any, folder: TaskFolder, limits: Mapping[str, float]) -> TaskRecord:
    task = BatchTask(repository="/there", prompt="go", limits=dict(limits))
    place = Place(folder.path.parent / "state", folder.path.parent / "mirrors", {})
    return await perform(task, folder, place, app, lambda told: None)


@pytest.mark.parametrize(("spent", "left"), [(0.0, 1.0), (0.75, 0.25), (2.0, 1e-6)])
async def test_a_resumed_task_may_cost_what_its_budget_has_left(
    spent: float, left: float, folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module._Work, "_progress", lambda self, session: ("begun", spent))
    await worked(app := App(CodeagentError("enough")), folder, {"budget": 1.0})
    [task] = app.asked
    assert isinstance(task.settings, Mapping)
    assert task.settings["limits"]["budget"] == left


async def test_a_task_without_a_sandbox_is_tried_again_and_then_has_failed(
    folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        paused.append(seconds)
        await real(0)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    record = await worked(app := App(SandboxError("the engine is away")), folder, {})
    assert (record.state, record.error) == ("failed", "the engine is away")
    assert (len(app.asked), paused) == (4, [1.0, 5.0, 15.0])
    assert folder.record() == record


async def test_another_error_is_the_end_of_a_task(folder: TaskFolder) -> None:
    record = await worked(app := App(CodeagentError("no such model")), folder, {})
    assert (record.error, len(app.asked)) == ("no such model", 1)


async def test_what_has_a_record_is_not_judged_again_in_what_is_left_of_its_copy(
    folder: TaskFolder,
) -> None:
    folder.finish(RECORD)
    folder.copy.mkdir()
    record = await worked(app := App(CodeagentError("it was begun")), folder, {})
    assert (record, app.asked, folder.copy.exists()) == (RECORD, [], False)
    assert given_up(BatchTask(repository="a", prompt="b"), folder, PLACE, "died") == RECORD


async def test_the_lock_of_a_task_is_held_until_its_copying_has_ended(
    folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(path: Path) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait()

    monkeypatch.setattr(module, "discard", slow)
    folder.finish(RECORD)
    working = asyncio.ensure_future(worked(App(CodeagentError("")), folder, {}))
    await begun.wait()
    working.cancel()
    done, _ = await asyncio.wait((working,), timeout=0.2)
    assert not done
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_what_fails_while_the_disk_is_full_is_no_end_of_a_task(
    folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(OSError, match="No space left"):
        await worked(App(CodeagentError("git: it cannot write")), folder, {})
    task, place = BatchTask(repository="/there", prompt="go"), PLACE
    with pytest.raises(OSError, match="No space left"):
        given_up(task, folder, place, "its process died")
    assert folder.record() is None
