"""The container or the engine goes away while a command runs: said plainly, and the next command
works."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.errors import EngineError, SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import Command, CommandResult
from codeagent.sandbox import launch
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.freeze import is_ending
from codeagent.sandbox.spare import Spare, Wrapper
from codeagent.sandbox.tasks import report_waiting
from tests.conftest import MakeSandbox
from tests.sandboxes import Ran, run, sandbox_spec
from tests.spares import need_process_list, waiting

pytestmark = pytest.mark.docker
SOCKET = engine_socket(os.environ.get("DOCKER_HOST"))
ENGINE = Engine(SOCKET)


class Door:
    """A unix socket in front of the engine's, which can be shut or made to hang."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flow = asyncio.Event()
        self._flow.set()
        self.asked: list[str] = []
        """What was asked of it while it hung: method and path, without the query."""

    async def open(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    def shut(self) -> None:
        """As when the engine is killed: nobody listens, every connection ends."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def hang(self) -> None:
        self._flow.clear()

    def flow(self) -> None:
        self._flow.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(SOCKET)
        self._writers |= {writer, back}
        await asyncio.gather(
            self._copy(reader, back), self._copy(there, writer), return_exceptions=True
        )
        self._writers -= {writer, back}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self._flow.is_set() and data.startswith((b"GET ", b"POST ", b"DELETE ")):
                self.asked.append(data.split(b" HTTP/")[0].partition(b"?")[0].decode())
            await self._flow.wait()
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


@pytest_asyncio.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    door = Door(tmp_path / "docker.sock")
    await door.open()
    yield door
    door.flow()
    door.shut()


async def started(sandbox: DockerSandbox, text: str) -> "asyncio.Task[CommandResult]":
    """A command that has printed `go`."""
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command(text, "call"), ran))
    await ran.printed(b"go")
    return task


def container_of(workspace: Path) -> str:
    """The id of the one container over this workspace."""
    engine = Engine(SOCKET)
    try:
        (found,) = engine.containers(f"codeagent.workspace={workspace}")
        return found
    finally:
        engine.close()


async def exists(container_id: str) -> bool:
    try:
        await ENGINE.ask("GET", f"/containers/{container_id}/json")
    except EngineError as error:
        assert error.status == 404
        return False
    return True


async def gone(container_id: str) -> bool:
    """Whether the container is gone within ten seconds."""
    for _ in range(100):
        if not await exists(container_id):
            return True
        await asyncio.sleep(0.1)
    return False


async def test_a_killed_container_leaves_the_state_unknown_and_the_next_command_runs(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    task = await started(sandbox, "touch began; echo go; sleep 600")
    await asyncio.to_thread(ENGINE.call_library, lambda api: api.kill(container_of(workspace_dir)))
    with pytest.raises(SandboxLost, match="unknown"):
        await task
    ran = await run(sandbox, "ls began; echo again")
    assert (ran.stdout, ran.result.exit_code) == (b"began\nagain\n", 0)


async def test_a_command_whose_process_ended_before_it_was_given_to_it_runs_in_a_new_container(
    make_sandbox: MakeSandbox, workspace_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a flood of processes, which may end it: it cannot have run."""
    hear = Wrapper._hear
    ending = [True]

    async def no_spare(_: Spare) -> None:
        return None

    async def ended(wrapper: Wrapper) -> bool:
        return False if ending and ending.pop() else await hear(wrapper)

    monkeypatch.setattr(Spare, "_start", no_spare)
    monkeypatch.setattr(Wrapper, "_hear", ended)
    ran = await run(await make_sandbox(workspace_dir), "echo alive")
    assert ran.stdout == b"alive\n"
    assert ran.result.notices == (
        "the sandbox had ended and was replaced: background processes and /tmp are lost",
    )


async def test_a_container_that_was_removed_or_paused_between_commands_is_replaced_and_that_is_said(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    await run(sandbox, "true")
    need_process_list(sandbox)
    for method, what in (("DELETE", ""), ("POST", "/pause")):
        await waiting(
            sandbox
        )  # an engine never answers again about a container paused while an exec begins
        container = container_of(workspace_dir)
        await ENGINE.ask(method, f"/containers/{container}{what}", {"force": 1})
        ran = await run(sandbox, "echo again")
        assert ran.stdout == b"again\n"
        assert "replaced" in ran.result.notices[0], method


def hang(engine: Engine, until: threading.Event) -> None:
    until.wait(30)


def refuse(engine: Engine, until: threading.Event) -> None:
    raise EngineError("the container cannot be removed")


@pytest.mark.parametrize("reap", [hang, refuse])
async def test_a_container_of_a_dead_process_that_cannot_be_removed_keeps_no_other_from_starting(
    reap: Callable[[Engine, threading.Event], None],
    make_sandbox: MakeSandbox,
    workspace_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()
    monkeypatch.setattr(launch, "_REAP_SECONDS", 0.01)
    monkeypatch.setattr(launch, "reap", partial(reap, until=over))
    sandbox = await make_sandbox(workspace_dir)
    assert (await run(sandbox, "echo here")).stdout == b"here\n"
    over.set()


async def test_an_engine_that_dies_leaves_the_state_unknown_and_works_again_later(
    make_sandbox: MakeSandbox, workspace_dir: Path, door: Door
) -> None:
    sandbox = await make_sandbox(workspace_dir, docker_host=f"unix://{door.path}")
    task = await started(sandbox, "echo go; sleep 600")
    before = container_of(workspace_dir)
    door.shut()
    with pytest.raises(SandboxLost, match="unknown"):
        await task
    with pytest.raises(SandboxUnavailable, match=r"not running|no socket") as caught:
        await run(sandbox, "touch on-the-host")
    assert caught.value.remedy
    assert not (workspace_dir / "on-the-host").exists()
    await door.open()
    assert (await run(sandbox, "echo again")).stdout == b"again\n"
    assert await gone(before)


async def test_an_engine_that_dies_while_a_command_is_stopped_is_said(
    make_sandbox: MakeSandbox, workspace_dir: Path, door: Door
) -> None:
    sandbox = await make_sandbox(workspace_dir, docker_host=f"unix://{door.path}")
    task = await started(sandbox, "trap '' TERM; echo go; sleep 600")
    task.cancel()
    await asyncio.sleep(0.5)
    door.shut()
    with pytest.raises(SandboxLost, match="unknown"):
        await task


async def test_an_engine_that_hangs_in_mid_command_is_noticed(
    make_sandbox: MakeSandbox, workspace_dir: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await make_sandbox(workspace_dir, docker_host=f"unix://{door.path}")
    opened = sandbox._resources._opened
    assert opened is not None
    monkeypatch.setattr(
        sandbox._resources, "_opened", replace(opened, engine=Engine(str(door.path), seconds=1.0))
    )
    task = await started(sandbox, "echo go; sleep 600")
    door.hang()
    with pytest.raises(SandboxLost, match="did not answer"):
        await asyncio.wait_for(task, 30)


def but_polls(asked: list[str]) -> set[str]:
    """Without the question that every running command goes on asking: whether it still runs."""
    return {request for request in asked if "/exec/" not in request}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine counts as hanging after a tenth of a second; every other deadline stays as long as
    it is."""
    monkeypatch.setattr("codeagent.sandbox.engine.ANSWER_SECONDS", 0.1)
    monkeypatch.setattr("codeagent.sandbox.engine_socket.PROBE_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
async def test_an_engine_that_hangs_is_not_waited_for_by_a_stop_a_checkpoint_or_the_end(
    make_sandbox: MakeSandbox, workspace_dir: Path, door: Door
) -> None:
    """Nothing but a ping is asked of it: every other request would have to be waited for."""
    sandbox = await make_sandbox(workspace_dir, docker_host=f"unix://{door.path}")
    task = await started(sandbox, "echo go; sleep 600")
    door.hang()
    with pytest.raises(SandboxLost, match="does not answer"):
        async with sandbox.frozen():
            raise AssertionError("nothing is frozen")
    task.cancel()
    with pytest.raises(SandboxLost, match="does not answer"):
        await task
    with pytest.raises(SandboxUnavailable, match="does not answer"):
        await run(sandbox, "touch on-the-host")
    await sandbox.close()
    assert but_polls(door.asked) == {"GET /_ping"}
    assert not (workspace_dir / "on-the-host").exists()


@pytest.mark.usefixtures("impatient")
async def test_a_start_on_an_engine_that_hangs_ends_with_the_reason(
    tmp_path: Path, workspace_dir: Path
) -> None:
    silent = await asyncio.start_unix_server(lambda reader, writer: None, tmp_path / "silent")
    sandbox = DockerSandbox(
        sandbox_spec(workspace_dir, tmp_path / "state", docker_host=f"unix://{tmp_path}/silent")
    )
    with pytest.raises(SandboxUnavailable, match="does not answer") as caught:
        await sandbox.start(lambda _: None)
    assert "restart it" in caught.value.remedy
    await sandbox.close()
    silent.close()


async def test_asking_whether_a_running_container_ends_leaves_no_thread_behind(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    assert not await is_ending(ENGINE, container_of(workspace_dir))
    async with asyncio.timeout(30):
        while any(thread.name == "sandbox" for thread in threading.enumerate()):  # noqa: ASYNC110  # a thread tells nobody
            await asyncio.sleep(0.02)


async def test_what_a_start_waits_for_is_said_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codeagent.sandbox.tasks._TELL_SECONDS", 0.01)
    said: asyncio.Queue[str] = asyncio.Queue()
    async with report_waiting("waiting for the Docker engine", said.put_nowait) as report:
        for _ in range(2):
            assert (await said.get()).startswith("waiting for the Docker engine (")
        report("building")
        while await said.get() != "building":
            continue
        assert (await said.get()).startswith("building ("), (
            "what is being done is said from then on"
        )
    while not said.empty():
        said.get_nowait()
    await asyncio.sleep(0)
    assert said.empty(), "nothing is said once it is over"


AGENT = """
import asyncio, sys
from pathlib import Path
from codeagent.core.sandbox import Command
from codeagent.sandbox import launch
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.sandboxes import Ran, sandbox_spec

async def main():
    sandbox = DockerSandbox(sandbox_spec(Path(sys.argv[1]), Path(sys.argv[2])))
    await sandbox.start(lambda _: None)
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command("echo go; setsid sleep 600 & sleep 600", "call"), ran))
    await ran.printed(b"go")
    print("ready", flush=True)
    await task

asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_an_agent_that_is_killed_takes_its_container_along(
    workspace_dir: Path, tmp_path: Path, how: signal.Signals
) -> None:
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(AGENT),
        str(workspace_dir),
        str(tmp_path / "state"),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert agent.stdout is not None
    assert await agent.stdout.readline() == b"ready\n"
    container = container_of(workspace_dir)
    assert await exists(container)
    agent.send_signal(how)
    await agent.wait()
    assert await gone(container)
