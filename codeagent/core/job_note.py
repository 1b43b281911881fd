"""What the model is told of the end of a job, and how the log tells that it was."""

from codeagent.core.events import JobFinished, ToolResultAdded
from codeagent.core.messages import UserMessage

JOB_WAIT = "job_wait"
JOB_STOP = "job_stop"
ENDED = "job_ended"
"""In the details of a result of these two: the id of the job whose end the result tells."""


def job_note(finished: JobFinished) -> UserMessage:
    """A pure function of what is logged, so that a log tells which ends the model was told of."""
    return UserMessage.from_text(f"({job_end(finished)})", source="note")


def job_end(finished: JobFinished) -> str:
    """Which job ended how, and the end of what it printed."""
    lines = [f"{finished.job_id}, {finished.name} {finished.title}".strip() + f": {finished.status}"]
    if finished.summary:
        lines[0] += f", {finished.summary}"
    if finished.tail:
        lines.append("The end of its output:" if finished.handle else "Its output:")
    return "\n".join([*lines, *job_answer(finished)])


def job_answer(finished: JobFinished) -> list[str]:
    """The end of what it returned, or else printed, and where all of it is where that is more."""
    lines = [finished.tail] if finished.tail else []
    if finished.handle is not None:
        lines.append(f'[output_read(id="{finished.handle}") shows all {finished.lines} lines]')
    return lines


def told_by(result: ToolResultAdded) -> str | None:
    """The job whose end this result told the model; None for every other result."""
    if result.name not in (JOB_WAIT, JOB_STOP) or result.is_error:
        return None
    ended = result.details.get(ENDED)
    return ended if isinstance(ended, str) else None
