"""The jobs of one session: calls that go on in the background (the JobBook of `core.jobs`)."""

from codeagent.core.jobs import Job
from codeagent.core.ports import OutputPage


class Jobs:
    """Made before the tools that ask it; it knows of no job until it is connected."""

    def jobs(self) -> tuple[Job, ...]:
        return ()

    def get(self, job_id: str) -> Job:
        """Raises KeyError."""
        raise KeyError(job_id)

    async def wait(self, job_id: str, timeout: float) -> Job:
        """Raises KeyError."""
        return self.get(job_id)

    def read(self, job_id: str, offset: int | None, lines: int) -> OutputPage:
        """Raises KeyError."""
        raise KeyError(job_id)

    async def stop(self, job_id: str, reason: str) -> Job:
        """Raises KeyError."""
        return self.get(job_id)

    def send(self, job_id: str, text: str) -> bool:
        """Raises KeyError."""
        raise KeyError(job_id)
