"""The jobs of one session: calls that go on in the background (the JobBook of `core.jobs`)."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from codeagent.agent.emitter import Emitter
from codeagent.agent.job_ports import Pace, PortWatch
from codeagent.agent.job_run import JobRun, page_of
from codeagent.agent.steering import Steering
from codeagent.agent.work import Work
from codeagent.core.ended_job import EndedJob
from codeagent.core.events import JobFinished, JobStarted, ToolResultAdded
from codeagent.core.job_note import job_answer, job_note, told_by
from codeagent.core.jobs import Job
from codeagent.core.notices import JobListens
from codeagent.core.ports import OutputPage, OutputStore, Sandbox
from codeagent.core.sanitize import one_line
from codeagent.tools.shell.output import readable

MOST_RUNNING = 64
_TITLE = 200
_CLOSING = "the session ended"


class Jobs:
    """Made before the tools that ask it; it knows of no job until it is connected.

    The model is told of each end once: by a note at the next boundary, or by the result that told it before.
    """

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._past: dict[str, EndedJob] = {}
        self._runs: dict[str, JobRun] = {}
        self._untold: dict[str, JobFinished] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._ports: PortWatch | None = None
        self._wake: Callable[[], None] = _nobody

    def connect(
        self,
        emitter: Emitter,
        outputs: OutputStore,
        steering: Steering,
        sandbox: Sandbox | None,
        past: tuple[EndedJob, ...],
        wake: Callable[[], None],
    ) -> None:
        """`past`: what earlier processes left. `wake` is called when a job ended that nobody stopped."""
        self._emitter = emitter
        self._outputs = outputs
        self._steering = steering
        self._past = {item.job.id: item for item in past}
        self._wake = wake
        if sandbox is not None:
            self._ports = PortWatch(sandbox, lambda: bool(self._sandboxed()), self._listens, self._pace)

    def jobs(self) -> tuple[Job, ...]:
        return (*(item.job for item in self._past.values()), *(run.job for run in self._runs.values()))

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""
        if (past := self._past.get(job_id)) is not None:
            return past.job
        return self._runs[job_id].job

    async def wait(self, job_id: str, timeout: float) -> Job:
        """As it is once it has ended, after `timeout` seconds, or when the person's text waits for the boundary.

        Raises KeyError.
        """
        if self.get(job_id).status != "running":
            return self.get(job_id)
        waiters = {asyncio.ensure_future(self._runs[job_id].over.wait()), asyncio.ensure_future(self._steering.typed())}
        try:
            await asyncio.wait(waiters, timeout=max(0.0, timeout), return_when=asyncio.FIRST_COMPLETED)
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
        if finished is None or not self._steering.waits(job_note(finished)):
            return ""
        return "\n".join(job_answer(finished))

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
        return job.takes_input and work is not None and work.inbox.put(text)

    @property
    def running(self) -> int:
        return sum(run.running for run in self._runs.values())

    @property
    def full(self) -> bool:
        """No further job can be started."""
        return self.running >= MOST_RUNNING

    def take(self, work: Work, *, promoted: bool) -> JobRun:
        """The work goes on as a job from now on; the caller says `follow` once its call is answered."""
        call, tool = work.prepared.call, work.prepared.tool
        job = Job(
            id=f"job-{len(self._past) + len(self._runs) + 1}",
            call_id=call.id,
            tool=tool.name,
            title=one_line(tool.target(work.prepared.args), _TITLE),
            status="running",
            started=round(time.time(), 3),
            takes_input=tool.mode == "stateful",
            promoted=promoted,
        )
        work.token.close()
        run = self._runs[job.id] = JobRun(job, work, self._outputs, self._printed)
        self._emitter.emit(
            JobStarted(
                job_id=job.id,
                call_id=call.id,
                name=tool.name,
                title=job.title,
                promoted=promoted,
                takes_input=job.takes_input,
            )
        )
        if run.sandboxed and self._ports is not None:
            self._ports.begin()
        return run

    def run_of(self, job_id: str) -> JobRun:
        """One of this process."""
        return self._runs[job_id]

    def follow(self, run: JobRun) -> None:
        """Tell of its end when it comes; its `tool.result` has been logged."""
        task = asyncio.create_task(self._follow(run))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    def answered(self, result: ToolResultAdded) -> None:
        """A call of the model's has its result, which may be how it learns of an end."""
        told = told_by(result)
        if told is not None and (finished := self._untold.pop(told, None)) is not None:
            self._steering.drop_note(job_note(finished))

    def stop_all(self) -> None:
        """Each ends by itself; `close` waits for it."""
        for run in self._runs.values():
            run.stop(_CLOSING)

    async def close(self) -> None:
        """Stop all of them; returns once nothing runs and all of it is logged."""
        self.stop_all()
        while self._following:
            await asyncio.wait(set(self._following))
        if self._ports is not None:
            await self._ports.close()

    async def _follow(self, run: JobRun) -> None:
        finished = self._emitter.emit(await run.ended(time.time))
        self._untold[finished.job_id] = finished
        self._steering.add_note(job_note(finished), wakes=not run.stopping)
        run.over.set()
        if not run.stopping:
            self._wake()
        await asyncio.to_thread(run.output.forget)

    def _printed(self) -> None:
        if self._ports is not None:
            self._ports.printed()

    def _sandboxed(self) -> list[JobRun]:
        return [run for run in self._runs.values() if run.running and run.sandboxed]

    def _listens(self, port: int) -> None:
        """Whose it is can be said only where one job runs."""
        running = self._sandboxed()
        if len(running) == 1:
            running[0].listens(port)
            job = running[0].job
            text = f"{job.id} ({job.title}) listens on port {port} in the sandbox"
            self._emitter.emit(JobListens(text=text, job_id=job.id, port=port))
            return
        text = f"port {port} is listened on in the sandbox; {len(running)} jobs run there, so whose it is is not known"
        self._emitter.emit(JobListens(text=text, job_id="", port=port))


def _page_of_past(outputs: OutputStore, past: EndedJob, offset: int | None, lines: int) -> OutputPage:
    if past.handle is not None:
        try:
            page = page_of(outputs, past.handle, offset, lines)
            return replace(page, lines=tuple(readable(line) for line in page.lines))
        except KeyError:
            pass
    every = past.tail.splitlines()
    first = max(1, len(every) - lines + 1 if offset is None else offset)
    return OutputPage(tuple(every[first - 1 :][:lines]), first, len(every), 0)


def _nobody() -> None:
    return None
