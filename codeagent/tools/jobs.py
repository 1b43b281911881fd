"""The tools over the background jobs of a session: list, wait, read, stop and send."""

import asyncio
import time
from typing import Annotated, Any

from codeagent.core.deferred import Field
from codeagent.core.jobs import Job, SessionJobs
from codeagent.core.memory import OutputPage
from codeagent.core.notes import ENDED, JOB_STOP, JOB_WAIT
from codeagent.core.policy import ApprovalKey
from codeagent.core.text_files import shown
from codeagent.core.tool import ArgsT, Failed, NotFound, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import AS_SECONDS, Count
from codeagent.tools.paging import fitting, shortened

_MOST_NAMED = 30
_MOST_LISTED = 100
_COMPARED = 2_000
"""How many of the last printed lines are left out of what the call returned."""
_LONGEST_WAIT = 600.0
_LINES_AFTER_WAIT = 60
_LINES_AFTER_STOP = 20
_MOST_LINES = 1000
_MOST_CHARACTERS = 30_000
_LONGEST_LINE = 4000
_LONGEST_TEXT = 100_000


class NoArgs(ToolArgs):
    pass


class JobArgs(ToolArgs):
    id: str


class JobWaitArgs(JobArgs):
    timeout: Annotated[float, Field(ge=0, le=_LONGEST_WAIT), AS_SECONDS] = 60


class JobReadArgs(JobArgs):
    offset: Count | None = None
    lines: Annotated[Count, Field(le=_MOST_LINES)] = 100


class JobSendArgs(JobArgs):
    text: Annotated[str, Field(max_length=_LONGEST_TEXT)]


class _JobTool(Tool[ArgsT]):
    """Does not need approval: the job itself was approved."""

    permission = "auto"

    def __init__(self, jobs: SessionJobs) -> None:
        self._jobs = jobs

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(getattr(args, "id", ""),))

    def _job(self, job_id: str) -> Job:
        """Return a job. Raises NotFound, which names the existing jobs."""
        try:
            return self._jobs.get(job_id)
        except KeyError:
            known = ", ".join(job.id for job in self._jobs.jobs()[-_MOST_NAMED:]) or "none"
            raise NotFound(f"unknown job {job_id[:40]!r}; there are: {known}") from None

    async def _ended(self, job: Job, most: int, *before: str) -> ToolResult:
        """Return how the job ended: its last printed lines, and the lines that its call returned
        but did not print."""
        lines = await asyncio.to_thread(_ended_lines, self._jobs, job, most)
        return ToolResult.from_text("\n".join([*before, *lines]), details={ENDED: job.id})


class JobListTool(_JobTool[NoArgs]):
    name = "job_list"
    label = "Jobs"
    description = "List the background jobs."
    Args = NoArgs
    concurrency = "shared"
    effect = "nothing"
    repeatable = True

    async def run(self, args: NoArgs, ctx: ToolContext) -> ToolResult:
        jobs = self._jobs.jobs()
        lines = [job_line(job) for job in jobs[-_MOST_LISTED:]]
        if len(jobs) > _MOST_LISTED:
            lines.insert(0, f"({len(jobs) - _MOST_LISTED} older ones are left out)")
        return ToolResult.from_text("\n".join(lines) or "No jobs.")


class JobWaitTool(_JobTool[JobWaitArgs]):
    """Waits for a job. A timeout is a state, not an error; a message from the user ends the wait at
    once."""

    name = JOB_WAIT
    label = "Wait"
    description = "Wait for a job's end, at most timeout seconds."
    Args = JobWaitArgs
    concurrency = "shared"
    effect = "nothing"
    repeatable = True

    async def run(self, args: JobWaitArgs, ctx: ToolContext) -> ToolResult:
        self._job(args.id)
        why = "the wait was over"
        begun = asyncio.get_running_loop().time()
        try:
            job = await self._jobs.wait(args.id, args.timeout)
            if asyncio.get_running_loop().time() - begun < args.timeout:
                why = "the wait ended early: the user has typed something"
        except asyncio.CancelledError:
            if not (ctx.cancel.reason or "").startswith("timeout"):
                raise
            job, why = self._jobs.get(args.id), "the time limit of a call was reached"
        if job.status == "running":
            return ToolResult.from_text(f"{job_line(job)}\n[It still runs; {why}.]")
        return await self._ended(job, _LINES_AFTER_WAIT)


