"""A book of jobs that only notes what it is told."""

from typing import Any

from codeagent.core.jobs import Job
from codeagent.core.memory import OutputPage

JOB = Job("job-1", "c1", "bash", "npm run dev", "running", 0.0, lines=3)


class FakeJobs:
    """Knows `job-1`, which printed three lines and takes text."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.takes = True

    def jobs(self) -> tuple[Job, ...]:
        return (JOB,)

    def get(self, job_id: str) -> Job:
        if job_id != JOB.id:
            raise KeyError(job_id)
        return JOB

    async def wait(self, job_id: str, timeout: float) -> Job:
        return self.get(job_id)

    def read(self, job_id: str, offset: int | None, lines: int) -> OutputPage:
        self.get(job_id)
        printed = ("one", "two", "three")
        first = offset or max(1, len(printed) - lines + 1)
        return OutputPage(printed[first - 1 : first - 1 + lines], first, len(printed), 0)

    def returned(self, job_id: str) -> str:
        self.get(job_id)
        return ""

    async def stop(self, job_id: str, reason: str) -> Job:
        self.told.append(("stop", job_id, reason))
        return self.get(job_id)

    def send(self, job_id: str, text: str) -> bool:
        self.told.append(("send", job_id, text))
        self.get(job_id)
        return self.takes
