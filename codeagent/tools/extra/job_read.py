"""The `job_read` tool: what a job printed so far, by line (FEATURES F7)."""

import asyncio
from typing import Annotated

from pydantic import Field

from codeagent.core.jobs import JobBook
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import OutputPage, Workspace
from codeagent.core.tool import SHARED, Access, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.edit.encoding import shown
from codeagent.tools.fields import Count
from codeagent.tools.job_words import by_id, found, job_line

_MOST_LINES = 1000
_MOST_CHARACTERS = 30_000
_LONGEST_LINE = 4000


class JobReadArgs(ToolArgs):
    id: str
    offset: Count | None = None
    lines: Annotated[Count, Field(le=_MOST_LINES)] = 100


class JobRead(Tool[JobReadArgs]):
    name = "job_read"
    label = "Job output"
    description = "Read the output of a job from line offset (from 1); without it, the last lines."
    Args = JobReadArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    repeatable = True
    output_limit = None

    def __init__(self, book: JobBook) -> None:
        self._book = book

    def access(self, args: JobReadArgs, workspace: Workspace) -> Access:
        return SHARED

    def approval_key(self, args: JobReadArgs) -> ApprovalKey:
        return by_id(args.id)

    async def run(self, args: JobReadArgs, ctx: ToolContext) -> ToolResult:
        job = found(self._book, args.id)
        page = await asyncio.to_thread(self._book.read, args.id, args.offset, args.lines)
        lines = _fitting(page, from_end=args.offset is None)
        first = page.first + (len(page.lines) - len(lines) if args.offset is None else 0)
        return ToolResult.from_text("\n".join([job_line(job), *lines, _note(page, first, len(lines), args.offset)]))


def _fitting(page: OutputPage, *, from_end: bool) -> list[str]:
    """As many lines as fit, the last ones or the first."""
    out: list[str] = []
    size = 0
    for line in reversed(page.lines) if from_end else page.lines:
        text = shown(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}[… line cut]")
        size += len(text) + 1
        if size > _MOST_CHARACTERS and out:
            break
        out.append(text)
    return out[::-1] if from_end else out


def _note(page: OutputPage, first: int, count: int, offset: int | None) -> str:
    if not count:
        return f"[It has printed {page.total} lines; there are none from line {first} on.]"
    notes = [f"[Lines {first}-{first + count - 1} of {page.total} so far."]
    if offset is not None and first > offset:
        notes.append(" Those before are gone.")
    if page.dropped_bytes:
        notes.append(f" {page.dropped_bytes} bytes were too much to keep.")
    return "".join(notes) + "]"
