"""Commands in one container: what they print, how they end, and what they leave, beside what others
left."""

import asyncio
import json
import os
import resource
import shlex
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from codeagent.core.sandbox import Command, CommandResult
from codeagent.sandbox import work_user
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import LABEL, Engine, reap
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.exec import Execution
from codeagent.sandbox.profile import HOME
from codeagent.sandbox.tasks import DRAIN_SECONDS
from codeagent.sandbox.thaw import owner
from tests.effort import FACTOR
from tests.sandboxes import (
    FORGED_END,
    Ran,
    make_repository,
    opened,
    processes,
    processes_become,
    run,
    tell_the_word,
)

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("commands") / "project")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerSandbox]:
    """One container for all of these tests: whatever one of them starts has a name of its own."""
    async with opened(project, tmp_path_factory.mktemp("state")) as sandbox:
        yield sandbox


async def cancelled(box: DockerSandbox, text: str) -> CommandResult:
    """What becomes of a command that is cancelled once it has printed `go`."""
    ran = Ran()
    task = asyncio.create_task(box.run(Command(text, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    return await task


async def test_the_two_streams_come_apart_and_the_exit_code_is_kept(box: DockerSandbox) -> None:
    ran = await run(box, "echo out; echo err >&2; exit 7")
    assert (ran.stdout, ran.stderr, ran.result) == (b"out\n", b"err\n", CommandResult(7))


ORDER = "".join(f"echo {n}; echo {n} >&2; " for n in range(200))
"""Writes to its two streams in turns."""


async def test_what_is_written_to_the_two_streams_keeps_its_order(box: DockerSandbox) -> None:
    ran = await run(box, f"{ORDER} exit 7", apart=False)
    assert ran.stdout == b"".join(b"%d\n%d\n" % (n, n) for n in range(200))
    assert ({stream for stream, _ in ran.pieces}, ran.result) == ({"output"}, CommandResult(7))


async def test_the_order_is_kept_by_children_and_by_what_is_left_running(
    box: DockerSandbox,
) -> None:
    ran = await run(box, f"bash -c {shlex.quote(ORDER)}; sleep 612 & echo bye >&2", apart=False)
    assert ran.stdout == b"".join(b"%d\n%d\n" % (n, n) for n in range(200)) + b"bye\n"
    assert ran.result.left_running == 1


async def test_output_is_passed_on_while_the_command_runs(box: DockerSandbox) -> None:
    seen = asyncio.Event()

    async def on_output(stream: str, data: bytes) -> None:
        seen.set()

    task = asyncio.create_task(box.run(Command("echo first; sleep 600", "call"), on_output))
    await asyncio.wait_for(seen.wait(), 20)
    assert not task.done()
    task.cancel()
    assert (await task).stopped


async def test_commands_run_in_the_workspace_root_with_nothing_on_standard_input(
    box: DockerSandbox, project: Path
) -> None:
    ran = await run(box, "pwd; cat; read -r line; echo $?")
    assert ran.stdout.decode() == f"{project}\n1\n"


async def test_bytes_come_out_as_they_are(box: DockerSandbox) -> None:
    ran = await run(box, r"printf '\xff\0\xfe'; printf 'a\0b\xff' >&2")
    assert (ran.stdout, ran.stderr) == (b"\xff\0\xfe", b"a\0b\xff")


async def test_a_script_of_two_megabytes_runs(box: DockerSandbox) -> None:
    script = "\n".join(["# " + "x" * 98] * 20_000) + "\necho ran; exit 3\n"
    assert len(script) > 2_000_000
    ran = await run(box, script)
    assert (ran.stdout, ran.stderr, ran.result.exit_code) == (b"ran\n", b"", 3)


async def test_a_script_with_every_kind_of_quote_runs_unchanged(box: DockerSandbox) -> None:
    ran = await run(box, "printf '%s' \"$(cat <<'END'\n'\"`$(x)\\ \u00e4\u4e16 END'\nEND\n)\"")
    assert ran.stdout.decode() == "'\"`$(x)\\ \u00e4\u4e16 END'"


async def test_cancelling_stops_everything_and_the_container_lives(box: DockerSandbox) -> None:
    result = await cancelled(box, "sleep 620 & setsid sleep 620 & echo go; wait")
    assert (result.exit_code, result.stopped, result.killed) == (None, True, 3)
    assert await processes(box, "sleep 620") == 0
    assert result.notices == ()


async def test_cancelling_finds_what_dropped_its_environment_and_its_parents(
    box: DockerSandbox,
) -> None:
    command = "env -i setsid -f sleep 640; (env -i bash -c 'sleep 640 & sleep 640 & wait' &) ; echo go; sleep 640"
    result = await cancelled(box, command)
    assert result.stopped
    assert await processes(box, "sleep 640") == 0


async def test_what_ignores_term_is_killed(box: DockerSandbox) -> None:
    command = (
        "trap '' TERM; (trap '' TERM; sleep 660) & setsid bash -c \"trap '' TERM; sleep 660\" & "
        "echo go; sleep 660"
    )
    result = await cancelled(box, command)
    assert result.stopped
    assert result.killed >= 3
    assert await processes(box, "sleep 660") == 0


async def test_output_printed_on_term_is_kept(box: DockerSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(
        box.run(
            Command(
                "trap 'echo bye; exit' TERM; echo go; while :; do sleep 0.05; done",
                "call",
                apart=True,
            ),
            ran,
        )
    )
    await ran.printed(b"go")
    task.cancel()
    await task
    assert ran.stdout == b"go\nbye\n"


async def test_stopped_processes_are_stopped_for_good(box: DockerSandbox) -> None:
    result = await cancelled(box, "sleep 680 & kill -STOP $!; echo go; sleep 680")
    assert result.stopped
    assert await processes(box, "sleep 680") == 0


async def test_cancelling_before_anything_ran_says_so(box: DockerSandbox) -> None:
    task = asyncio.create_task(box.run(Command("touch ran", "call"), Ran()))
    await asyncio.sleep(0)
    task.cancel()
    assert (await task).stopped


async def test_being_cancelled_again_while_stopping_changes_nothing(box: DockerSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(box.run(Command("trap '' TERM; echo go; sleep 700", "call"), ran))
    await ran.printed(b"go")
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.1)
    assert (await task).stopped
    assert await processes(box, "sleep 700") == 0


async def test_what_the_reader_raises_stops_the_command(box: DockerSandbox) -> None:
    async def on_output(stream: str, data: bytes) -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await box.run(Command("echo x; sleep 720", "call"), on_output)
    assert await processes(box, "sleep 720") == 0


@pytest.mark.soak(tried=1)
async def test_much_output_passes_in_bounded_memory(box: DockerSandbox) -> None:
    size, count = 1_000_000_000 if FACTOR else 200_000_000, 0

    async def on_output(stream: str, data: bytes) -> None:
        nonlocal count
        count += len(data)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await box.run(Command(f"yes | head -c {size}", "call"), on_output)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (result.exit_code, count) == (0, size)
    assert grown < 50 * 1024, f"{grown} KiB"


async def test_a_reader_that_waits_holds_the_command_back(
    box: DockerSandbox, project: Path
) -> None:
    go_on = asyncio.Event()
    count = 0

    async def on_output(stream: str, data: bytes) -> None:
        nonlocal count
        await go_on.wait()
        count += len(data)

    async def discard(stream: str, data: bytes) -> None:
        pass

    much = "yes | head -c 20000000"
    task = asyncio.create_task(box.run(Command(f"{much}; touch held", "call"), on_output))
    assert (await box.run(Command(much, "other"), discard)).exit_code == 0
    assert not (project / "held").exists(), (
        "as much output came to its end meanwhile, where somebody reads it"
    )
    go_on.set()
    assert (await task).exit_code == 0
    assert (count, (project / "held").exists()) == (20_000_000, True)


async def test_a_slow_reader_loses_nothing_after_the_command_has_ended(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, begun, over, drain = Ran(), asyncio.Event(), asyncio.Event(), Execution.drain

    async def seen_to_drain(execution: Execution) -> None:
        begun.set()
        await drain(execution)
        over.set()

    async def on_output(stream: str, data: bytes) -> None:
        await asyncio.wait_for(begun.wait(), 30)
        if not ran.stdout:
            await asyncio.sleep(2 * DRAIN_SECONDS)
            assert not over.is_set(), "the reader is waited for"
        ran.stdout += data

    monkeypatch.setattr(Execution, "drain", seen_to_drain)
    result = await box.run(Command("seq 20000", "call"), on_output)
    assert result.exit_code == 0
    assert ran.stdout == "".join(f"{n}\n" for n in range(1, 20_001)).encode()


async def test_cancelling_one_of_two_commands_leaves_the_other_alone(
    box: DockerSandbox, project: Path
) -> None:
    other = Ran()
    text = "setsid sleep 616 & echo up; until [ -e over ]; do sleep 0.02; done; echo survived"
    task = asyncio.create_task(box.run(Command(text, "other"), other))
    await other.printed(b"up")
    result = await cancelled(box, "setsid sleep 617 & echo go; sleep 617")
    assert (result.stopped, result.killed) == (True, 2)
    (project / "over").touch()
    assert (await task).left_running == 1
    assert other.stdout == b"up\nsurvived\n"


async def test_a_command_that_claims_to_have_ended_is_not_believed(
    box: DockerSandbox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_the_word(monkeypatch)
    ran = Ran()
    forged = f"{FORGED_END}; echo forged"
    task = asyncio.create_task(
        box.run(
            Command(
                f"{forged}; until [ -e later ]; do sleep 0.02; done; echo later; exit 4", "call"
            ),
            ran,
        )
    )
    await ran.printed(b"forged")
    (project / "later").touch()
    assert (await task).exit_code == 4
    assert ran.stdout == b"forged\nlater\n"


async def test_a_child_in_the_background_holds_nothing_up_and_is_counted(
    box: DockerSandbox,
) -> None:
    children = (
        "sleep 611 &",
        "setsid sleep 611 &",
        "env -i sleep 611 &",
        "env -i setsid -f sleep 611;",
    )
    for number, child in enumerate(children, 1):
        ran = await run(box, f"{child} echo started; exit 5")
        assert (ran.stdout, ran.result.exit_code, ran.result.left_running) == (
            b"started\n",
            5,
            1,
        ), child
        await processes_become(box, "sleep 611", number)


async def test_a_child_that_writes_for_ever_holds_nothing_up(
    box: DockerSandbox, project: Path
) -> None:
    ran = await run(box, "(until [ -e read ]; do echo y; done) & exit 5")
    assert (ran.result.exit_code, ran.result.left_running) == (5, 1)
    (project / "read").touch()


async def test_an_earlier_child_is_not_counted_twice_nor_stopped_with_a_later_command(
    box: DockerSandbox,
) -> None:
    assert (await run(box, "sleep 610 & env -i setsid -f sleep 610")).result.left_running == 2
    assert (await run(box, "true")).result.left_running == 0
    assert (await cancelled(box, "echo go; sleep 500")).stopped
    await processes_become(box, "sleep 610", 2)


async def test_a_command_that_kills_everything_ends_with_that_signal(
    box: DockerSandbox, project: Path
) -> None:
    ran = Ran()
    text = "echo x; until [ -e seen ]; do sleep 0.02; done; kill -9 -1"
    task = asyncio.create_task(box.run(Command(text, "call"), ran))
    await ran.printed(b"x")
    (project / "seen").touch()
    assert (await task).exit_code == 137
    assert ran.stdout == b"x\n"
    assert (await run(box, "echo alive")).stdout == b"alive\n"
    await processes_become(box, "sleep 610", 0)


async def test_closing_while_the_container_is_being_created_leaves_no_container(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created, may_go_on = threading.Event(), threading.Event()
    call = Engine.call

    def slow(engine: Engine, *request: Any, **options: Any) -> Any:
        answer = call(engine, *request, **options)
        if isinstance(answer, dict) and answer.keys() == {"Id", "Warnings"}:
            created.set()
            may_go_on.wait(30)
        return answer

    monkeypatch.setattr(Engine, "call", slow)
    async with opened(
        project, tmp_path / "state", session=f"ends-early-{tmp_path.name}"
    ) as sandbox:
        starting = asyncio.create_task(sandbox.start(lambda _: None))
        await asyncio.to_thread(created.wait, 30)
        asyncio.get_running_loop().call_later(0.5, may_go_on.set)
    assert may_go_on.is_set(), "closing waits for what creates the container"
    starting.cancel()
    with closing(Engine(engine_socket(None))) as engine:
        assert engine.containers(f"codeagent.session=ends-early-{tmp_path.name}") == {}


async def test_a_labelled_volume_is_removed_once_its_process_is_dead_and_is_left_alone_before() -> (
    None
):
    with closing(Engine(engine_socket(None))) as engine:
        ours = _labelled_volume(engine, owner(os.getpid()))
        try:
            # A session that another test starts reaps, too, and may be faster.
            assert any(_reaped_here(engine) for _ in range(20))
            assert ours in engine.unused_volumes(LABEL)
        finally:
            engine.remove_volume(ours)


def _reaped_here(engine: Engine) -> bool:
    """Whether `reap` counted the volume of a dead process, which is gone in any case."""
    dead = _labelled_volume(engine, _dead_owner())
    removed = reap(engine)
    assert dead not in engine.unused_volumes(LABEL)
    return removed >= 1


def _labelled_volume(engine: Engine, of: str | None) -> str:
    labels = {"codeagent": "1", "codeagent.owner": of}
    name: str = engine.call_library(partial(_make_volume, labels=labels))
    return name


def _dead_owner() -> str | None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as dead:
        return owner(dead.pid)


def _make_volume(api: Any, labels: dict[str, str]) -> str:
    return str(api.create_volume(labels=labels)["Name"])


async def test_the_volumes_of_a_container_carry_its_labels(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_user, "_asked", lambda mapping, words: "the kernel cannot")
    session = f"labels-{tmp_path.name}"
    async with opened(project, tmp_path / "state", session=session) as sandbox:
        _, place = await sandbox.entrance()
        with closing(Engine(engine_socket(None))) as engine:
            wanted = json.dumps({"label": [f"codeagent.session={session}"]})
            labelled = engine.call("GET", "/volumes", {"filters": wanted})["Volumes"]
            mounted = engine.volumes_of(place.container_id)
        # Only commands that run as root have terminals of their own.
        terminals = {"/dev/pts"} if os.getuid() == 0 else set()
        assert mounted.keys() == {"/tmp", HOME, *terminals}
        assert {each["Name"] for each in labelled} == {*mounted.values()}
