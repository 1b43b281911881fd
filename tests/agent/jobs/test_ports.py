"""A port that begins to be listened on while a job runs is told of once, and whose it is only where
that is sure."""

from codeagent.core.errors import SandboxLost
from codeagent.core.notices import JobListens
from tests.agent.doubles import Turn, of
from tests.agent.job_doubles import Backstage, long
from tests.fakes import FakeSandbox


class Ports(FakeSandbox):
    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.trouble: Exception | None = None

    async def listening(self) -> frozenset[int]:
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        return self.ports


def told(b: Backstage) -> list[JobListens]:
    return of(b.events, JobListens)


def backstage(sandbox: Ports, *keys: str) -> Backstage:
    b = Backstage(Turn("", tuple(long(key, background=True) for key in keys)), sandbox=sandbox)
    b.long.sandboxed = True
    return b


async def test_the_port_of_the_only_job_is_its_own() -> None:
    sandbox = Ports()
    b = backstage(sandbox, "server")
    await b.run()
    sandbox.ports = frozenset({8000})
    await b.until("notice")
    assert b.jobs.get("job-1").ports == (8000,)
    [notice] = told(b)
    assert (notice.job_id, notice.port) == ("job-1", 8000)
    assert notice.text == "job-1 (server) listens on port 8000 in the sandbox"
    sandbox.ports = frozenset({8000, 9000})
    await b.until("notice", 2)
    assert b.jobs.get("job-1").ports == (8000, 9000)
    await b.agent.close()


async def test_with_several_jobs_nobody_is_named() -> None:
    sandbox = Ports()
    sandbox.ports = frozenset({8000})
    b = backstage(sandbox, "a", "b")
    await b.run()
    await b.until("notice")
    [notice] = told(b)
    assert (notice.job_id, notice.port) == ("", 8000)
    assert "2 jobs run there, so it could be any of them" in notice.text
    assert [job.ports for job in b.jobs.jobs()] == [(), ()]
    await b.agent.close()


async def test_a_sandbox_that_cannot_be_looked_into_is_asked_again() -> None:
    sandbox = Ports()
    sandbox.trouble = SandboxLost("gone")
    b = backstage(sandbox, "a")
    await b.run()
    while sandbox.looks < 2:
        await b.settled()
    sandbox.trouble, sandbox.ports = None, frozenset({1})
    await b.until("notice")
    await b.agent.close()


async def test_nobody_looks_where_no_job_runs_in_the_sandbox() -> None:
    sandbox = Ports()
    b = Backstage(Turn("", (long(background=True),)), sandbox=sandbox)
    await b.run()
    await b.settled()
    assert b.jobs._ports is not None
    assert b.jobs._ports._task is None
    assert sandbox.looks == 0
    await b.agent.close()
