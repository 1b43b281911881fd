"""The pool: which tasks begin when, and what is recorded if their processes die."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import EngineError
from codeagent.extensions.batch import pool as module
from codeagent.extensions.batch.perform import BatchContext, Tell
from codeagent.extensions.batch.pool import BatchLimits, Pool
from codeagent.extensions.batch.processes import WorkerDied
from codeagent.extensions.batch.progress import BatchProgress
from codeagent.extensions.batch.results import Results, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.extensions.batch.views import BatchView
from tests.extensions.batch.test_results import RECORD
from tests.table import for_each

TASKS = [BatchTask(repository="/there", prompt=f"task {number}") for number in range(4)]


class Worked:
    """Ends a task when the test says so (a `pool.TaskWorker`)."""

    def __init__(self, deaths: int = 0, cost: float = 0.0) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.may_end = asyncio.Event()
        self.deaths = deaths
        self.cost = cost
        self.calls: list[str] = []
        self.waits = 0.0
        """Seconds of each second that it waits for a processor."""
        self.looks = asyncio.Queue[None]()

    def waited(self) -> float:
        self.looks.put_nowait(None)
        return self.waits * time.monotonic()

    async def run(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> TaskRecord:
        folder.begin(folder.attempt())
        await self.begun.put(task.prompt)
        if self.deaths:
            self.deaths -= 1
            raise WorkerDied
        await self.may_end.wait()
        if "stop" in self.calls:
            raise WorkerDied
        usage = replace(RECORD.usage, cost_usd=self.cost)
        return replace(RECORD, key=task.key, usage=usage)

    def stop(self) -> None:
        self.calls.append("stop")
        self.may_end.set()

    def kill(self) -> None:
        self.calls.append("kill")

    async def close(self) -> None:
        """Nothing to wait for."""


class Said(BatchView):
    def __init__(self) -> None:
        super().__init__(BatchProgress(1, 1))
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Batch:
    def __init__(
        self,
        folder: Path,
        worked: Worked,
        slots: int = 4,
        at_once: int = 1,
        budget: float | None = None,
        task_budget: float | None = None,
    ) -> None:
        self.results = Results(folder / "results").hold()
        self.view = Said()
        self.worked = worked
        self.pool = Pool(
            self.results,
            BatchContext(
                self.results.state_dir, folder / "mirrors", {"limits": {"budget": task_budget}}
            ),
            BatchLimits(slots, at_once, budget),
            new_worker=lambda: worked,
            progress=BatchProgress(4, slots),
            view=self.view,
        )

    async def run(
        self, answers: Callable[[], "asyncio.Future[None]"], tasks: Sequence[BatchTask] = TASKS
    ) -> None:
        await self.pool.run(tasks, answers)


async def at_once() -> None:
    """The engine answers."""


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)


async def test_a_slow_answer_of_the_engine_delays_further_tasks_but_not_the_end_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SLOW", 0.0)
    batch = Batch(tmp_path, worked := Worked())
    answer, asked = asyncio.Event(), asyncio.Event()
    first = True

    async def slow() -> None:
        nonlocal first
        if not first:
            asked.set()
            await answer.wait()
        first = False

    running = asyncio.ensure_future(batch.run(slow))
    assert await worked.begun.get() == "task 0"
    await asked.wait()
    worked.may_end.set()
    while not batch.results.records:  # noqa: ASYNC110  # it ends while the engine is still asked
        await asyncio.sleep(0.01)
    assert worked.begun.empty()
    answer.set()
    await running
    assert len(batch.results.records) == 4, "one at a time, as the engine is slow"


async def test_tasks_that_hardly_wait_for_a_processor_fill_all_slots(tmp_path: Path) -> None:
    batch = Batch(tmp_path, worked := Worked())
    running = asyncio.ensure_future(batch.run(at_once))
    assert [await worked.begun.get() for _ in TASKS] == [task.prompt for task in TASKS]
    assert not batch.results.records
    worked.may_end.set()
    await running


async def test_no_further_task_begins_while_the_running_ones_wait_for_processors(
    tmp_path: Path,
) -> None:
    batch = Batch(tmp_path, worked := Worked(), at_once=2)
    worked.waits = 0.5
    running = asyncio.ensure_future(batch.run(at_once))
    assert [await worked.begun.get() for _ in range(2)] == ["task 0", "task 1"]
    for _ in range(20):
        await worked.looks.get()
    assert worked.begun.empty()
    worked.waits = 0.0
    assert await worked.begun.get() == "task 2"
    worked.may_end.set()
    await running


async def test_no_task_begins_until_the_engine_answers_and_that_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(tmp_path, worked := Worked())
    worked.may_end.set()
    asked = 0

    async def away() -> None:
        nonlocal asked
        asked += 1
        if asked < 3:
            assert worked.begun.empty()
            raise EngineError("nobody listens")

    await batch.run(away)
    assert len(batch.results.records) == 4
    assert sum("nobody listens" in line for line in batch.view.lines) == 1


async def test_a_task_that_needs_no_container_does_not_ask_for_the_engine(tmp_path: Path) -> None:
    batch = Batch(tmp_path, worked := Worked())
    worked.may_end.set()

    async def away() -> None:
        raise EngineError("nobody listens")

    tasks = [replace(each, settings={"sandbox": {"kind": "off"}}) for each in TASKS]
    await batch.run(away, tasks)
    assert len(batch.results.records) == 4


async def test_a_task_whose_process_dies_three_times_has_failed_and_the_others_are_done(
    tmp_path: Path,
) -> None:
    batch = Batch(tmp_path, worked := Worked(deaths=3), slots=1)
    worked.may_end.set()
    await batch.run(at_once)
    states = {key: record.state for key, record in batch.results.records.items()}
    assert states == {TASKS[0].key: "failed"} | {task.key: "done" for task in TASKS[1:]}
    first = batch.results.records[TASKS[0].key]
    assert "died 3 times" in first.error
    folder = batch.results.folder(first.key)
    assert (folder.record(), folder.name()) == (first, ""), "it can be exported"


async def test_a_batch_that_is_stopped_begins_nothing_more_and_keeps_what_was_begun(
    tmp_path: Path,
) -> None:
    batch = Batch(tmp_path, worked := Worked(), slots=1)
    running = asyncio.ensure_future(batch.run(at_once))
    await worked.begun.get()
    batch.pool.stop()
    await running
    assert batch.results.records == {}
    batch.results.close()
    assert batch.results.hold().unfinished == {TASKS[0].key}
    batch.pool.stop()
    assert worked.calls == ["stop", "kill"]


async def test_a_budget_is_never_exceeded_and_includes_what_was_spent_before(
    tmp_path: Path,
) -> None:
    batch = Batch(tmp_path, worked := Worked(cost=0.9), slots=4, budget=3.2, task_budget=1.0)
    worked.may_end.set()
    await batch.run(at_once)
    assert len(batch.results.records) == 3
    assert batch.view.lines[-1] == "1 task did not begin, as the cost might exceed --budget"
    batch.results.close()
    again = Batch(tmp_path, worked, budget=3.2, task_budget=1.0)
    await again.run(at_once, again.results.missing(TASKS))
    assert len(again.results.records) == 3


@for_each(
    ("own", "cost", "begun"),
    [
        ({"limits": {"budget": 2.0}}, 2.0, 1),
        ({"settings": {"limits": {"budget": 2.0}}}, 2.0, 1),
        ({"settings": {"limits": {"turns": 5}}}, 1.0, 3),
    ],
)
async def test_a_task_counts_with_the_budget_that_its_session_has(
    own: dict[str, Any], cost: float, begun: int, tmp_path: Path
) -> None:
    batch = Batch(tmp_path / str(own), worked := Worked(cost=cost), 1, budget=3.0, task_budget=1.0)
    worked.may_end.set()
    await batch.run(at_once, [replace(task, **own) for task in TASKS])
    assert worked.begun.qsize() == begun


async def test_nothing_is_done_over_and_over_while_the_engine_has_answered_and_no_task_may_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 60)
    batch = Batch(tmp_path, worked := Worked(), at_once=4)
    monkeypatch.setattr(worked, "stop", lambda: None)
    answer, asked = asyncio.Event(), asyncio.Queue[None]()

    async def slow() -> None:
        asked.put_nowait(None)
        if worked.begun.qsize():
            await answer.wait()

    running = asyncio.ensure_future(batch.run(slow))
    for _ in range(2):
        await asked.get()
    batch.pool.stop()
    answer.set()
    written = list[Path]()
    monkeypatch.setattr(BatchProgress, "write", lambda self, folder: written.append(folder))
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(written) <= 2
    worked.may_end.set()
    await running


async def test_a_process_that_cannot_be_started_stops_the_batch_and_fails_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(tmp_path, worked := Worked())

    async def run(*given: object) -> TaskRecord:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(worked, "run", run)
    with pytest.raises(OSError, match="Too many open files"):
        await batch.run(at_once)
    assert batch.results.records == {}


@for_each(
    ("available", "limit", "slots"),
    [
        ("MemAvailable: 900000000 kB", "max\n", 8),
        ("MemAvailable: 900000000 kB", f"{900 << 20}\n", 3),
        ("MemAvailable: 614400 kB", f"{900 << 20}\n", 2),
        ("MemAvailable: 1000 kB", "max\n", 1),
        ("", f"{900 << 20}\n", 2),
    ],
)
def test_as_many_tasks_as_the_processors_and_the_memory_have_room_for(
    available: str, limit: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"/proc/meminfo": available, "/sys/fs/cgroup/memory.max": limit}
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "sched_getaffinity", lambda pid: {0, 1})
        patch.setattr(module.Path, "read_text", lambda path: told[str(path)])
        assert module.slots_of_machine() == slots


async def test_a_full_disk_stops_the_batch_and_what_was_recorded_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(tmp_path, worked := Worked(), slots=4)
    worked.may_end.set()
    real, written = module.Results.append, 0

    def full(self: Results, record: TaskRecord) -> None:
        nonlocal written
        written += 1
        if written == 2:
            raise OSError(28, "No space left on device")
        real(self, record)

    monkeypatch.setattr(module.Results, "append", full)
    with pytest.raises(OSError, match="No space left"):
        await batch.run(at_once)
    assert batch.results.records
    assert not (batch.results.path / "running.json").exists()
