"""What the job tools share: how a job is found, and how it is told of in a line."""

import time

from codeagent.core.jobs import Job, JobBook
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import NotFound

_MOST_LISTED = 30
_COMPARED = 2_000
"""Lines of what it printed that what it returned may be made of."""


def found(book: JobBook, job_id: str) -> Job:
    """Raises NotFound, which names the jobs there are."""
    try:
        return book.get(job_id)
    except KeyError:
        known = ", ".join(job.id for job in book.jobs()[-_MOST_LISTED:]) or "none"
        raise NotFound(f"there is no job {job_id[:40]!r}; there are: {known}") from None


def job_line(job: Job) -> str:
    """Id, state, how long, how much it printed, and what it is."""
    seconds = (time.time() if job.ended is None else job.ended) - job.started
    parts = [f"{job.id} {job.status}", f"{max(0.0, seconds):.0f} s", f"{job.lines} lines"]
    if job.summary:
        parts.append(job.summary)
    if job.ports:
        parts.append(f"listens on {', '.join(map(str, job.ports))}")
    if job.takes_input:
        parts.append("takes input")
    return f"{', '.join(parts)}: {job.tool} {job.title}"


def ended_lines(book: JobBook, job: Job, most: int) -> list[str]:
    """How the job ended: the last lines it printed, and of what its call returned those that it did not print.

    Blocks.
    """
    page = book.read(job.id, None, _COMPARED)
    shown = page.lines[-most:] if most else ()
    lines = [job_line(job), *shown]
    first = page.total - len(shown) + 1
    if shown and first > 1:
        lines.append(f'[Lines {first}-{page.total}; job_read(id="{job.id}", offset=1) shows those before.]')
    printed = set(page.lines)
    answer = [line for line in book.returned(job.id).splitlines() if line not in printed]
    return [*lines, *(["It returned:"] if any(line.strip() for line in answer) else []), *answer]


def by_id(job_id: str) -> ApprovalKey:
    return ApprovalKey(kind="text", parts=(job_id,))
