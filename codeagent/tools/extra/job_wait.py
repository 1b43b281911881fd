"""The `job_wait` tool: waits for the end of a job, for a while (FEATURES F7)."""

import asyncio
from typing import Annotated

from pydantic import Field

from codeagent.core.job_note import ENDED, JOB_WAIT
from codeagent.core.jobs import JobBook
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.tool import SHARED, Access, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.job_words import by_id, ended_lines, found, job_line

_TAIL_LINES = 60
_LONGEST = 600.0


class JobWaitArgs(ToolArgs):
    id: str
    timeout: Annotated[float, Field(ge=0, le=_LONGEST)] = 60


class JobWait(Tool[JobWaitArgs]):
    """A time that is up is a state, not an error. The person's word ends the wait: it is not kept waiting for a job."""

    name = JOB_WAIT
    label = "Wait"
    description = "Wait for the end of a job, at most timeout seconds."
    Args = JobWaitArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    repeatable = True

    def __init__(self, book: JobBook) -> None:
        self._book = book

    def access(self, args: JobWaitArgs, workspace: Workspace) -> Access:
        return SHARED

    def approval_key(self, args: JobWaitArgs) -> ApprovalKey:
        return by_id(args.id)

    async def run(self, args: JobWaitArgs, ctx: ToolContext) -> ToolResult:
        found(self._book, args.id)
        why = "the wait was over"
        begun = asyncio.get_running_loop().time()
        try:
            job = await self._book.wait(args.id, args.timeout)
            if asyncio.get_running_loop().time() - begun < args.timeout:
                why = "the wait ended early: the user has typed something"
        except asyncio.CancelledError:
            if not (ctx.cancel.reason or "").startswith("timeout"):
                raise
            job, why = self._book.get(args.id), "the time limit of a call was reached"
        if job.status == "running":
            return ToolResult.from_text(f"{job_line(job)}\n[It still runs; {why}.]")
        lines = await asyncio.to_thread(ended_lines, self._book, job, _TAIL_LINES)
        return ToolResult.from_text("\n".join(lines), details={ENDED: job.id})
