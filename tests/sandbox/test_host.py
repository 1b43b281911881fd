"""Commands on the host, which only an explicit choice allows."""

import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from codeagent.core.errors import SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import Command, CommandResult
from codeagent.sandbox import process_tree
from codeagent.sandbox.host import HostSandbox
from tests.sandboxes import Ran, run


@pytest.fixture
def host(tmp_path: Path) -> HostSandbox:
    return HostSandbox(
        tmp_path,
        os.environ | {"SOME_API_KEY": "canary-value", "SSH_AUTH_SOCK": "/canary", "PLAIN": "1"},
        tmp_path.parent / "state",
    )


def alive(marker: str) -> int:
    """Processes whose command line holds `marker`."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            found += marker.encode() in (process / "cmdline").read_bytes().split(b"\0")
    return found


async def test_output_and_exit_code_come_back(host: HostSandbox, tmp_path: Path) -> None:
    ran = await run(host, "pwd; echo err >&2; cat; exit 3")
    assert (ran.stdout.decode(), ran.stderr, ran.result) == (
        f"{tmp_path}\n",
        b"err\n",
        CommandResult(3),
    )


async def test_what_is_written_to_the_two_streams_keeps_its_order(host: HostSandbox) -> None:
    ran = await run(
        host, "".join(f"echo {n}; echo {n} >&2; " for n in range(200)) + "exit 3", apart=False
    )
    assert ran.stdout == b"".join(b"%d\n%d\n" % (n, n) for n in range(200))
    assert ({stream for stream, _ in ran.pieces}, ran.result) == ({"output"}, CommandResult(3))


async def test_secrets_are_left_out_of_the_environment(host: HostSandbox) -> None:
    ran = await run(host, "env")
    assert b"canary" not in ran.stdout
    assert b"PLAIN=1" in ran.stdout


async def test_it_says_that_nothing_is_confined(host: HostSandbox) -> None:
    info = await host.start(lambda _: None)
    assert info.kind == "host"
    assert "no sandbox" in info.warnings[0]


async def test_a_long_script_runs(host: HostSandbox) -> None:
    ran = await run(host, "# " + "x" * 200_000 + "\necho ran")
    assert (ran.stdout, ran.stderr) == (b"ran\n", b"")


async def test_cancelling_stops_everything_with_setsid_and_without_environment(
    host: HostSandbox,
) -> None:
    ran = Ran()
    command = "sleep 61.25 & setsid sleep 61.25 & env -i sleep 61.25 & echo go; wait"
    task = asyncio.create_task(host.run(Command(command, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    result = await task
    assert (result.exit_code, result.stopped, result.killed) == (None, True, 4)
    assert alive("61.25") == 0


async def test_what_ignores_term_is_killed(host: HostSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(host.run(Command("trap '' TERM; echo go; sleep 62.25", "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    assert (await task).stopped
    assert alive("62.25") == 0


async def test_a_background_child_holds_nothing_up_and_is_counted(host: HostSandbox) -> None:
    ran = await run(host, "sleep 3.25 & echo x; exit 4")
    assert (ran.stdout, ran.result.exit_code, ran.result.left_running) == (b"x\n", 4, 1)


async def test_what_the_reader_raises_stops_the_command(host: HostSandbox) -> None:
    async def on_output(stream: str, data: bytes) -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await host.run(Command("echo x; sleep 63.25", "call"), on_output)
    assert alive("63.25") == 0


async def test_a_command_that_must_not_write_is_refused(host: HostSandbox, tmp_path: Path) -> None:
    with pytest.raises(
        SandboxUnavailable, match="plan mode runs no commands without a sandbox"
    ) as caught:
        await host.run(Command("touch made", "call", read_only=True), Ran())
    assert caught.value.remedy
    assert not (tmp_path / "made").exists()


def state(pid: int) -> str:
    """As the kernel gives it in one letter."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def counter(folder: Path) -> str:
    return (folder / "counter").read_text()


WRITER = "i=0; while :; do i=$((i+1)); echo $i > new && mv new counter; done"


