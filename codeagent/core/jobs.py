"""The jobs of a session, as those who start, read and stop them see them (FEATURES F6, F7)."""

from typing import Protocol

from codeagent.core.job import Job
from codeagent.core.ports import OutputPage


class JobBook(Protocol):
    """The jobs of one session, those of an earlier process (`lost`) among them."""

    def jobs(self) -> tuple[Job, ...]:
        """All of them, in the order they were started."""

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""

    async def wait(self, job_id: str, timeout: float) -> Job:
        """The job once it has ended, or as it is after `timeout` seconds. Raises KeyError."""

    def read(self, job_id: str, offset: int | None, lines: int) -> OutputPage:
        """What it printed so far, `lines` lines from line `offset` (from 1); None: the last ones. May block on a file.

        Raises KeyError.
        """

    def returned(self, job_id: str) -> str:
        """What its call returned, or the end of that and where all of it is; what it printed may be a part of it.

        Empty while it runs, and where the model was told of its end before. Raises KeyError.
        """

    async def stop(self, job_id: str, reason: str) -> Job:
        """Stop it and return once nothing of it runs; a job that has ended stays as it is. Raises KeyError."""

    def send(self, job_id: str, text: str) -> bool:
        """Give it text; False where it takes none, or has ended. Raises KeyError."""
