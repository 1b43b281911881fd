"""Runs the tasks of a batch in processes, as many at once as the machine and the engine keep up with,
and within the budget."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.copies import Mirror
from codeagent.extensions.batch.perform import Place, Tell
from codeagent.extensions.batch.processes import WorkerDied
from codeagent.extensions.batch.progress import Progress
from codeagent.extensions.batch.results import Results, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.extensions.batch.views import BatchView

_MOST_DEATHS = 3
"""How often the process of one task may die before the task has failed."""
_TASK_BYTES = 300 << 20
"""What a task is expected to take of the memory, its container included."""
_SLOW = 1.0
"""Seconds for an answer of the engine beyond which no further task begins."""


@dataclass(frozen=True)
class Limits:
    """How much a batch may do."""

    slots: int
    """Tasks at the same time, at most."""
    budget: float | None = None
    """US dollars for all tasks."""
    task_budget: float | None = None
    """US dollars for each that has no budget of its own."""


@dataclass
class Spending:
    """What tasks have cost, and what those at work may still cost."""

    budget: float | None
    spent: float = 0.0
    held: dict[str, float] = field(default_factory=dict)

    def may_begin(self, most: float) -> bool:
        """Whether a task that costs so much at most would keep within the budget."""
        return self.budget is None or self.spent + sum(self.held.values()) + most <= self.budget

    def ended(self, record: TaskRecord) -> None:
        self.held.pop(record.key, None)
        self.spent += record.usage.cost_usd or 0.0


class TaskWorker(Protocol):
    """Works on one task at a time, somewhere."""

    async def run(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> TaskRecord:
        """Work on a task to its end. Raises WorkerDied."""

    def stop(self) -> None:
        """Have it stop in order; nothing waits for its end."""

    def kill(self) -> None:
        """End it at once."""

    async def close(self) -> None:
        """Have it stop in order, and wait for its end; idempotent."""


class Pool:
    """Works on the tasks of a batch."""

    def __init__(
        self,
        results: Results,
        limits: Limits,
        new_worker: Callable[[], TaskWorker],
        progress: Progress,
        view: BatchView,
    ) -> None:
        self._results = results
        self._new_worker = new_worker
        self._limits = limits
        self._progress = progress
        self._view = view
        spent = sum(record.usage.cost_usd or 0.0 for record in results.records.values())
        self._spending = Spending(limits.budget, spent)
        self._idle: list[TaskWorker] = []
        self._working: dict[asyncio.Task[None], TaskWorker] = {}
        self._stopped = False

    async def run(self, tasks: Sequence[BatchTask], answers: Callable[[], Awaitable[None]]) -> None:
        """Work on all tasks, as far as the budget and `stop` let it. Raises OSError.

        `answers` asks the engine for something small, to see how long it takes.
        """
        waiting = deque(tasks)
        try:
            while (waiting and not self._stopped) or self._working:
                while waiting and not self._stopped and await self._may_begin(waiting[0], answers):
                    self._begin(waiting.popleft())
                if not self._working:
                    break
                done, _ = await asyncio.wait(
                    self._working, timeout=1.0, return_when=asyncio.FIRST_COMPLETED
                )
                self._progress.write(self._results.path)
                for each in done:
                    self._idle.append(self._working.pop(each))
                    await each
            if waiting and not self._stopped:
                self._view.say(f"the budget is reached: {len(waiting)} tasks did not begin")
        finally:
            await asyncio.gather(*(worker.close() for worker in self._all()))
            self._progress.remove(self._results.path)

    async def _may_begin(self, task: BatchTask, answers: Callable[[], Awaitable[None]]) -> bool:
        if len(self._working) >= self._limits.slots or not self._spending.may_begin(
            self._most(task)
        ):
            return False
        if len(self._working) < (os.cpu_count() or 1):
            return True
        began = time.monotonic()
        await answers()
        return time.monotonic() - began < _SLOW

    def _most(self, task: BatchTask) -> float:
        """Return what the task may cost."""
        return float(task.limits.get("budget") or self._limits.task_budget or 0.0)

    def _begin(self, task: BatchTask) -> None:
        worker = self._idle.pop() if self._idle else self._new_worker()
        self._spending.held[task.key] = self._most(task)
        self._working[asyncio.ensure_future(self._work(worker, task))] = worker

    async def _work(self, worker: TaskWorker, task: BatchTask) -> None:
        for _ in range(_MOST_DEATHS):
            with suppress(WorkerDied):
                tell = partial(self._progress.changed, task.key)
                record = await worker.run(task, self._results.folder(task.key), tell)
                self._results.append(record)
                self._spending.ended(record)
                self._progress.has_ended(record)
                self._view.ended(record)
                return
            if self._stopped:
                return
        self._view.say(f"{task.title}: its process died {_MOST_DEATHS} times; see workers.log")

    def stop(self) -> None:
        """Begin no more, and have what is at work stop in order; a second time, at once."""
        if self._stopped:
            for worker in self._all():
                worker.kill()
        self._stopped = True
        for worker in self._working.values():
            worker.stop()

    def _all(self) -> list[TaskWorker]:
        return [*self._idle, *self._working.values()]


async def make_mirrors(
    tasks: Sequence[BatchTask], place: Place, tell: Callable[[str], None]
) -> None:
    """Copy each repository once, some at a time; a task whose repository cannot be copied says so
    itself."""
    slots = asyncio.Semaphore(4)

    async def make(repository: str) -> None:
        async with slots:
            try:
                mirror = Mirror.of(repository, place.mirrors)
                await asyncio.to_thread(mirror.update, repository)
            except ConfigError as error:
                tell(f"{repository}: {error}")

    await asyncio.gather(*map(make, dict.fromkeys(task.repository for task in tasks)))


def slots_of_machine() -> int:
    """Return how many tasks this machine has room for."""
    processors = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        return max(1, min(4 * processors, int(available.split()[1]) * 1024 // _TASK_BYTES))
    return processors
