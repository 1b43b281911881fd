"""Work on one task: what its session may cost, when it is tried again, and what is locked."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeagent.app import LocalApp
from codeagent.config.sessions import RunReader, Task
from codeagent.core.errors import CodeagentError, SandboxError
from codeagent.extensions.batch import perform as module
from codeagent.extensions.batch.copies import Mirror, alone
from codeagent.extensions.batch.perform import BatchContext, given_up, perform
from codeagent.extensions.batch.results import Attempt, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from tests.extensions.batch.test_results import RECORD

CONTEXT = BatchContext(Path("/nowhere"), Path("/nowhere"), {})


class App:
    """Ends each session with an error before it opens."""

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


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (folder := tmp_path / "repository").mkdir()
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


async def worked(app: Any, folder: TaskFolder, limits: Mapping[str, float]) -> TaskRecord:
    task = BatchTask(repository="/there", prompt="go", limits=dict(limits))
    context = BatchContext(folder.path.parent / "state", folder.path.parent / "mirrors", {})
    return await perform(task, folder, context, app, lambda told: None)


@pytest.mark.parametrize(("spent", "left"), [(0.0, 1.0), (0.75, 0.25), (2.0, 1e-6)])
async def test_a_resumed_task_may_cost_what_is_left_of_its_budget(
    spent: float, left: float, folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module._Work, "_progress", lambda self, session: ("begun", None, spent))
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


async def test_a_task_that_fails_otherwise_is_not_tried_again(folder: TaskFolder) -> None:
    record = await worked(app := App(CodeagentError("no such model")), folder, {})
    assert (record.error, len(app.asked)) == ("no such model", 1)


async def test_a_task_that_was_killed_before_its_session_had_a_log_begins_again(
    folder: TaskFolder,
) -> None:
    folder.begin(Attempt(1, "c" * 40, "20260101-000000-aaaaaaaa"))
    record = await worked(app := App(CodeagentError("enough")), folder, {})
    [task] = app.asked
    assert (task.prompt, task.resume, record.error) == ("go", None, "enough")


async def test_a_task_with_a_record_is_not_judged_again(folder: TaskFolder) -> None:
    folder.finish(RECORD)
    folder.copy.mkdir()
    record = await worked(app := App(CodeagentError("it was begun")), folder, {})
    assert (record, app.asked, folder.copy.exists()) == (RECORD, [], False)
    assert await given_up(BatchTask(repository="a", prompt="b"), folder, CONTEXT, "died") == RECORD


async def test_a_task_is_not_given_up_while_its_old_process_still_works_on_it(
    folder: TaskFolder,
) -> None:
    async with alone(folder.path / "lock", 5):
        giving_up = asyncio.ensure_future(
            given_up(BatchTask(repository="a", prompt="b"), folder, CONTEXT, "died")
        )
        done, _ = await asyncio.wait((giving_up,), timeout=0.2)
        assert not done
        folder.finish(RECORD)
    assert await giving_up == RECORD


async def test_a_task_continues_when_the_commands_of_its_killed_process_have_ended(
    folder: TaskFolder,
) -> None:
    (folder.copy / "inner").mkdir(parents=True)
    left = await asyncio.create_subprocess_exec("sleep", "60", cwd=folder.copy / "inner")
    working = asyncio.ensure_future(worked(app := App(CodeagentError("enough")), folder, {}))
    await asyncio.wait((working,), timeout=0.3)
    assert app.asked == []
    left.kill()
    await left.wait()
    await working
    assert len(app.asked) == 1


async def test_another_attempt_starts_without_anything_of_the_last_one(folder: TaskFolder) -> None:
    folder.finish(RECORD)
    folder.begin(Attempt(2, ""))
    for each in (folder.kept / "a", folder.copy / "b"):
        each.mkdir(parents=True)
    for each in (folder.patch, folder.diff, folder.page):
        each.touch()
    record = await worked(App(CodeagentError("never asked")), folder, {})
    assert (record.attempt, "git clone" in record.error) == (2, True)
    left = {each.name for each in folder.path.iterdir()}
    assert left == {"attempt.json", "lock", "record.json", "task.json"}


def replaced_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Have git write down its arguments and open files; return a function that returns the notes of
    each run."""
    folder.mkdir()
    note = f'{{ echo "$*"; readlink /proc/$$/fd/*; }} > {folder}/seen-$$'
    (folder / "git").write_text(f'#!/bin/sh\n{note}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: [each.read_text() for each in folder.glob("seen-*")]


async def test_git_that_outlives_a_killed_process_holds_the_lock_of_its_task(
    tmp_path: Path, repository: Path, folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = BatchTask(repository=str(repository), prompt="go")
    context = BatchContext(folder.path.parent / "state", tmp_path / "mirrors", {})
    await Mirror.of(task.repository, context.mirrors).update(task.repository)
    seen = replaced_git(tmp_path / "bin", monkeypatch)
    folder.begin(Attempt(1, ""))
    app: Any = App(CodeagentError("enough"))
    await perform(task, folder, context, app, lambda told: None)
    ran = seen()
    writing = [each for each in ran if "clone" in each or "add" in each or "diff" in each]
    assert len(writing) == 3
    assert all(f"{folder.path}/lock\n" in each for each in ran)


async def test_a_check_that_has_a_result_is_not_run_again(
    tmp_path: Path, repository: Path, folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (script := tmp_path / "script.json").write_text('[{"text": "done"}]')
    task = BatchTask(
        repository=str(repository),
        prompt="go",
        model=f"script:{script}",
        check=f"echo ran >> {tmp_path}/checks",
        settings={"sandbox": {"kind": "off"}},
    )
    context = BatchContext(folder.path.parent / "state", tmp_path / "mirrors", {})
    folder.begin(Attempt(1, ""))
    with monkeypatch.context() as killed:
        killed.setattr(module._Work, "_keep", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await perform(task, folder, context, LocalApp(), lambda told: None)
    record = await perform(task, folder, context, LocalApp(), lambda told: None)
    assert record.state == "passed"
    assert (tmp_path / "checks").read_text() == "ran\n"


async def test_the_lock_of_a_task_is_held_until_its_copying_has_ended(
    folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(path: Path) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait()

    monkeypatch.setattr("codeagent.extensions.batch.results.discard", slow)
    folder.finish(RECORD)
    working = asyncio.ensure_future(worked(App(CodeagentError("")), folder, {}))
    await begun.wait()
    working.cancel()
    done, _ = await asyncio.wait((working,), timeout=0.2)
    assert not done
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await working


class Images:
    """Gets the sandbox of a task ready when the test says so, and then ends its session."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.has_asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.fails = False

    async def work(self, task: Task, reader: Any) -> None:
        self.asked.append(str(task.prompt))
        self.has_asked.set()
        await self.go_on.wait()
        if not self.fails:
            await reader.first.aclose()
        raise CodeagentError("enough")


@pytest.mark.parametrize("fails", [False, True])
async def test_one_task_has_the_image_made_and_the_others_wait_for_it(
    fails: bool, tmp_path: Path
) -> None:
    app: Any = Images()
    app.fails = fails
    context, waits = BatchContext(tmp_path / "state", tmp_path / "mirrors", {}), asyncio.Event()

    def tell(told: Mapping[str, Any]) -> None:
        if app.asked and told["state"] == "waiting for its image":
            waits.set()

    def begun(name: str) -> "asyncio.Task[TaskRecord]":
        (folder := TaskFolder(tmp_path / name)).path.mkdir()
        folder.begin(Attempt(1, "c" * 40))
        task = BatchTask(repository="/there", prompt=name)
        return asyncio.ensure_future(perform(task, folder, context, app, tell))

    one = begun("one")
    await app.has_asked.wait()
    other = begun("other")
    await waits.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert app.asked == ["one"]
    app.go_on.set()
    await asyncio.gather(one, other)
    assert app.asked == ["one", "other"]
    assert bool(list(context.state_dir.glob("image-*[!k]"))) != fails


async def test_a_failure_while_the_disk_is_full_does_not_end_a_task(
    folder: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(OSError, match="No space left"):
        await worked(App(CodeagentError("git: it cannot write")), folder, {})
    task, context = BatchTask(repository="/there", prompt="go"), CONTEXT
    with pytest.raises(OSError, match="No space left"):
        await given_up(task, folder, context, "its process died")
    assert folder.record() is None
