"""A job: a call that goes on in the background; and what a log keeps of one that has ended."""

from dataclasses import dataclass
from typing import Literal

JobStatus = Literal["running", "done", "failed", "stopped", "lost"]
"""done: it ended well. failed: it ended with an error. stopped: by the model or the user, or with the session.
lost: the process that ran it is gone, and how it ended is unknown."""


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
    """The user moved it to the background; the model did not ask for it."""

    def seconds(self, now: float) -> float:
        """How long it ran, or runs; `now` in seconds since the epoch."""
        return (now if self.ended is None else self.ended) - self.started


@dataclass(frozen=True)
class EndedJob:
    job: Job
    handle: str | None
    """Of its output in the store; None where it printed nothing, or `tail` is all."""
    tail: str = ""
