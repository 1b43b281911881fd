"""Jobs: calls that keep running in the background, as those who start, read and stop them see them (F6, F7)."""

from typing import TYPE_CHECKING, Literal, Protocol

from codeagent.core.dataclass import dataclass

if TYPE_CHECKING:
    from codeagent.core.ports import OutputPage  # the first frame shows jobs and needs no ports

JobStatus = Literal["running", "done", "failed", "stopped", "lost", "waiting"]
"""done: it ended well. failed: it ended with an error. stopped: by the model or the user, or with the session.
lost: the process that ran it is gone, and how it ended is unknown. waiting: a trigger, listed among the jobs."""


@dataclass(frozen=True)
class Job:
    """One job as it is now."""

    id: str
    """`job-1`, `job-2`, …: unique within the session."""
    call_id: str
    tool: str
    title: str
    """What it is about, in one line: the command."""
    status: JobStatus
    started: float
    """Seconds since the epoch."""
    ended: float | None = None
    lines: int = 0
    """Lines printed so far."""
    exit_code: int | None = None
    summary: str = ""
    """One line about its end; empty while it runs."""
    ports: tuple[int, ...] = ()
    """TCP ports it was seen to listen on in the sandbox."""
    takes_input: bool = False
    """It can be sent text."""
    promoted: bool = False
    """It was moved to the background while the model waited for it."""

    def seconds(self, now: float) -> float:
        """How long it ran, or runs; `now` in seconds since the epoch."""
        return (now if self.ended is None else self.ended) - self.started


@dataclass(frozen=True)
class EndedJob:
    job: Job
    handle: str | None
    """Of its output in the store; None if it printed nothing, or `tail` is all."""
    tail: str = ""


class JobBook(Protocol):
    """The jobs of one session, those of an earlier process (`lost`) among them."""

    def jobs(self) -> tuple[Job, ...]:
        """All of them, in the order they were started."""

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""

    async def wait(self, job_id: str, timeout: float) -> Job:
        """The job once it has ended, or as it is after `timeout` seconds. Raises KeyError."""

    def read(self, job_id: str, offset: int | None, lines: int) -> "OutputPage":
        """What it printed so far, `lines` lines from line `offset` (from 1); None: the last ones. May block on a file.

        Raises KeyError.
        """

    def returned(self, job_id: str) -> str:
        """What its call returned, or the end of it and where to find all of it; may include what it printed.

        Empty while it runs, and where the model was told of its end before. Raises KeyError.
        """

    async def stop(self, job_id: str, reason: str) -> Job:
        """Stop it and return once nothing of it runs; a job that has ended stays as it is. Raises KeyError."""

    def send(self, job_id: str, text: str) -> bool:
        """Give it text; False if it takes none, or has ended. Raises KeyError."""