async def moves(folder: Path) -> bool:
    """Whether the writer writes within half a minute."""
    before = counter(folder)
    for _ in range(600):
        if counter(folder) != before:
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("start", ["", "setsid ", "env -i "])
async def test_while_frozen_a_writer_changes_nothing_and_goes_on_afterwards(
    host: HostSandbox, tmp_path: Path, start: str
) -> None:
    ran = Ran()
    command = (
        f"{start}bash -c '{WRITER}' & until [ -e counter ]; do sleep 0.01; done; echo go; wait"
    )
    task = asyncio.create_task(host.run(Command(command, "call"), ran))
    await ran.printed(b"go")
    for _ in range(3):
        async with host.frozen():
            before = counter(tmp_path)
            await asyncio.sleep(0.1)
            assert counter(tmp_path) == before
        assert await moves(tmp_path)
    task.cancel()
    assert (await task).stopped


async def test_what_a_command_left_behind_is_frozen_until_it_ends(
    host: HostSandbox, tmp_path: Path
) -> None:
    ran = await run(
        host,
        f"setsid bash -c 'echo $$ > pid; {WRITER}' & until [ -e counter ]; do sleep 0.01; done",
    )
    assert ran.result.left_running > 0
    async with host.frozen(), host.frozen():
        before = counter(tmp_path)
        await asyncio.sleep(0.1)
        assert counter(tmp_path) == before
    assert await moves(tmp_path)
    await run(
        host, "kill -9 $(cat pid); while kill -0 $(cat pid) 2> /dev/null; do sleep 0.01; done"
    )
    async with host.frozen():
        pass
    assert host._trees == set()


async def test_what_was_stopped_before_stays_stopped(host: HostSandbox) -> None:
    ran = Ran()
    has_stopped = "until [[ $(< /proc/$!/stat) == *') T '* ]]; do :; done"
    command = f"sleep 64.25 & kill -STOP $!; {has_stopped}; echo $!; echo go; wait"
    task = asyncio.create_task(host.run(Command(command, "call"), ran))
    await ran.printed(b"go")
    stopped = int(ran.stdout.split()[0])
    async with host.frozen():
        pass
    assert state(stopped) == "T"
    task.cancel()
    assert (await task).stopped
    assert alive("64.25") == 0


async def test_a_command_cancelled_while_frozen_is_stopped_afterwards(host: HostSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(host.run(Command("echo go; sleep 65.25", "call"), ran))
    await ran.printed(b"go")
    async with host.frozen():
        task.cancel()
        await asyncio.sleep(0.1)
        assert not task.done()
    assert (await task).stopped
    assert alive("65.25") == 0


async def test_a_command_that_comes_while_frozen_waits(host: HostSandbox, tmp_path: Path) -> None:
    async with host.frozen():
        task = asyncio.create_task(run(host, "touch made"))
        await asyncio.sleep(0.2)
        assert not (tmp_path / "made").exists()
    assert (await task).result.exit_code == 0


async def test_where_processes_cannot_be_listed_nobody_is_told_that_they_stand_still(
    host: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Ran()
    task = asyncio.create_task(host.run(Command("echo go; sleep 66.25", "call"), ran))
    await ran.printed(b"go")
    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "processes", lambda *_: iter(()))
        with pytest.raises(SandboxLost, match="could not be paused"):
            async with host.frozen():
                pass
    task.cancel()
    assert (await task).stopped


async def test_what_a_command_leaves_is_found_by_its_mark_alone_though_nothing_older_is_searched(
    host: HostSandbox,
) -> None:
    assert (await run(host, "setsid -f sleep 66.75 > /dev/null 2>&1")).result.left_running == 1
    assert (
        await run(host, "pkill -f '^sleep 66.75'; until ! pgrep -f '^sleep 66.75'; do :; done")
    ).result == (CommandResult(0))


def test_a_process_in_the_middle_of_an_execve_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows no environment then, or says that there is no such process."""
    with subprocess.Popen(
        ["sleep", "66.5"], env={process_tree.MARK: "abc", "PATH": os.environ["PATH"]}
    ) as process:
        tree = process_tree.ProcessTree(-1, "abc", process_tree.ticks() - 1000)
        really, shown = process_tree._read, [ProcessLookupError, b"", b""]

        def read(path: str) -> bytes:
            if path != f"/proc/{process.pid}/environ" or not shown:
                return really(path)
            if isinstance(now := shown.pop(), bytes):
                return now
            raise now

        monkeypatch.setattr(process_tree, "_read", read)
        assert tree.ended() == 1
        process.kill()
