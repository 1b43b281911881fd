"""Runs the tasks of a batch, as many at the same time as the machine and the container engine can
handle, and within the budget."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Protocol

from codeagent.changes.diff import count
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
"""A task has failed once its process has died this often."""
_TASK_BYTES = 300 << 20
"""The memory that a task is expected to use, including its container."""
_SLOW = 1.0
"""Seconds; while the engine takes longer to answer, no task begins beyond `BatchLimits.at_once`."""
_LOOK_SECONDS = 0.25
"""How often the pool looks at the running tasks, in seconds."""
_MOST_WAITING = 0.15
"""The share of their time that running tasks may wait for a processor before no other begins: one
more would only make them wait longer."""


@dataclass(frozen=True)
class BatchLimits:
    """How many tasks a batch runs at the same time, and what it may cost."""

    slots: int
    """The most tasks that run at the same time."""
    at_once: int
    """So many tasks run at the same time however busy this machine is."""
    budget: float | None = None
    """US dollars for all tasks."""


class TaskWorker(Protocol):
    """Works on one task at a time, in a process of this machine or of a cluster."""

    async def run(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> TaskRecord:
        """Work on a task to its end. Raises WorkerDied, OSError."""

    def waited(self) -> float:
        """Return how many seconds it has waited for a processor of this machine so far."""

    def stop(self) -> None:
        """Have it stop in order, without waiting for it."""

    def kill(self) -> None:
        """End it at once."""

    async def close(self) -> None:
        """Have it stop in order, and wait until it has; idempotent."""


class _Admission:
    """Decides when another task may begin: the first `at_once` if the engine answers, more if it
    answers quickly and the running tasks hardly wait for a processor. It never waits for an
    answer."""

    def __init__(
        self, at_once: int, answers: Callable[[], Awaitable[None]], tell: Callable[[str], None]
    ) -> None:
        self._at_once = at_once
        self._answers = answers
        self._tell = tell
        self._most = at_once
        """How many tasks the processors have time for, as far as that is known."""
        self._looked = (time.monotonic(), dict[TaskWorker, float]())
        self.asking: asyncio.Task[float] | None = None
        """The open question to the engine, if any."""

    def may_begin(self, working: Collection[TaskWorker], *, asks: bool) -> bool:
        """Whether another task may begin; if it `asks` the engine, the engine has to have answered."""
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
        """Allow more running tasks, or fewer, by how long these have waited for a processor since the
        last look."""
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
        """Ask the engine; return how many seconds the answer took, infinity if it did not answer."""
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
        self._held: dict[str, float] = {}
        """US dollars that tasks without a record may cost, by key."""
        self._idle: list[TaskWorker] = []
        self._working: dict[asyncio.Task[None], TaskWorker] = {}
        self._preparing: asyncio.Future[Any] | None = None
        self._stopped = False

    async def prepare(self, tasks: Sequence[BatchTask]) -> None:
        """Make or update the mirror of each repository, until all are done or `stop` is called. A
        failure is shown; the tasks of that repository will try again."""
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
        """Work on all tasks, or until the budget is used up or `stop` is called. Raises ConfigError,
        OSError.

        `answers` makes a small request to the engine, and raises CodeagentError if there is no
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
                left = count(len(waiting), "task")
                self._view.say(f"{left} did not begin, as the cost might exceed --budget")
        finally:
            self._stopped = True
            if admission.asking is not None:
                admission.asking.cancel()
            await asyncio.gather(*(worker.close() for worker in self._all()))
            await asyncio.gather(*self._working, return_exceptions=True)
            self._progress.remove(self._results.path)

    async def _wait(self, asking: "asyncio.Task[float] | None") -> None:
        """Wait until a task has ended or the engine has answered, or it is time for another look.
        Raises ConfigError, OSError."""
        looking = asyncio.ensure_future(asyncio.sleep(_LOOK_SECONDS))
        asked = () if asking is None or asking.done() else (asking,)
        await asyncio.wait((looking, *self._working, *asked), return_when=asyncio.FIRST_COMPLETED)
        looking.cancel()
        with suppress(OSError):  # only those who watch miss it
            self._progress.write(self._results.path)
        for each in [each for each in self._working if each.done()]:
            self._idle.append(self._working.pop(each))
            await each

    def _has_room(self, task: BatchTask) -> bool:
        most = self._results.spent + sum(self._held.values()) + task.budget(self._context.settings)
        keeps = self._limits.budget is None or most <= self._limits.budget
        return keeps and len(self._working) < self._limits.slots

    def _begin(self, task: BatchTask) -> None:
        worker = self._idle.pop() if self._idle else self._new_worker()
        self._held[task.key] = task.budget(self._context.settings)
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
            record = await given_up(task, folder, self._context, error)
        if record.state != "interrupted":  # which can be continued
            self._results.append(record)
            del self._held[task.key]
        self._progress.has_ended(record)
        self._view.ended(record)

    def stop(self) -> None:
        """Begin no more tasks, and have the running ones stop in order; the second time, at once."""
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
    """Return how many slots this machine has, or the container that this process is in: four per
    processor, if there is memory for them."""
    processors = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        room = int(available.split()[1]) * 1024
        with suppress(OSError, ValueError):  # such as "max"
            room = min(room, int(Path("/sys/fs/cgroup/memory.max").read_text()))
        return max(1, min(4 * processors, room // _TASK_BYTES))
    return processors
