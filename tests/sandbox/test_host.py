"""Commands on the host, which only an explicit choice allows."""

import asyncio
import os
from pathlib import Path

import pytest

from codeagent.core.ports import Command, CommandResult
from codeagent.sandbox.host import HostSandbox
from tests.sandboxes import Ran, run


@pytest.fixture
def host(tmp_path: Path) -> HostSandbox:
    return HostSandbox(
        tmp_path, os.environ | {"SOME_API_KEY": "canary-value", "SSH_AUTH_SOCK": "/canary", "PLAIN": "1"}
    )


def alive(marker: str) -> int:
    """Processes whose command line holds `marker`."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += marker.encode() in path.read_bytes().split(b"\0")
        except OSError:
            continue
    return found


async def test_output_and_exit_code_come_back(host: HostSandbox, tmp_path: Path) -> None:
    ran = await run(host, "pwd; echo err >&2; cat; exit 3")
    assert (ran.stdout.decode(), ran.stderr, ran.result) == (f"{tmp_path}\n", b"err\n", CommandResult(3))


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


async def test_cancelling_stops_everything_with_setsid_and_without_environment(host: HostSandbox) -> None:
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
