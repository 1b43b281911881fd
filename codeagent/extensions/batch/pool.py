"""Runs the tasks of a batch in processes, as many at once as the machine and the engine keep up with,
and within the budget."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.extensions.batch.copies import Mirror
from codeagent.extensions.batch.perform import BatchContext, Tell, given_up, needs_engine
from codeagent.extensions.batch.processes import WorkerDied
from codeagent.extensions.batch.progress import BatchProgress
from codeagent.extensions.batch.results import Results, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.extensions.batch.views import BatchView

_MOST_DEATHS = 3
"""How often the process of one task may die before the task has failed."""
_TASK_BYTES = 300 << 20
"""What a task is expected to take of the memory, its container included."""
_SLOW = 1.0
"""Seconds for an answer of the engine beyond which no further task begins."""
_LOOK_SECONDS = 0.25
_MOST_WAITING = 0.25
"""The share of their time that tasks at work may wait for a processor; a further one would only
have them wait more."""


@dataclass(frozen=True)
class BatchLimits:
    """How much a batch may do."""

    slots: int
    """Tasks at the same time, at most."""
    at_once: int
    """Tasks at the same time that need no look at how busy this machine is."""
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

    def waited(self) -> float:
        """Return for how many seconds it has waited for a processor of this machine."""

    def stop(self) -> None:
        """Have it stop in order; nothing waits for its end."""

    def kill(self) -> None:
        """End it at once."""

    async def close(self) -> None:
        """Have it stop in order, and wait for its end; idempotent."""


class _Admission:
    """Lets a task begin after each answer of the engine that was quick enough, and more at a time
    as long as those at work hardly wait for a processor; nothing waits for answers."""

    def __init__(
        self, at_once: int, answers: Callable[[], Awaitable[None]], tell: Callable[[str], None]
    ) -> None:
        self._at_once = at_once
        self._answers = answers
        self._tell = tell
        self._most = at_once
        """Tasks that the processors have time for, as far as that is known."""
        self._looked = (time.monotonic(), dict[TaskWorker, float]())
        self.asking: asyncio.Task[float] | None = None
        """The question that is open."""

    def may_begin(self, working: Collection[TaskWorker], *, asks: bool) -> bool:
        """Whether a further task may begin beside these; if it needs the engine, that is asked."""
        if len(working) >= self._most:
            self._look(working)
        if len(working) >= self._most:
            return False
        if not asks:
            return True
        if self.asking is None:
            self.asking = asyncio.ensure_future(self._seconds())
        if not self.asking.done():
            return False
        seconds = self.asking.result()
        self.asking = None
        return seconds < (_SLOW if len(working) >= self._at_once else inf)

    def _look(self, working: Collection[TaskWorker]) -> None:
        """Let more tasks be at work than these, or fewer, by how long they waited for a processor
        since the last look."""
        now, waited = time.monotonic(), {worker: worker.waited() for worker in working}
        last, before = self._looked
        if now - last < _LOOK_SECONDS:
            return
        self._looked = (now, waited)
        both = waited.keys() & before.keys()
        seconds = sum(waited[worker] - before[worker] for worker in both)
        step = max(1, self._most // 4)
        quick = seconds < _MOST_WAITING * len(both) * (now - last)
        self._most = max(self._at_once, self._most + (step if quick else -step))

    async def _seconds(self) -> float:
        """Return how long the answer took; infinity if there was none."""
        began = time.monotonic()
        try:
            await self._answers()
        except CodeagentError as error:
            self._tell(f"no task begins until the container engine answers: {error}")
            self._tell = lambda text: None
            return inf
        return time.monotonic() - began


class Pool:
    """Works on the tasks of a batch."""

    def __init__(
        self,
        results: Results,
        context: BatchContext,
        limits: BatchLimits,
        *,
        new_worker: Callable[[], TaskWorker],
        progress: BatchProgress,
        view: BatchView,
    ) -> None:
        self._results = results
        self._context = context
        self._new_worker = new_worker
        self._limits = limits
        self._progress = progress
        self._view = view
        self._spending = Spending(limits.budget, results.spent)
        self._idle: list[TaskWorker] = []
        self._working: dict[asyncio.Task[None], TaskWorker] = {}
        self._preparing: asyncio.Future[Any] | None = None
        self._stopped = False

    async def prepare(self, tasks: Sequence[BatchTask]) -> None:
        """Copy each repository once, some at a time, until that is done or stopped; a task whose
        repository cannot be copied says so itself."""
        slots = asyncio.Semaphore(4)

        async def make(repository: str) -> None:
            async with slots:
                try:
                    await Mirror.of(repository, self._context.mirrors).update(repository)
                except ConfigError as error:
                    self._view.say(f"{error}")

        self._preparing = asyncio.gather(*map(make, {task.repository: 0 for task in tasks}))
        with suppress(asyncio.CancelledError):
            await self._preparing

    async def run(self, tasks: Sequence[BatchTask], answers: Callable[[], Awaitable[None]]) -> None:
        """Work on all tasks, as far as the budget and `stop` let it. Raises ConfigError.

        `answers` asks the engine for something small, and raises CodeagentError if it does not
        answer.
        """
        waiting = deque(tasks)
        admission = _Admission(self._limits.at_once, answers, self._view.say)
        try:
            while self._working or (waiting and not self._stopped):
                if waiting and not self._stopped and self._has_room(waiting[0]):
                    asks = needs_engine(waiting[0], self._context)
                    if admission.may_begin(self._working.values(), asks=asks):
                        self._begin(waiting.popleft())
                        continue
                elif not self._working:
                    break
                await self._wait(admission.asking)
            if waiting and not self._stopped:
                self._view.say(
                    f"tasks that did not begin as they might pass --budget: {len(waiting)}"
                )
        finally:
            self._stopped = True
            if admission.asking is not None:
                admission.asking.cancel()
            await asyncio.gather(*(worker.close() for worker in self._all()))
            await asyncio.gather(*self._working, return_exceptions=True)
            self._progress.remove(self._results.path)

    async def _wait(self, asking: "asyncio.Task[float] | None") -> None:
        """Wait until a task has ended or the engine has answered, or it is time for another look.
        Raises ConfigError."""
        awaited = [*self._working, *([asking] if asking is not None else ())]
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(
            awaited or [asyncio.ensure_future(asyncio.sleep(1))],
            timeout=_LOOK_SECONDS,
            return_when=first,
        )
        with suppress(OSError):  # what is lost is shown by nobody
            self._progress.write(self._results.path)
        for each in [each for each in self._working if each.done()]:
            self._idle.append(self._working.pop(each))
            await each

    def _has_room(self, task: BatchTask) -> bool:
        free = len(self._working) < self._limits.slots
        return free and self._spending.may_begin(self._most(task))

    def _most(self, task: BatchTask) -> float:
        """Return what the task may cost."""
        return float(task.limits.get("budget") or self._limits.task_budget or 0.0)

    def _begin(self, task: BatchTask) -> None:
        worker = self._idle.pop() if self._idle else self._new_worker()
        self._spending.held[task.key] = self._most(task)
        self._working[asyncio.ensure_future(self._work(worker, task))] = worker

    async def _work(self, worker: TaskWorker, task: BatchTask) -> None:
        folder = self._results.begin(task.key)
        self._progress.changed(task.key, {"title": task.title, "state": "starting"})
        record = None
        for _ in range(_MOST_DEATHS):
            with suppress(WorkerDied):
                tell = partial(self._progress.changed, task.key)
                record = await worker.run(task, folder, tell)
                break
            if self._stopped:
                return
        if record is None:
            error = f"its process died {_MOST_DEATHS} times; see workers.log"
            try:
                record = await given_up(task, folder, self._context, error)
            except OSError as failed:
                raise self._results.cannot_write(failed) from failed
        if record.state != "interrupted":  # it can be continued
            self._results.append(record)
        self._spending.ended(record)
        self._progress.has_ended(record)
        self._view.ended(record)

    def stop(self) -> None:
        """Begin no more, and have what is at work stop in order; a second time, at once."""
        if self._stopped:
            for worker in self._all():
                worker.kill()
        else:
            self._view.say("stopping in order; Ctrl+C again stops at once")
        self._stopped = True
        if self._preparing is not None:
            self._preparing.cancel()
        for worker in self._working.values():
            worker.stop()

    def _all(self) -> list[TaskWorker]:
        return [*self._idle, *self._working.values()]


def slots_of_machine() -> int:
    """Return how many tasks this machine has room for."""
    processors = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        return max(1, min(4 * processors, int(available.split()[1]) * 1024 // _TASK_BYTES))
    return processors
