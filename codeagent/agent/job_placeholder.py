"""The result of a call that goes on as a job: at once, with what there is so far."""

from codeagent.agent.job_output import JobOutput
from codeagent.agent.jobs import MOST_RUNNING
from codeagent.core.jobs import Job
from codeagent.core.tool import ToolResult

TOO_MANY_RUN = f"{MOST_RUNNING} jobs run already"
TOO_MANY = f"Not started: {TOO_MANY_RUN}. Stop one with job_stop, or wait for one with job_wait."
_SO_FAR = 8_000
"""Characters."""


def placeholder(job: Job, output: JobOutput) -> ToolResult:
    told = "You will be told when it ends."
    if not job.promoted:
        text = f"job {job.id} started: {job.title}\n{told}"
    else:
        printed = output.tail(_SO_FAR)
        so_far = f"Its output so far:\n{printed}" if printed else "It has printed nothing so far."
        text = f"The user moved this call to the background; it goes on as job {job.id}. {told}\n{so_far}"
    return ToolResult.from_text(text, details={"job_id": job.id, "handle": output.handle})
