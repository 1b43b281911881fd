"""The `job_stop` tool: ends a job (FEATURES F7)."""

import asyncio

from codeagent.core.job_note import ENDED, JOB_STOP
from codeagent.core.jobs import JobBook
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.job_words import by_id, ended_lines, found

_TAIL_LINES = 20


class JobStopArgs(ToolArgs):
    id: str


class JobStop(Tool[JobStopArgs]):
    """In order with every other call of its batch; allowed in plan mode, since it only ends what was allowed."""

    name = JOB_STOP
    label = "Stop job"
    description = "Stop a job."
    Args = JobStopArgs
    permission = "auto"
    effect = "nothing"

    def __init__(self, book: JobBook) -> None:
        self._book = book

    def approval_key(self, args: JobStopArgs) -> ApprovalKey:
        return by_id(args.id)

    async def run(self, args: JobStopArgs, ctx: ToolContext) -> ToolResult:
        if found(self._book, args.id).status != "running":
            job = self._book.get(args.id)
            lines = await asyncio.to_thread(ended_lines, self._book, job, _TAIL_LINES)
            return ToolResult.from_text("\n".join(["It had ended before.", *lines]), details={ENDED: job.id})
        job = await self._book.stop(args.id, "stopped by the agent")
        lines = await asyncio.to_thread(ended_lines, self._book, job, _TAIL_LINES)
        return ToolResult.from_text("\n".join(lines), details={ENDED: job.id})
