"""A job that has ended, with where its output is: what a session's log keeps of it."""

from dataclasses import dataclass

from codeagent.core.jobs import Job


@dataclass(frozen=True)
class EndedJob:
    job: Job
    handle: str | None
    """Of its output in the store; None where it printed nothing, or `tail` is all."""
    tail: str = ""
