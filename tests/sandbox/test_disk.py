"""What fills the disk is stopped; how much is free is said by the test, and
nothing is written."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.sandbox import Command, Sandbox
from codeagent.sandbox import docker_sandbox, tasks
from codeagent.sandbox.host import HostSandbox
from codeagent.sandbox.tasks import GIB, Room
from tests.conftest import MakeSandbox
from tests.sandboxes import Ran, run


class Disk:
    """How much is free, for everybody who asks."""

    free = 100 * GIB


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(tasks, "free_bytes", lambda folder: disk.free)
    monkeypatch.setattr(tasks, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(docker_sandbox, "LOOK_SECONDS", 0.01)
    yield disk


@pytest.mark.parametrize(
    ("before", "after", "exceeded"),
    [
        (100 * GIB, 95 * GIB, False),
        (100 * GIB, 95 * GIB - 1, True),
        (100 * GIB, 200 * GIB, False),
        (2 * GIB, GIB, False),
        (2 * GIB, GIB - 1, True),
        (GIB // 2, GIB // 2, False),
        (GIB // 2, GIB // 4, True),
    ],
)
def test_five_gib_may_be_taken_and_one_must_stay(
    disk: Disk, before: int, after: int, exceeded: bool
) -> None:
    disk.free = before
    room = Room(Path("/"))
    disk.free = after
    assert bool(room.exceeded()) is exceeded


def test_what_is_free_is_asked_of_the_file_system(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert abs(tasks.free_bytes(tmp_path) - found.f_bavail * found.f_frsize) < GIB
    assert abs(tasks.free_bytes(tmp_path / "not" / "yet") - found.f_bavail * found.f_frsize) < GIB
    (tmp_path / "file").touch()
    assert tasks.free_bytes(tmp_path / "file" / "below") > 2**60, "unknown"


async def filled(sandbox: Sandbox, disk: Disk) -> str:
    """What is said of a command during which the disk fills."""
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command("echo go; sleep 600", "call"), ran))
    await ran.printed(b"go")
    assert not task.done(), "the positive control: with room it goes on"
    disk.free = GIB // 2
    result = await task
    assert result.stopped and result.killed >= 1
    return result.notices[-1]


async def test_a_command_that_fills_the_disk_is_stopped_on_this_machine(
    tmp_path: Path, disk: Disk
) -> None:
    host = HostSandbox(tmp_path, dict(os.environ), tmp_path / "state")
    disk.free = 2 * GIB
    assert (
        await filled(host, disk)
        == "it was stopped: the disk has only 0.5 GiB left, and 1 GiB must stay free"
    )
    assert (await run(host, "echo small")).stdout == b"small\n", (
        "what takes nothing runs all the same"
    )


@pytest.mark.docker
async def test_a_command_that_fills_the_disk_is_stopped_and_so_is_what_it_left(
    make_sandbox: MakeSandbox, workspace_dir: Path, disk: Disk
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    assert "5.0" not in (said := await filled(sandbox, disk)) and "were used while it ran" in said
    disk.free = 2 * GIB
    assert (await run(sandbox, "sleep 600 & sleep 0.1")).result.left_running == 1
    watching = sandbox._watching
    assert watching is not None
    disk.free = GIB // 2
    await watching
    ran = await run(sandbox, "cat /proc/[0-9]*/comm | grep -cx sleep")
    assert ran.stdout == b"0\n"
    assert "background processes were stopped" in ran.result.notices[0]


@pytest.mark.docker
async def test_a_command_that_fills_the_disk_while_it_is_tried_out_is_stopped(
    make_sandbox: MakeSandbox, workspace_dir: Path, disk: Disk
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    ran = Ran()
    task = asyncio.create_task(
        sandbox.try_out(Command("echo x > made; echo go; sleep 600", "call"), ran)
    )
    await ran.printed(b"go")
    disk.free = GIB // 2
    trial = await task
    assert trial.result.stopped and trial.result.killed >= 1
    assert "were used while it ran" in trial.result.notices[-1]
    await trial.close()
    assert not (workspace_dir / "made").exists()
