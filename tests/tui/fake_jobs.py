"""A book of jobs and a box of tools that only note what they are told."""

from typing import Any

from codeagent.core.errors import ConfigError
from codeagent.core.job import Job
from codeagent.core.ports import OutputPage
from codeagent.core.toolbox import Toolbox

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


class FakeToolbox:
    """A ToolKeeper; `refuses` is why trust cannot be kept."""

    def __init__(self, now: Toolbox) -> None:
        self.now = now
        self.told: list[str] = []
        self.refuses = ""

    async def trust(self) -> None:
        self._note("trust")

    async def distrust(self) -> None:
        self._note("distrust")

    def _note(self, word: str) -> None:
        if self.refuses:
            raise ConfigError(self.refuses)
        self.told.append(word)
