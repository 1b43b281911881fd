"""Killed in the middle of a checkpoint: what was stopped for it goes on or ends, without anybody
asking for it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codeagent.core.errors import EngineError, SandboxLost
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.host import HostSandbox
from codeagent.sandbox.thaw import owner, thaw_left
from tests.sandboxes import run

AGENT = """
import asyncio, os, sys
from pathlib import Path
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.host import HostSandbox
from tests.sandboxes import run, sandbox_spec

async def main(kind, root, state):
    host = kind == "host"
    sandbox = HostSandbox(root, dict(os.environ), state) if host else DockerSandbox(sandbox_spec(root, state))
    await sandbox.start(lambda _: None)
    ran = await run(sandbox, "sleep 600 > /dev/null 2>&1 & echo $!")
    container = kind == "docker" and sandbox._default._container.container_id
    async with sandbox.frozen():
        print(container or ran.stdout.decode().strip(), flush=True)
        await asyncio.sleep(600)

asyncio.run(main(sys.argv[1], *map(Path, sys.argv[2:])))
"""


@asynccontextmanager
async def frozen_agent(
    kind: str, tmp_path: Path
) -> AsyncIterator[tuple["asyncio.subprocess.Process", str]]:
    """An agent that holds its sandbox frozen, and what it stopped: a pid, or a container's id."""
    (tmp_path / "project").mkdir()
    arguments = ("-c", AGENT, kind, str(tmp_path / "project"), str(tmp_path / "state"))
    agent = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    try:
        yield agent, (await agent.stdout.readline()).decode().strip()
    finally:
        if agent.returncode is None:
            agent.kill()
            await agent.wait()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110  # other processes tell nobody
            await asyncio.sleep(0.02)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]


async def test_a_job_on_this_machine_goes_on_when_the_agent_is_killed(tmp_path: Path) -> None:
    async with frozen_agent("host", tmp_path) as (agent, said):
        pid = int(said)
        try:
            assert state(pid) == "T", "the positive control: it is stopped"
            agent.kill()
            await agent.wait()

            async def goes_on() -> bool:
                return state(pid) != "T"

            await until(goes_on)
        finally:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.docker
async def test_a_paused_container_is_removed_when_the_agent_is_killed(tmp_path: Path) -> None:
    engine = Engine(engine_socket(os.environ.get("DOCKER_HOST")))
    async with frozen_agent("docker", tmp_path) as (agent, container):
        facts = await engine.ask("GET", f"/containers/{container}/json")
        assert facts["State"]["Paused"], "the positive control"
        agent.kill()
        await agent.wait()

        async def gone() -> bool:
            try:
                await engine.ask("GET", f"/containers/{container}/json")
            except EngineError as error:
                return error.status == 404
            return False

        async def forgotten() -> bool:
            return not list((tmp_path / "state/sandbox/frozen").iterdir())

        await until(gone)
        await until(forgotten)


async def test_the_next_start_does_what_the_watchdog_could_not(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as sleep:  # noqa: ASYNC220  # it blocks for a millisecond
        sleep.send_signal(signal.SIGSTOP)

        async def stopped() -> bool:
            return state(sleep.pid) == "T"

        await until(stopped)
        start = (owner(sleep.pid) or "").rpartition("/")[2]
        mine, dead = owner(os.getpid()) or "", (owner(os.getpid()) or "") + "0"
        note = tmp_path / "sandbox/frozen/1-x.json"
        note.parent.mkdir(parents=True)
        for whose, begun, goes_on in (
            (mine, start, False),
            (dead, start + "0", False),
            (dead, start, True),
        ):
            facts = {"owner": whose, "processes": [[sleep.pid, int(begun)]], "containers": []}
            note.write_text(json.dumps(facts))
            await HostSandbox(tmp_path, {}, tmp_path).start(lambda _: None)
            assert (state(sleep.pid) != "T") is goes_on, (whose, begun)
        assert not note.exists()
        sleep.kill()


async def test_nothing_is_stopped_that_could_not_be_written_down(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    sandbox = HostSandbox(tmp_path, dict(os.environ), tmp_path / "state")
    pid = int((await run(sandbox, "sleep 600 > /dev/null 2>&1 & echo $!")).stdout)
    try:
        with pytest.raises(SandboxLost, match="cannot be recorded"):
            async with sandbox.frozen():
                raise AssertionError("it is not frozen")
        assert state(pid) != "T"
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"owner": 1}'])
def test_a_note_that_cannot_be_read_stops_no_start(tmp_path: Path, text: str) -> None:
    note = tmp_path / "sandbox/frozen/1-x.json"
    note.parent.mkdir(parents=True)
    note.write_text(text)
    assert thaw_left(tmp_path) == 0
