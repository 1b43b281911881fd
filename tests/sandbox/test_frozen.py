"""While a sandbox is frozen the workspace stays as it is; afterwards everything goes on (SECURITY
R27)."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from codeagent.core.errors import EngineError, SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import Command, CommandResult
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import EngineApi, engine_socket
from codeagent.sandbox.exec import Execution
from codeagent.sandbox.freeze import is_idle, living, process_list
from tests.conftest import MakeSandbox
from tests.sandboxes import (
    FORGED_END,
    Ran,
    make_repository,
    opened,
    processes,
    run,
    sandbox_spec,
    tell_the_word,
)

pytestmark = pytest.mark.docker
together = pytest.mark.asyncio(loop_scope="module")
"""What shares `box`."""
ENGINE = Engine(engine_socket(os.environ.get("DOCKER_HOST")))
WRITER = (
    "i=0; echo go; while sleep 0.02; do i=$((i+1)); echo $i > counter; mkdir -p d$((i % 7)); "
    "rmdir d$((i % 5)); done"
)
"""It waits between its changes, so that it does not take the time of the tests beside it."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("frozen") / "project")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(project: Path) -> AsyncIterator[DockerSandbox]:
    async with opened(project, project.parent / "state") as sandbox:
        yield sandbox


async def started(
    sandbox: DockerSandbox, text: str, *, read_only: bool = False
) -> "asyncio.Task[CommandResult]":
    """A command that has printed `go`."""
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command(text, "call", read_only), ran))
    await ran.printed(b"go")
    return task


async def state(sandbox: DockerSandbox) -> dict[str, bool]:
    _, place = await sandbox.entrance()
    facts = await ENGINE.ask("GET", f"/containers/{place.container_id}/json")
    return dict(facts["State"])


async def goes_on(now: Callable[[], Awaitable[dict[str, bool]]]) -> None:
    """The engine hears of its own pauses late: one that has ended may come up in its answers once
    more."""
    for _ in range(1500):
        if not (await now())["Paused"]:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it is still paused")


def tree(root: Path) -> str:
    """Changes with every name, time stamp and byte below the root; what vanishes meanwhile is left
    out."""
    lines = [str(root.stat().st_mtime_ns)]
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        for path in (Path(folder, name) for name in sorted([*folders, *files])):
            try:
                lines.append(
                    f"{path} {path.lstat().st_mtime_ns} {path.read_bytes() if path.is_file() else b''!r}"
                )
            except OSError:
                continue
    return sha256("\n".join(lines).encode()).hexdigest()


async def moves(root: Path) -> bool:
    """Whether anything below the root changes within half a minute."""
    before = tree(root)
    for _ in range(600):
        if tree(root) != before:
            return True
        await asyncio.sleep(0.05)
    return False


@together
async def test_a_writer_changes_nothing_while_it_is_frozen_and_goes_on_afterwards(
    box: DockerSandbox, project: Path
) -> None:
    task = await started(box, WRITER)
    for _ in range(5):
        async with box.frozen():
            before = tree(project)
            await asyncio.sleep(0.1)
            assert tree(project) == before
        assert await moves(project)
    task.cancel()
    assert (await task).stopped


