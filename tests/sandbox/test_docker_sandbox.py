"""The sandbox of one session: its limits, its workspace, and when its container is made again."""

import asyncio
import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import EngineError, SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import Command, CommandResult
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.guard import Container
from codeagent.sandbox.launch import launch
from codeagent.sandbox.mounts import MOST_FILES, NOT_ALL_MASKED
from tests.conftest import MakeSandbox
from tests.effort import part
from tests.sandboxes import (
    MIB,
    Ran,
    make_repository,
    opened,
    processes,
    processes_become,
    run,
    sandbox_spec,
)

pytestmark = pytest.mark.docker


async def test_a_child_in_the_background_may_go_on_printing(sandbox: DockerSandbox) -> None:
    writer = (
        "(until [ -e enough ]; do echo tick; echo tock >&2; touch began; done; touch survived) &"
    )
    ran = await run(sandbox, f"{writer} until [ -e began ]; do :; done")
    assert (ran.result.left_running > 0, ran.stdout[:5], ran.stderr[:5]) == (
        True,
        b"tick\n",
        b"tock\n",
    )
    assert (
        await run(sandbox, "touch enough; until [ -e survived ]; do :; done")
    ).result.exit_code == 0
    await processes_become(
        sandbox, "cat", 1
    )  # the keeper: what took the child's output has ended with it


