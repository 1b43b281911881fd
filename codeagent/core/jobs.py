"""Jobs, the calls that run in the background: what starts, reads and stops them."""

from typing import TYPE_CHECKING, Literal, Protocol

from codeagent.core.dataclass import dataclass

if TYPE_CHECKING:
    from codeagent.core.ports import OutputPage  # the first frame shows jobs and needs no ports

JobStatus = Literal["running", "done", "failed", "stopped", "lost", "waiting"]
"""done: it ended well. failed: it ended with an error. stopped: by the model or the user, or with
the session. lost: the process that ran it is gone, and how it ended is unknown. waiting: a trigger,
listed among the jobs."""


@dataclass(frozen=True)
class Job:
    """One job as it is now."""

    id: str
    """`job-1`, `job-2`, …: unique within the session."""
    call_id: str
    tool: str
    title: str
    """What it does, in one line: the command."""
    status: JobStatus
    started: float
    """Seconds since the epoch."""
    ended: float | None = None
    lines: int = 0
    """Lines printed so far."""
    exit_code: int | None = None
    summary: str = ""
    """How it ended, in one line; empty while it runs."""
    ports: tuple[int, ...] = ()
    """TCP ports on which it was seen to listen in the sandbox."""
    takes_input: bool = False
    """Whether it accepts text."""
    promoted: bool = False
    """Whether it was moved to the background while the model waited for it."""

    def seconds(self, now: float) -> float:
        """How long it ran, or has run until `now`, in seconds since the epoch."""
        return (now if self.ended is None else self.ended) - self.started


@dataclass(frozen=True)
class EndedJob:
    job: Job
    handle: str | None
    """The handle of its output in the store; None if it printed nothing, or `tail` is all of it."""
    tail: str = ""


class JobBook(Protocol):
    """The jobs of one session, including those of an earlier process (`lost`)."""

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs in the order they were started."""

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""

    async def wait(self, job_id: str, timeout: float) -> Job:
        """Wait for at most `timeout` seconds until the job has ended, and return it. Raises
        KeyError."""

    def read(self, job_id: str, offset: int | None, lines: int) -> "OutputPage":
        """Read `lines` lines of its output from line `offset` (from 1); None: the last ones. May
        block on a file.

        Raises KeyError.
        """

    def returned(self, job_id: str) -> str:
        """Return what its call returned, or the end of it and where to find the rest; may include
        what it printed.

        Empty while it runs, and if the model was already told of its end. Raises KeyError.
        """

    async def stop(self, job_id: str, reason: str) -> Job:
        """Stop it, and return once none of its processes runs; a job that has ended is left alone.
        Raises KeyError."""

    def send(self, job_id: str, text: str) -> bool:
        """Send it text; False if it accepts none, or has ended. Raises KeyError."""
