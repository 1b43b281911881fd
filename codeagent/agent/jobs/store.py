"""The jobs of one session (the SessionJobs of `core.jobs`), and the ports that they listen on."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from codeagent.agent.emitter import Emitter
from codeagent.agent.jobs.run import JobRun, page_of
from codeagent.agent.jobs.work import CallWork
from codeagent.agent.queue import MessageQueue
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.events import JobFinished, JobStarted, ToolResultAdded
from codeagent.core.jobs import EndedJob, Job
from codeagent.core.memory import OutputPage, OutputStore
from codeagent.core.notes import job_answer, job_note, told_by
from codeagent.core.notices import JobListens
from codeagent.core.sandbox import Sandbox
from codeagent.core.sanitize import one_line
from codeagent.tools.shell.run import readable

MOST_RUNNING = 64
TOO_MANY_RUN = f"{MOST_RUNNING} jobs are already running"
TOO_MANY = f"Not started: {TOO_MANY_RUN}. Stop one, or wait until one has ended."
_TITLE = 200
_CLOSING = "the session ended"
_QUIET_SECONDS = 3.0
"""Seconds of silence after which new output means that something happened."""
_MOST_PORTS = 64
"""How many ports are reported in one session: a program that keeps opening new ones must not flood
it."""


@dataclass(frozen=True)
class PollingPace:
    """Seconds between two looks at the ports: the first wait, then twice as long each time, up to
    the longest."""

    first: float = 1.0
    longest: float = 15.0


class PortWatch:
    """Reports each port that is opened in the sandbox, once; it looks only while a job runs
    there."""

    def __init__(
        self,
        sandbox: Sandbox,
        busy: Callable[[], bool],
        found: Callable[[int], None],
        pace: PollingPace,
    ) -> None:
        """`busy`: whether a job runs in the sandbox; `found` gets each new port."""
        self._sandbox = sandbox
        self._busy = busy
        self._found = found
        self._pace = pace
        self._known: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._sooner = asyncio.Event()
        self._last_output = 0.0

    def begin(self) -> None:
        """Take note that a job has started."""
        self._sooner.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    def printed(self) -> None:
        """Take note that a job printed something: after a silence, that is a reason to look
        sooner."""
        now = time.monotonic()
        if now - self._last_output > _QUIET_SECONDS:
            self._sooner.set()
        self._last_output = now

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        delay = self._pace.first
        while self._busy() and len(self._known) < _MOST_PORTS:
            if await self._woken(delay):
                delay = self._pace.first
                await asyncio.sleep(delay)
            else:
                delay = min(2 * delay, self._pace.longest)
            if self._busy():
                await self._look()

    async def _woken(self, delay: float) -> bool:
        """Wait for a reason to look sooner; False if there was none within `delay` seconds."""
        try:
            async with asyncio.timeout(delay):
                await self._sooner.wait()
        except TimeoutError:
            return False
        self._sooner.clear()
        return True

    async def _look(self) -> None:
        try:
            listening = await self._sandbox.listening()
        except CodeagentError:
            return
        for port in sorted(listening - self._known)[: _MOST_PORTS - len(self._known)]:
            self._known.add(port)
            self._found(port)


class Jobs:
    """The jobs of one session. Made before the tools that use it, and empty until it is connected.

    The model is told once that a job ended: in a note at the next boundary, or in a result before
    that.
    """

    def __init__(self, pace: PollingPace | None = None) -> None:
        self._pace = pace or PollingPace()
        self._past: dict[str, EndedJob] = {}
        self._runs: dict[str, JobRun] = {}
        self._untold: dict[str, JobFinished] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._ports: PortWatch | None = None
        self._wake: Callable[[], None] = lambda: None

    def connect(
        self,
        emitter: Emitter,
        outputs: OutputStore,
        queue: MessageQueue,
        sandbox: Sandbox | None,
        past: tuple[EndedJob, ...],
        wake: Callable[[], None],
    ) -> None:
        """`past`: the jobs of earlier processes. `wake` is called when a job ends that nobody
        stopped."""
        self._emitter = emitter
        self._outputs = outputs
        self._queue = queue
        self._past = {item.job.id: item for item in past}
        self._wake = wake
        if sandbox is not None:
            self._ports = PortWatch(
                sandbox, lambda: bool(self._sandboxed()), self._report_port, self._pace
            )

    def jobs(self) -> tuple[Job, ...]:
        return (
            *(item.job for item in self._past.values()),
            *(run.job for run in self._runs.values()),
        )

    def require(self, job_id: str) -> str:
        """Return the id of a job that the user named. Raises CodeagentError."""
        try:
            return self.get(job_id).id
        except KeyError:
            raise CodeagentError(
                f"{job_id} is not a job of this session; /jobs lists them"
            ) from None

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""
        if (past := self._past.get(job_id)) is not None:
            return past.job
        return self._runs[job_id].job

    async def wait(self, job_id: str, timeout: float) -> Job:
        """Return the job once it has ended, after `timeout` seconds, or when the user's text waits
        for the boundary.

        Raises KeyError.
        """
        if self.get(job_id).status != "running":
            return self.get(job_id)
        waiters = {
            asyncio.ensure_future(self._runs[job_id].over.wait()),
            asyncio.ensure_future(self._queue.typed()),
        }
        try:
            await asyncio.wait(
                waiters, timeout=max(0.0, timeout), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for waiter in waiters:
                waiter.cancel()
        return self.get(job_id)

    def read(self, job_id: str, offset: int | None, lines: int) -> OutputPage:
        """Raises KeyError. Blocks."""
        if (past := self._past.get(job_id)) is not None:
            return _page_of_past(self._outputs, past, offset, lines)
        return self._runs[job_id].read(offset, lines)

    def returned(self, job_id: str) -> str:
        self.get(job_id)
        finished = self._untold.get(job_id)
        if finished is None or not self._queue.waits(job_note(finished)):
            return ""
        return job_answer(finished)

    async def stop(self, job_id: str, reason: str) -> Job:
        """Raises KeyError."""
        if self.get(job_id).status == "running":
            self._runs[job_id].stop(reason)
            await self._runs[job_id].over.wait()
        return self.get(job_id)

    def send(self, job_id: str, text: str) -> bool:
        """Raises KeyError."""
        job = self.get(job_id)
        work = self._runs[job_id].work if job_id in self._runs else None
        return job.takes_input and work is not None and work.send(text)

    @property
    def running(self) -> int:
        return sum(run.running for run in self._runs.values())

    @property
    def full(self) -> bool:
        """Whether no further job can be started."""
        return self.running >= MOST_RUNNING

    def take(self, work: CallWork, moved: str = "") -> JobRun:
        """Turn the work into a job; the caller calls `follow` once the call has its result.

        `moved` is what the model reads about a call that it waited for.
        """
        call, tool = work.prepared.call, work.prepared.tool
        job = Job(
            id=f"job-{len(self._past) + len(self._runs) + 1}",
            call_id=call.id,
            tool=tool.name,
            title=one_line(tool.target(work.prepared.args), _TITLE),
            status="running",
            started=round(time.time(), 3),
            takes_input=tool.mode == "stateful",
            promoted=bool(moved),
        )
        work.token.close()
        run = self._runs[job.id] = JobRun(job, work, self._outputs, self._printed, moved)
        self._emitter.emit(
            JobStarted(
                job_id=job.id,
                call_id=call.id,
                name=tool.name,
                title=job.title,
                promoted=job.promoted,
                takes_input=job.takes_input,
            )
        )
        if run.sandboxed and self._ports is not None:
            self._ports.begin()
        return run

    def run_of(self, job_id: str) -> JobRun:
        """A job of this process. Raises KeyError."""
        return self._runs[job_id]

    def follow(self, run: JobRun) -> None:
        """Report the job's end when it comes; the call's `tool.result` is logged first."""
        task = asyncio.create_task(self._follow(run))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    def answered(self, result: ToolResultAdded) -> None:
        """Take note of a call's result: if that tells the model of a job's end, the note is not
        needed."""
        if not self._untold:
            return
        told = told_by(result)
        if told is not None and (finished := self._untold.pop(told, None)) is not None:
            self._queue.drop_note(job_note(finished))

    def stop_all(self) -> None:
        """Stop every job; `close` waits for them."""
        for run in self._runs.values():
            run.stop(_CLOSING)

    async def close(self) -> None:
        """Stop every job; returns once all of them have ended and that is logged."""
        self.stop_all()
        while self._following:
            await asyncio.wait(set(self._following))
        if self._ports is not None:
            await self._ports.close()

    async def _follow(self, run: JobRun) -> None:
        finished = self._emitter.emit(await run.ended())
        self._untold[finished.job_id] = finished
        self._queue.add_note(job_note(finished), wakes=not run.stopping)
        run.over.set()
        if not run.stopping:
            self._wake()
        await asyncio.to_thread(run.output.forget)

    def _printed(self) -> None:
        if self._ports is not None:
            self._ports.printed()

    def _sandboxed(self) -> list[JobRun]:
        return [run for run in self._runs.values() if run.running and run.sandboxed]

    def _report_port(self, port: int) -> None:
        """Report the port, and the job it belongs to if only one runs in the sandbox."""
        running = self._sandboxed()
        if len(running) == 1:
            running[0].add_port(port)
            job = running[0].job
            text = f"{job.id} ({job.title}) listens on port {port} in the sandbox"
            self._emitter.emit(JobListens(text=text, job_id=job.id, port=port))
            return
        text = f"port {port} is open in the sandbox; {len(running)} jobs run there, so it could be any of them"
        self._emitter.emit(JobListens(text=text, job_id="", port=port))


def _page_of_past(
    outputs: OutputStore, past: EndedJob, offset: int | None, lines: int
) -> OutputPage:
    if past.handle is not None:
        try:
            page = page_of(outputs, past.handle, offset, lines)
            return replace(page, lines=tuple(readable(line) for line in page.lines))
        except KeyError:
            pass
    every = past.tail.splitlines()
    first = max(1, len(every) - lines + 1 if offset is None else offset)
    return OutputPage(tuple(every[first - 1 :][:lines]), first, len(every), 0)
