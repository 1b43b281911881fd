"""One job of this process: from its start to the event that says how it ended."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from codeagent.agent.calls import kept_text
from codeagent.agent.jobs.work import CallWork, JobOutput, end_of
from codeagent.core.events import JobFinished
from codeagent.core.jobs import Job
from codeagent.core.memory import OutputPage, OutputStore
from codeagent.core.messages import text_of
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolResult

TAIL = 4_000
"""Characters of the output that the model reads when the job ends."""
_SO_FAR = 8_000
"""Characters of the output that the model reads when a call that it waits for is moved to the
background."""
_SUMMARY = 300
_FLUSH_SECONDS = 0.5


class JobRun:
    """A job while it runs, and its record afterwards; its output can be read at any time."""

    def __init__(
        self,
        job: Job,
        work: CallWork,
        outputs: OutputStore,
        printed: Callable[[], None],
        moved: str,
    ) -> None:
        """`printed` is called after every piece of output; `moved`: what the model reads if the
        call was moved."""
        self._job = job
        self._moved = moved
        self._outputs = outputs
        self._printed = printed
        self._flushing = False
        self._handle: str | None = None
        self._began = time.monotonic()
        self.work: CallWork | None = work
        self.output: JobOutput = work.output
        self.sandboxed = work.prepared.tool.sandboxed
        self.stopping = ""
        """Why it is being stopped; empty unless it is."""
        self.over = asyncio.Event()
        self.output.keep(outputs, job.id)
        work.become(job.id, self._print)

    @property
    def job(self) -> Job:
        """The job as it is now; while it runs, `started` follows the clock if that is set."""
        if not self.running:
            return replace(self._job, lines=self.output.lines)
        started = round(time.time() - (time.monotonic() - self._began), 3)
        return replace(self._job, lines=self.output.lines, started=started)

    @property
    def running(self) -> bool:
        return self._job.status == "running"

    def add_port(self, port: int) -> None:
        self._job = replace(self._job, ports=(*self._job.ports, port))

    def placeholder(self) -> ToolResult:
        """Return the immediate result of the call that became this job, with the output so far."""
        promise = "You will be told when it ends."
        job = self._job
        if not job.promoted:
            text = f"job {job.id} started: {job.title}\n{promise}"
        else:
            printed = self.output.tail(_SO_FAR)
            so_far = (
                f"Its output so far:\n{printed}" if printed else "It has printed nothing so far."
            )
            text = f"{self._moved}; it continues as job {job.id}. {promise}\n{so_far}"
        return ToolResult.from_text(text, details={"job_id": job.id, "handle": self.output.handle})

    def stop(self, reason: str) -> None:
        if self.work is not None:
            self.stopping = self.stopping or reason
            self.work.token.cancel(reason)

    def read(self, offset: int | None, lines: int) -> OutputPage:
        if self._handle is None:
            return self.output.read(offset, lines)
        return page_of(self._outputs, self._handle, offset, lines)

    async def ended(self) -> JobFinished:
        """Wait until it ends and return the event that says how."""
        assert self.work is not None
        result = await self.work.result()
        self.work.token.close()
        self.output.end()
        finished = self._finished(result, round(time.monotonic() - self._began, 3))
        self.work = None
        return finished

    def _finished(self, result: ToolResult, seconds: float) -> JobFinished:
        status, code = self._status(result), result.details.get("exit_code")
        exit_code = code if isinstance(code, int) else None
        tail, handle, lines = self._tail(result)
        summary = f"exit code {exit_code}" if exit_code is not None else ""
        if result.error is not None:
            summary = one_line(result.error.message, _SUMMARY)
        elif result.child_session is not None:
            summary = one_line(f"{summary} session {result.child_session}", _SUMMARY)
        ended = round(self._job.started + seconds, 3)
        job = self._job = replace(
            self._job, status=status, ended=ended, exit_code=exit_code, summary=summary
        )
        return JobFinished(
            job_id=job.id,
            call_id=job.call_id,
            name=job.tool,
            title=job.title,
            status=status,
            summary=summary,
            tail=tail,
            exit_code=exit_code,
            lines=lines,
            handle=handle,
            duration_ms=round(seconds * 1000),
        )

    def _status(self, result: ToolResult) -> Literal["done", "failed", "stopped"]:
        if result.error is None:
            return "done"
        return "stopped" if self.stopping and result.error.kind == "cancelled" else "failed"

    def _tail(self, result: ToolResult) -> tuple[str, str | None, int]:
        """Return what the model reads of the result, the handle of the whole if there is more, and
        its lines."""
        kept = result.details.get("handle")
        self._handle = kept if isinstance(kept, str) and not self.output.whole else None
        answer = text_of(result.content)
        printed = self.output.lines
        if not answer:
            return (
                self.output.tail(TAIL),
                None if self.output.characters <= TAIL else self.output.handle,
                printed,
            )
        if len(answer) <= TAIL and self._handle is None and not result.details.get("truncated"):
            return answer, None, printed
        if self._handle is not None or self.output.characters >= len(answer) // 2:
            return end_of(answer, TAIL), self._handle or self.output.handle, printed
        # The answer is more than what was printed.
        handle = kept_text(self._outputs, self._job.call_id, answer)
        return end_of(answer, TAIL), handle, len(answer.splitlines())

    def _print(self) -> None:
        self._printed()
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self.output.flush()


def moved(after: float | None) -> str:
    """Word what the model reads about a call that was moved to the background by the user, or after
    some seconds."""
    if after is None:
        return "The user moved this call to the background"
    return f"This result is partial: the call was still running after {after:g} s and was moved to the background"


def page_of(outputs: OutputStore, handle: str, offset: int | None, lines: int) -> OutputPage:
    """Read `lines` lines from line `offset`, counted from 1; None: the last ones. Blocks. Raises
    KeyError."""
    if offset is None:
        offset = max(1, outputs.read(handle, 1, 0).total - lines + 1)
    return outputs.read(handle, offset, lines)