@together
async def test_what_a_command_left_behind_is_frozen_too_however_it_hides(
    box: DockerSandbox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one says in the wrapper's name that nothing is left, and takes the wrapper away."""
    tell_the_word(monkeypatch)
    lie = f"{FORGED_END}; sleep 0.3; kill -9 $PPID"
    for number, (hidden, then) in enumerate(
        (("", ""), ("env -i setsid -f", ""), ("env -i setsid -f", lie))
    ):
        (folder := project / f"left{number}").mkdir()
        begun = "until [ -e counter ]; do sleep 0.02; done"
        ran = await run(
            box, f"cd {folder.name}; {hidden} bash -c '{WRITER}' > /dev/null 2>&1 & {begun}; {then}"
        )
        assert (ran.result.left_running == 0) == bool(then)
        assert await moves(folder)
        async with box.frozen():
            before = tree(folder)
            await asyncio.sleep(0.2)
            assert tree(folder) == before
        assert await moves(folder)
    await run(box, "kill -9 -1")


async def is_paused_while_frozen(sandbox: DockerSandbox) -> bool:
    async with sandbox.frozen():
        return bool((await state(sandbox))["Paused"])


async def test_where_nothing_runs_nothing_is_paused_and_the_engine_is_asked_once(
    sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(sandbox, "true")
    for _ in range(1500):  # the engine may list an ended process for a moment
        if not (await sandbox.sweep()).alive:
            break
        await asyncio.sleep(0.02)
    spare = sandbox._default._spare
    assert spare is None or await spare._starting
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "call", None)
        async with sandbox.frozen():
            pass
    await run(sandbox, "true")
    for _ in range(1500):  # the engine may list an ended process for a moment
        if not await is_paused_while_frozen(sandbox):
            break
        await asyncio.sleep(0.02)
    else:
        raise AssertionError("it was paused every time")
    await run(sandbox, "sleep 300 > /dev/null 2>&1 &")
    async with sandbox.frozen():
        assert (await state(sandbox))["Paused"]
    await goes_on(lambda: state(sandbox))


async def lives(listed: Path, count: int) -> None:
    """Wait until so many processes are on the kernel's list: what ended with a command leaves it a
    moment later."""
    for _ in range(1500):
        if len(living(listed)) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not {count} processes but {len(living(listed))}")


@together
async def test_the_kernel_s_list_says_that_nothing_is_left_and_the_engine_that_something_is(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(box, "kill -9 -1")
    _, place = await box.entrance()
    listed = process_list(ENGINE, place.container_id)
    assert listed is not None
    await lives(listed, 2)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "call", None)
        assert await is_idle(ENGINE, place.container_id, listed)
    await run(box, "sleep 300 > /dev/null 2>&1 &")
    await lives(listed, 3)
    assert not await is_idle(ENGINE, place.container_id, listed)
    assert not await is_idle(ENGINE, place.container_id, None)
    assert await is_idle(ENGINE, place.container_id, listed, beside=1)
    await run(box, "kill -9 -1")


class SaysOfEvery(Engine):
    """An engine that says the same of every container."""

    def __init__(self, pid: int, runtime: str) -> None:
        super().__init__("/nonexistent")
        self._facts = {"State": {"Pid": pid}, "HostConfig": {"Runtime": runtime}}

    def call(self, *request: Any, **options: Any) -> Any:
        return self._facts


@together
async def test_a_list_that_may_not_be_the_container_s_is_not_used(box: DockerSandbox) -> None:
    place = (await box.entrance())[1]
    pid = (await ENGINE.ask("GET", f"/containers/{place.container_id}/json"))["State"]["Pid"]
    assert process_list(SaysOfEvery(pid, "runc"), place.container_id) is not None, "the control"
    assert process_list(SaysOfEvery(pid, "runsc"), place.container_id) is None, (
        "its processes are in a kernel of its own"
    )
    assert process_list(SaysOfEvery(os.getpid(), "runc"), place.container_id) is None, (
        "that is another process"
    )
    assert process_list(SaysOfEvery(0, "runc"), place.container_id) is None
    assert process_list(Engine("/nonexistent"), place.container_id) is None


async def test_before_the_first_container_there_is_nothing_to_freeze(
    workspace_dir: Path, tmp_path: Path
) -> None:
    sandbox = DockerSandbox(
        sandbox_spec(workspace_dir, tmp_path, docker_host="unix:///nonexistent")
    )
    async with sandbox.frozen():
        pass
    await sandbox.close()


@together
async def test_frozen_nests_within_a_task_and_between_tasks(
    box: DockerSandbox, project: Path
) -> None:
    task = await started(box, WRITER)
    holds, release = asyncio.Event(), asyncio.Event()

    async def other() -> None:
        async with box.frozen():
            holds.set()
            await release.wait()

    async with box.frozen(), box.frozen():
        holder = asyncio.create_task(other())
        await holds.wait()
    before = tree(project)
    await asyncio.sleep(0.1)
    assert tree(project) == before, "the other task still holds it"
    release.set()
    await holder
    assert await moves(project)
    task.cancel()
    await task


@together
async def test_a_command_that_comes_meanwhile_waits(box: DockerSandbox, project: Path) -> None:
    async with box.frozen():
        task = asyncio.create_task(run(box, "echo ran | tee came"))
        await asyncio.sleep(0.3)
        assert not (project / "came").exists()
    assert (await task).stdout == b"ran\n"


@together
async def test_a_waiting_command_that_is_cancelled_never_runs(
    box: DockerSandbox, project: Path
) -> None:
    async with box.frozen():
        task = asyncio.create_task(box.run(Command("touch made", "call"), Ran()))
        await asyncio.sleep(0.05)
        task.cancel()
        assert (await task).stopped
    await run(box, "true")
    assert not (project / "made").exists()


async def test_the_self_test_of_a_container_leaves_a_frozen_workspace_alone(
    workspace_dir: Path, tmp_path: Path
) -> None:
    sandbox = DockerSandbox(sandbox_spec(workspace_dir, tmp_path / "state"))
    try:
        async with sandbox.frozen():
            before = tree(workspace_dir)
            starting = asyncio.create_task(sandbox.start(lambda _: None))
            await asyncio.sleep(1)
            assert (tree(workspace_dir), starting.done()) == (before, False)
        await starting
    finally:
        await sandbox.close()


@together
async def test_a_command_cancelled_while_frozen_is_stopped_afterwards(box: DockerSandbox) -> None:
    task = await started(box, "sleep 601 & echo go; wait")
    async with box.frozen():
        task.cancel()
        await asyncio.sleep(0.3)
        assert not task.done()
    result = await task
    assert (result.stopped, result.killed, result.notices) == (True, 2, ())
    assert await processes(box, "sleep 601") == 0


@together
async def test_it_goes_on_when_who_froze_it_fails_or_is_cancelled(
    box: DockerSandbox, project: Path
) -> None:
    task = await started(box, WRITER)
    with pytest.raises(ValueError, match="inside"):
        async with box.frozen():
            raise ValueError("inside")
    assert await moves(project)

    async def hold() -> None:
        async with box.frozen():
            await asyncio.sleep(600)

    for pause in (0.0, 0.002, 0.005, 0.01, 0.1):
        holder = asyncio.create_task(hold())
        await asyncio.sleep(pause)
        holder.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holder
        assert await moves(project)
    task.cancel()
    await task


@together
async def test_a_cancel_while_it_goes_on_is_not_lost(box: DockerSandbox, project: Path) -> None:
    task = await started(box, WRITER)
    leaving = asyncio.Event()

    async def hold() -> None:
        async with box.frozen():
            leaving.set()
        await asyncio.sleep(600)

    holder = asyncio.create_task(hold())
    await leaving.wait()
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(holder, 5)
    assert await moves(project)
    task.cancel()
    await task


@together
async def test_a_container_that_died_is_nothing_to_freeze(box: DockerSandbox) -> None:
    task = await started(box, "echo go; sleep 600")
    _, place = await box.entrance()
    await ENGINE.ask("DELETE", f"/containers/{place.container_id}", {"force": 1})
    async with box.frozen():
        pass
    with pytest.raises(SandboxLost):
        await task
    assert (await run(box, "echo again")).stdout == b"again\n"


@together
async def test_a_container_that_dies_while_frozen_is_lost_to_its_command_alone(
    box: DockerSandbox,
) -> None:
    task = await started(box, "echo go; sleep 600")
    _, place = await box.entrance()
    async with box.frozen():
        await ENGINE.ask("DELETE", f"/containers/{place.container_id}", {"force": 1})
    with pytest.raises(SandboxLost):
        await task
    assert (await run(box, "echo again")).stdout == b"again\n"


@together
async def test_without_an_engine_nobody_is_told_that_it_is_frozen(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(box, "sleep 300 > /dev/null 2>&1 &")
    with monkeypatch.context() as patch:
        opened = box._resources._opened
        assert opened is not None
        patch.setattr(
            box._resources, "_opened", replace(opened, engine=Engine("/nonexistent/docker.sock"))
        )
        with pytest.raises(SandboxLost, match="could not be paused"):
            async with box.frozen():
                pass
    assert (await run(box, "echo again")).stdout == b"again\n"


@together
async def test_a_container_that_cannot_be_resumed_is_replaced_and_that_is_said(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = EngineApi.ask

    def fails(api: EngineApi, method: str, path: str, *more: Any) -> Any:
        if path.endswith("/unpause"):
            raise EngineError("it cannot be resumed", 500)
        return asks(api, method, path, *more)

    monkeypatch.setattr(EngineApi, "ask", fails)
    task = await started(box, "echo go; sleep 600")
    async with box.frozen():
        pass
    with pytest.raises(SandboxLost):
        await task
    ran = await run(box, "echo again")
    assert ran.stdout == b"again\n"
    assert "could not be resumed after a pause" in ran.result.notices[0]


async def test_closing_while_frozen_leaves_no_container(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    task = await started(sandbox, "echo go; sleep 600")
    _, place = await sandbox.entrance()
    async with sandbox.frozen():
        await sandbox.close()
    with pytest.raises((SandboxLost, SandboxUnavailable)):
        await task
    listed = await ENGINE.ask("GET", "/containers/json", {"all": 1})
    assert place.container_id not in {facts["Id"] for facts in listed}


@together
async def test_both_containers_are_frozen(box: DockerSandbox) -> None:
    await run(box, "true")
    task = await started(box, "echo go; while :; do date +%s%N > /tmp/now; done", read_only=True)
    _, place = await box._read_only.entrance()

    async def now() -> dict[str, bool]:
        return dict((await ENGINE.ask("GET", f"/containers/{place.container_id}/json"))["State"])

    async with box.frozen():
        assert (await now())["Paused"]

    await goes_on(now)
    task.cancel()
    assert (await task).stopped


async def test_a_container_that_is_paused_for_ever_is_removed_at_the_next_start(
    workspace_dir: Path, tmp_path: Path
) -> None:
    """The agent was killed between pause and resume."""
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom codeagent.sandbox.docker_sandbox import DockerSandbox\n"
        "from codeagent.core.sandbox import Command\nfrom tests.sandboxes import Ran, sandbox_spec\n"
        "async def main():\n"
        "    sandbox = DockerSandbox(sandbox_spec(Path(sys.argv[1]), Path(sys.argv[2])))\n"
        "    ran = Ran()\n"
        "    task = asyncio.create_task(sandbox.run(Command('echo go; sleep 600', 'call'), ran))\n"
        "    await ran.printed(b'go')\n"
        "    async with sandbox.frozen():\n"
        "        print((await sandbox.entrance())[1].container_id, flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(workspace_dir),
        str(tmp_path / "state"),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert agent.stdout is not None
    container = (await agent.stdout.readline()).decode().strip()
    agent.send_signal(signal.SIGKILL)
    await agent.wait()
    assert container
    sandbox = DockerSandbox(sandbox_spec(workspace_dir, tmp_path / "state"))
    await sandbox.start(lambda _: None)
    listed = await ENGINE.ask("GET", "/containers/json", {"all": 1})
    await sandbox.close()
    assert container not in {facts["Id"] for facts in listed}


async def test_what_was_given_up_is_gone_before_the_workspace_counts_as_frozen(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    """With a container per command, the used one dies while the next is made."""
    sandbox = await make_sandbox(workspace_dir, per_command=True)
    await run(sandbox, f"bash -c '{WRITER}' > /dev/null 2>&1 & sleep 0.2")
    async with sandbox.frozen():
        before = tree(workspace_dir)
        await asyncio.sleep(0.2)
        assert tree(workspace_dir) == before


async def test_a_command_that_begins_while_the_sandbox_is_looked_at_does_not_count_as_nothing(
    sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.entrance()
    begin, start, answers = asyncio.Event(), Execution.start, Engine.answers
    ran, given = Ran(), list[asyncio.Task[CommandResult]]()
    listens = "import socket, time; s = socket.create_server(('127.0.0.1', 8123)); print('go', flush=True)"

    async def held(*arguments: Any, **options: Any) -> Execution:
        await begin.wait()
        return await start(*arguments, **options)

    async def then_one_is_given(engine: Engine) -> bool:
        if not given:
            command = Command(f'python3 -c "{listens}; time.sleep(600)"', "call")
            given.append(asyncio.create_task(sandbox.run(command, ran)))
            while not sandbox._default._running:  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.01)
        return await answers(engine)

    monkeypatch.setattr(Execution, "start", held)
    monkeypatch.setattr(Engine, "answers", then_one_is_given)
    await sandbox._default.is_quiet()
    begin.set()
    await ran.printed(b"go")
    assert await sandbox.listening() == {8123}
    given[0].cancel()
    assert (await given[0]).stopped


@together
async def test_a_command_that_has_only_just_been_given_runs_all_the_same(
    box: DockerSandbox,
) -> None:
    keeper = await started(box, "echo go; sleep 30")
    ends = []
    for pause in (0.0, 0.005, 0.01, 0.02, 0.03, 0.04):
        ran = Ran()
        task = asyncio.create_task(box.run(Command("echo here", "call"), ran))
        await asyncio.sleep(pause)
        async with box.frozen():
            pass
        ends.append((await task).exit_code)
    keeper.cancel()
    await asyncio.wait({keeper})
    assert ends == [0] * 6
