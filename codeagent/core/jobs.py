"""What continues beside the conversation: jobs, the calls that run in the background, and
triggers."""

from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass, record
from codeagent.core.json_types import BaseEvent
from codeagent.core.memory import OutputPage

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


class SessionJobs(Protocol):
    """The jobs of one session, including those of an earlier process (`lost`)."""

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs in the order they were started."""

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""

    async def wait(self, job_id: str, timeout: float) -> Job:
        """Wait for at most `timeout` seconds until the job has ended, and return it. Raises
        KeyError."""

    def read(self, job_id: str, offset: int | None, lines: int) -> OutputPage:
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


TriggerKind = Literal["timer", "schedule", "file"]


@record
class Trigger:
    """A trigger as it is now."""

    id: str
    """`trigger-1`, `trigger-2`, …: unique within the session."""
    kind: TriggerKind
    when: str
    """`once`, `every 60 s`, the words of a schedule, or the pattern of the files."""
    prompt: str
    """What the model wants to be told when it fires."""
    at_most: int
    """How often it fires at most."""
    every: float | None = None
    """Seconds between two firings; None if it is not a repeating timer."""
    due: float | None = None
    """When it fires next, in seconds since the epoch; None for watched files."""
    fired: int = 0
    mark: str = ""
    """A hash of the files at the last look."""

    @property
    def title(self) -> str:
        """Describe it in one line."""
        return f"{self.kind} {self.when}: {self.prompt}"

    @property
    def over(self) -> bool:
        """Whether it has fired for the last time."""
        return self.fired >= self.at_most or (
            self.kind in ("timer", "schedule") and self.due is None
        )


@record
class TriggerAdded(BaseEvent):
    type: Literal["trigger.added"] = "trigger.added"
    trigger: Trigger


@record
class TriggerFired(BaseEvent):
    """A trigger fired, between turns; the model is told in a note that is a pure function of this
    event."""

    type: Literal["trigger.fired"] = "trigger.fired"
    trigger: Trigger
    """As it is afterwards."""
    what: str
    """What happened, as a phrase; empty if it was just due."""


@record
class TriggerStopped(BaseEvent):
    type: Literal["trigger.stopped"] = "trigger.stopped"
    trigger: Trigger
    """As it is afterwards: `at_most` is how often it fired."""
    by: Literal["agent", "user"]


TriggerEvent = TriggerAdded | TriggerFired | TriggerStopped
