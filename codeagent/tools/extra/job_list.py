"""The `job_list` tool: what runs in the background, and what did (FEATURES F7)."""

from codeagent.core.jobs import JobBook
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.tool import SHARED, Access, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.job_words import job_line

_MOST = 100


class JobListArgs(ToolArgs):
    pass


class JobList(Tool[JobListArgs]):
    name = "job_list"
    label = "Jobs"
    description = "List the background jobs."
    Args = JobListArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    repeatable = True

    def __init__(self, book: JobBook) -> None:
        self._book = book

    def access(self, args: JobListArgs, workspace: Workspace) -> Access:
        return SHARED

    def approval_key(self, args: JobListArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=("",))

    async def run(self, args: JobListArgs, ctx: ToolContext) -> ToolResult:
        jobs = self._book.jobs()
        lines = [job_line(job) for job in jobs[-_MOST:]]
        if len(jobs) > _MOST:
            lines.insert(0, f"({len(jobs) - _MOST} older ones are left out)")
        return ToolResult.from_text("\n".join(lines) or "There are no jobs.")
