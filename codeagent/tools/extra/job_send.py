"""The `job_send` tool: gives text to a job that takes input (FEATURES F7)."""

from typing import Annotated

from pydantic import Field

from codeagent.core.jobs import JobBook
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import Failed, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.job_words import by_id, found

_LONGEST = 100_000


class JobSendArgs(ToolArgs):
    id: str
    text: Annotated[str, Field(max_length=_LONGEST)]


class JobSend(Tool[JobSendArgs]):
    """The job was allowed as one that is talked to; what it does with the text may change something."""

    name = "job_send"
    label = "To job"
    description = "Send text to a job that takes input."
    Args = JobSendArgs
    permission = "auto"

    def __init__(self, book: JobBook) -> None:
        self._book = book

    def approval_key(self, args: JobSendArgs) -> ApprovalKey:
        return by_id(args.id)

    async def run(self, args: JobSendArgs, ctx: ToolContext) -> ToolResult:
        job = found(self._book, args.id)
        if self._book.send(args.id, args.text):
            return ToolResult.from_text(f"Sent to {job.id}.")
        if job.status != "running":
            raise Failed(f"{job.id} has ended ({job.status}); nothing was sent.")
        if not job.takes_input:
            raise Failed(f"{job.id} takes no input; nothing was sent.")
        raise Failed(f"{job.id} has not read what it was sent before; nothing was sent.")