async def test_a_fork_bomb_is_stopped_or_ends_and_the_sandbox_stays_usable(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir, pids=64)
    ends = "for i in $(seq 100); do sleep 0.5 & done; wait"
    bomb = "echo go; bomb() { bomb | bomb & }; bomb; sleep 600"
    await run(sandbox, ends)
    assert (await run(sandbox, "echo alive")).stdout == b"alive\n"
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command(bomb, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    assert (await task).stopped
    assert (await run(sandbox, "echo alive")).stdout == b"alive\n"


async def test_running_out_of_memory_is_said(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir, memory_bytes=128 * MIB)
    ran = await run(sandbox, "perl -e '$x = \"x\" x 400_000_000; print length $x'")
    assert (ran.result.exit_code, ran.result.out_of_memory) == (137, True)
    assert (await run(sandbox, "kill -9 $$")).result == CommandResult(137)


@pytest.mark.parametrize("uid", [0, 1000])
async def test_work_is_done_as_the_owner_of_the_workspace(
    make_sandbox: MakeSandbox, tmp_path: Path, uid: int
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a workspace of somebody else")
    root = make_repository(tmp_path / "project")
    for path in [root, *root.rglob("*")]:
        os.chown(path, uid, uid)
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, "mkdir d && echo x > d/f && git status --short && id -u")
    assert (ran.result.exit_code, ran.stdout.split()[-1]) == (0, b"1000" if uid else b"65532")
    assert {
        (path.stat().st_uid, path.stat().st_gid) for path in (root / "d", root / "d" / "f")
    } == {(uid, uid)}
    info = await sandbox.start(lambda _: None)
    shown = "65532:65532, who sees the files of root as its own (mapped ids)"
    assert info.user == (shown if uid == 0 else "1000:1000")
    before = sorted(root.iterdir())
    ran = await run(
        sandbox, "ln -sf Makefile /dev/null; touch /dev/x; mv /dev/zero /dev/one; rm /dev/full"
    )
    assert len(ran.stderr.splitlines()) == 4, "devices cannot be replaced"
    assert sorted(root.iterdir()) == before
    code = (
        "import multiprocessing, os; multiprocessing.Lock(); print(os.ttyname(os.openpty()[1])[:9])"
    )
    ran = await run(sandbox, f"echo x > /dev/null && python3 -c '{code}'")
    assert ran.stdout == b"/dev/pts/\n", "terminals and shared memory work"


EVERY_KIND = '-a größe-世界:with,every"kind\nof it'
NAMES = (
    EVERY_KIND,
    "with space",
    "größe-世界",
    "with:colon",
    "with,comma",
    'with"quote',
    "with\nnewline",
    "-dash",
)


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("name", part(NAMES, 1))
async def test_a_workspace_may_have_any_name_and_is_mounted_where_it_really_is(
    make_sandbox: MakeSandbox, tmp_path: Path, name: str
) -> None:
    root = make_repository(tmp_path / name)
    (tmp_path / "link").symlink_to(root)
    sandbox = await make_sandbox(tmp_path / "link")
    ran = await run(sandbox, 'printf %s "$(pwd -P)"; git status --short; echo x > made')
    assert (ran.stdout.decode(), ran.result.exit_code) == (str(root), 0)
    assert (root / "made").read_text() == "x\n"


async def test_a_read_only_workspace_is_read_only(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir, access="read-only")
    ran = await run(sandbox, "touch x; cat hello.py > /dev/null && echo x > /tmp/x && cat /tmp/x")
    assert b"Read-only file system" in ran.stderr
    assert ran.stdout == b"x\n"


async def test_a_git_directory_that_a_command_makes_is_moved_away(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, "git init -q . && echo made; mkdir .codeagent; ln -s /etc .GIT")
    assert ran.stdout == b"made\n"
    assert len(ran.result.notices) == 3
    assert "created .git" in " ".join(ran.result.notices)
    assert os.listdir(root) == []  # noqa: PTH208  # only names are wanted
    assert (await run(sandbox, "true")).result.notices == ()


async def test_a_git_directory_that_the_user_makes_is_kept_and_protected(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    sandbox = await make_sandbox(root)
    await run(sandbox, "true")
    await sandbox.sweep()
    make_repository(tmp_path / "other")
    (tmp_path / "other" / ".git").rename(root / ".git")
    ran = await run(sandbox, "touch .git/x; git log --oneline")
    assert b"Read-only" in ran.stderr
    assert b"first" in ran.stdout
    assert "replaced because .git changed" in ran.result.notices[0]


async def test_a_masked_file_that_was_replaced_is_masked_again(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    (workspace_dir / ".env").write_text("OLD=1\n")
    sandbox = await make_sandbox(workspace_dir)
    assert (await run(sandbox, "cat .env")).stdout == b""
    (workspace_dir / "new").write_text("NEWSECRET=1\n")
    (workspace_dir / "new").rename(workspace_dir / ".env")
    ran = await run(sandbox, "cat .env")
    assert ran.stdout == b""
    assert "replaced because .env changed" in ran.result.notices[0]
    assert "look like secrets (1): .env" in (await sandbox.start(lambda _: None)).warnings[0]


async def test_a_secret_that_appears_after_the_start_is_masked_before_the_next_command(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    assert (await run(sandbox, "true")).result.notices == ()
    (workspace_dir / "web").mkdir()
    (workspace_dir / "web/.env.local").write_text("CANARY=1\n")
    ran = await run(sandbox, "cat web/.env.local; grep -r CANARY .")
    assert ran.stdout == b""
    assert "replaced because web/.env.local changed" in ran.result.notices[0]
    assert (await run(sandbox, "true")).result.notices == ()


async def test_a_secret_that_cannot_be_masked_is_said_once_and_then_asked_about(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command("echo go; sleep 600", "job"), ran))
    await ran.printed(b"go")
    assert sandbox.exposed == ""
    (workspace_dir / ".env.local").write_text("CANARY=1\n")
    with pytest.raises(
        SandboxUnavailable, match=r"\.env\.local may contain secrets and cannot be hidden"
    ):
        await run(sandbox, "grep -r CANARY .")
    assert sandbox.exposed == ".env.local may contain secrets and is not hidden"
    assert (await run(sandbox, "echo asked")).stdout == b"asked\n"
    task.cancel()
    await task
    assert (await run(sandbox, "grep -r CANARY .")).stdout == b""
    assert sandbox.exposed == ""


async def test_what_could_not_be_masked_is_known_once_it_is_ready(
    workspace_dir: Path, tmp_path: Path
) -> None:
    for number in range(MOST_FILES + 1):
        (workspace_dir / f".env.{number}").write_text("CANARY=1\n")
    async with opened(workspace_dir, tmp_path / "state") as sandbox:
        assert sandbox.exposed == ""
        await sandbox.ready()
        assert sandbox.exposed == NOT_ALL_MASKED


async def test_a_workspace_that_was_moved_is_not_written_to(
    make_sandbox: MakeSandbox, workspace_dir: Path, tmp_path: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    os.rename(workspace_dir, tmp_path / "moved")  # noqa: PTH104  # at once is meant
    with pytest.raises(SandboxUnavailable, match="was moved"):
        await run(sandbox, "touch x")
    assert not (tmp_path / "moved" / "x").exists()


@pytest.mark.parametrize("name", [".codeagent", ".git"])
async def test_a_protected_name_that_is_a_link_is_refused_and_its_target_never_mounted(
    make_sandbox: MakeSandbox, tmp_path: Path, name: str
) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / name).symlink_to("../victim")
    with pytest.raises(SandboxUnavailable, match=f"{name} is a link") as caught:
        await make_sandbox(tmp_path / "project")
    assert "plain directory" in caught.value.remedy


async def test_nothing_is_left_in_a_workspace_that_was_only_looked_at(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    sandbox = await make_sandbox(root)
    await run(sandbox, "ls -la")
    await sandbox.close()
    assert os.listdir(root) == []  # noqa: PTH208  # only names are wanted


async def test_starting_twice_and_closing_twice_is_fine(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    first, second = await asyncio.gather(
        sandbox.start(lambda _: None), sandbox.start(lambda _: None)
    )
    assert first == second
    await sandbox.close()
    await sandbox.close()
    with pytest.raises(SandboxUnavailable, match="closed"):
        await run(sandbox, "true")


async def test_a_sandbox_per_command_keeps_nothing_but_the_workspace(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir, per_command=True)
    first = await run(sandbox, "touch /tmp/left kept; sleep 600 > /dev/null 2>&1 &")
    second = await run(sandbox, "ls /tmp/left kept")
    assert first.result.exit_code == 0
    assert b"kept" in second.stdout
    assert b"/tmp/left" not in second.stdout
    assert await processes(sandbox, "sleep 600") == 0


async def test_a_container_whose_connection_is_closed_ends_at_once(sandbox: DockerSandbox) -> None:
    """Not at the next garbage collection: a start that is cancelled gives up its container in this
    way."""
    engine, place = await sandbox.entrance()
    container = sandbox._default._container
    assert container is not None
    container.disconnect()
    try:
        await engine.ask("POST", f"/containers/{place.container_id}/wait", {"condition": "removed"})
    except EngineError as error:
        assert error.status == 404


@pytest.mark.parametrize("moment", ["before it is made", "before it is known"])
async def test_a_sandbox_that_is_closed_while_it_starts_leaves_no_container(
    workspace_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    loop, reached, closed, over = (
        asyncio.get_running_loop(),
        asyncio.Event(),
        threading.Event(),
        asyncio.Event(),
    )
    made: list[Container] = []

    def paused(*arguments: Any, **options: Any) -> Container:
        try:
            if moment == "before it is made":
                loop.call_soon_threadsafe(reached.set)
                closed.wait(30)
            made.append(launch(*arguments, **options))
            if moment == "before it is known":
                loop.call_soon_threadsafe(reached.set)
                closed.wait(30)
            return made[0]
        finally:
            loop.call_soon_threadsafe(over.set)

    monkeypatch.setattr("codeagent.sandbox.container.launch", paused)
    sandbox = DockerSandbox(sandbox_spec(workspace_dir, tmp_path))
    starting = asyncio.create_task(sandbox.start(lambda _: None))
    await reached.wait()
    starting.cancel()
    await sandbox.close()
    closed.set()
    await over.wait()
    with closing(Engine(engine_socket(None))) as engine:
        for left in made:
            try:
                await engine.ask(
                    "POST", f"/containers/{left.container_id}/wait", {"condition": "removed"}
                )
            except EngineError as error:
                assert error.status == 404
    assert len(made) == (moment == "before it is known")


async def test_closing_again_does_nothing_even_after_a_command_that_it_ended(
    sandbox: DockerSandbox,
) -> None:
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command("echo go; sleep 600", "call"), ran))
    await ran.printed(b"go")
    await sandbox.close()
    with pytest.raises((SandboxLost, SandboxUnavailable)):
        await task
    await sandbox.close()