class JobReadTool(_JobTool[JobReadArgs]):
    name = "job_read"
    label = "Job output"
    description = "Read a job's output: from line offset, or else the last lines."
    Args = JobReadArgs
    concurrency = "shared"
    effect = "nothing"
    repeatable = True
    output_limit = None

    async def run(self, args: JobReadArgs, ctx: ToolContext) -> ToolResult:
        job = self._job(args.id)
        page = await asyncio.to_thread(self._jobs.read, args.id, args.offset, args.lines)
        lines = _fitting(page, from_end=args.offset is None)
        first = page.first + (len(page.lines) - len(lines) if args.offset is None else 0)
        return ToolResult.from_text(
            "\n".join([job_line(job), *lines, _note(page, first, len(lines), args.offset)])
        )


class JobStopTool(_JobTool[JobArgs]):
    """Runs in order with the other calls of its batch; allowed in plan mode, as it only ends what
    was allowed."""

    name = JOB_STOP
    label = "Stop job"
    description = "Stop a job."
    Args = JobArgs
    effect = "nothing"

    async def run(self, args: JobArgs, ctx: ToolContext) -> ToolResult:
        if self._job(args.id).status != "running":
            return await self._ended(
                self._jobs.get(args.id), _LINES_AFTER_STOP, "It had ended before."
            )
        return await self._ended(
            await self._jobs.stop(args.id, "stopped by the agent"), _LINES_AFTER_STOP
        )


class JobSendTool(_JobTool[JobSendArgs]):
    """Approved together with the job, as one that takes input; the job may change something because
    of the text."""

    name = "job_send"
    label = "To job"
    description = "Send text to a job that takes input."
    Args = JobSendArgs

    async def run(self, args: JobSendArgs, ctx: ToolContext) -> ToolResult:
        job = self._job(args.id)
        if self._jobs.send(args.id, args.text):
            return ToolResult.from_text(f"Sent to {job.id}.")
        if job.status != "running":
            raise Failed(f"{job.id} has ended ({job.status}); nothing was sent.")
        if not job.takes_input:
            raise Failed(f"{job.id} takes no input; nothing was sent.")
        raise Failed(f"{job.id} has not read what it was sent before; nothing was sent.")


JOB_TOOLS: tuple[type[_JobTool[Any]], ...] = (
    JobListTool,
    JobWaitTool,
    JobReadTool,
    JobStopTool,
    JobSendTool,
)
"""In the order the model sees them."""


def job_tools(jobs: SessionJobs) -> tuple[Tool[Any], ...]:
    return tuple(tool(jobs) for tool in JOB_TOOLS)


def job_line(job: Job) -> str:
    """Return id, state, duration, amount of output and description of a job, in one line."""
    seconds = (time.time() if job.ended is None else job.ended) - job.started
    parts = [f"{job.id} {job.status}", f"{max(0.0, seconds):.0f} s", f"{job.lines} lines"]
    if job.summary:
        parts.append(job.summary)
    if job.ports:
        parts.append(f"listens on {', '.join(map(str, job.ports))}")
    if job.takes_input:
        parts.append("takes input")
    return f"{', '.join(parts)}: {job.tool} {job.title}"


def _ended_lines(jobs: SessionJobs, job: Job, most: int) -> list[str]:
    """Blocks."""
    page = jobs.read(job.id, None, _COMPARED)
    last = page.lines[-most:] if most else ()
    lines = [job_line(job), *last]
    first = page.total - len(last) + 1
    if last and first > 1:
        lines.append(
            f'[Lines {first}-{page.total}; job_read(id="{job.id}", offset=1) shows those before.]'
        )
    printed = set(page.lines)
    answer = [line for line in jobs.returned(job.id).splitlines() if line not in printed]
    return [*lines, *(["It returned:"] if any(line.strip() for line in answer) else []), *answer]


def _fitting(page: OutputPage, *, from_end: bool) -> list[str]:
    """Return as many lines as fit, the last ones or the first."""
    lines = [shown(shortened(line, _LONGEST_LINE)) for line in page.lines[:: -1 if from_end else 1]]
    return list(fitting(lines, _MOST_CHARACTERS))[:: -1 if from_end else 1]


def _note(page: OutputPage, first: int, count: int, offset: int | None) -> str:
    if not count:
        return f"[It has printed {page.total} lines; there are none from line {first} on.]"
    notes = [f"[Lines {first}-{first + count - 1} of {page.total} so far."]
    if offset is not None and first > offset:
        notes.append(" Those before are gone.")
    if page.dropped_bytes:
        notes.append(f" {page.dropped_bytes} bytes were too much to keep.")
    return "".join(notes) + "]"
