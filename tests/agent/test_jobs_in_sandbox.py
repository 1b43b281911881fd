"""Jobs over a real container: what they print is read while they run, and servers stay reachable
for later calls."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.acts import Background
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.notices import JobListens
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import MemoryOutputs, Turn, of
from tests.agent.job_doubles import Backstage

pytestmark = pytest.mark.docker
COUNT = "for i in $(seq 600); do echo line $i; sleep 0.1; done"
GET = "exec 3<>/dev/tcp/127.0.0.1/8765; printf 'GET /hello.py HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"


@pytest.fixture
def workspace(workspace_dir: Path) -> Iterator[LocalWorkspace]:
    opened = LocalWorkspace(workspace_dir)
    yield opened
    opened.close()


def bash(command: str, **arguments: object) -> tuple[str, str]:
    return "bash", json.dumps({"command": command, **arguments})


def backstage(sandbox: DockerSandbox, workspace: LocalWorkspace, *turns: Turn) -> Backstage:
    return Backstage(*turns, sandbox=sandbox, more=(Bash(MemoryOutputs(), ReadTracker(workspace)),))


async def test_a_command_is_moved_to_the_background_read_while_it_runs_and_stopped(
    sandbox: DockerSandbox, workspace: LocalWorkspace
) -> None:
    b = backstage(sandbox, workspace, Turn("", (bash(COUNT),)), Turn("it runs"))

    def promote(event: KnownEvent) -> None:
        if event.type == "tool.updated":
            b.act(Background())

    b.agent.observe(promote)
    await b.run()
    first = b.jobs.read("job-1", None, 1)
    assert first.lines[0].startswith("line ")
    await b.until("job.updated", 5)
    assert b.jobs.read("job-1", None, 1).total > first.total
    assert b.jobs.read("job-1", 1, 2).lines == ("line 1", "line 2")
    job = await b.jobs.stop("job-1", "stopped by the user")
    assert job.status == "stopped"
    assert "1 process stopped" in job.summary or "processes stopped" in job.summary
    total = b.jobs.read("job-1", None, 1).total
    await b.scene.run("and then?")
    assert b.jobs.read("job-1", None, 1).total == total
    assert len(b.notes()) == 1
    await b.agent.close()


async def test_a_server_shows_its_port_and_later_commands_reach_it(
    sandbox: DockerSandbox, workspace: LocalWorkspace
) -> None:
    b = backstage(
        sandbox,
        workspace,
        Turn("", (bash("exec python3 -m http.server 8765", run_in_background=True),)),
        Turn("it starts"),
        Turn("", (bash(GET),)),
    )
    await b.run()
    await b.until("notice")
    [notice] = of(b.events, JobListens)
    assert (notice.job_id, notice.port) == ("job-1", 8765)
    await b.run("ask it")
    assert "200 OK" in text_of(of(b.events, ToolResultAdded)[-1].content)
    assert b.jobs.get("job-1").ports == (8765,)
    await b.agent.close()
    assert await sandbox.listening() == frozenset()
