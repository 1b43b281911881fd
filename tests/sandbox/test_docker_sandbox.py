"""Commands in the container: what they print, how they end, and what is left afterwards."""

import asyncio
import os
import resource
import time
from pathlib import Path

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.ports import Command, CommandResult
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.conftest import MakeSandbox
from tests.sandboxes import MIB, WRAPPERS_WORD, Ran, make_repository, run

pytestmark = pytest.mark.docker


async def cancelled_after(sandbox: DockerSandbox, text: str, until: bytes) -> tuple[CommandResult, float]:
    """Cancel a command once it has printed `until`; its result, and the seconds that took."""
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command(text, "call"), ran))
    await ran.printed(until)
    began = time.monotonic()
    task.cancel()
    return await task, time.monotonic() - began


async def processes(sandbox: DockerSandbox, name: str) -> int:
    """How many processes of that name live in the sandbox."""
    ran = await run(sandbox, f"cat /proc/[0-9]*/comm 2>/dev/null | grep -cx {name}")
    return int(ran.stdout)


async def processes_become(sandbox: DockerSandbox, name: str, number: int) -> None:
    """Return once so many processes of that name live in the sandbox."""
    found = None
    try:
        async with asyncio.timeout(30):
            while (found := await processes(sandbox, name)) != number:
                pass
    except TimeoutError:
        pytest.fail(f"{found} processes are called {name}, not {number}")


async def test_the_two_streams_come_apart_and_the_exit_code_is_kept(sandbox: DockerSandbox) -> None:
    ran = await run(sandbox, "echo out; echo err >&2; exit 7")
    assert (ran.stdout, ran.stderr, ran.result) == (b"out\n", b"err\n", CommandResult(7))


async def test_output_is_passed_on_while_the_command_runs(sandbox: DockerSandbox) -> None:
    seen = asyncio.Event()

    async def on_output(stream: str, data: bytes) -> None:
        seen.set()

    task = asyncio.create_task(sandbox.run(Command("echo first; sleep 600", "call"), on_output))
    await asyncio.wait_for(seen.wait(), 20)
    assert not task.done()
    task.cancel()
    assert (await task).stopped


async def test_commands_run_in_the_workspace_root_with_nothing_on_standard_input(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    ran = await run(sandbox, "pwd; cat; read -r line; echo $?")
    assert ran.stdout.decode() == f"{workspace_dir}\n1\n"


async def test_bytes_come_out_as_they_are(sandbox: DockerSandbox) -> None:
    ran = await run(sandbox, r"printf '\xff\0\xfe'; printf 'a\0b\xff' >&2")
    assert (ran.stdout, ran.stderr) == (b"\xff\0\xfe", b"a\0b\xff")


async def test_a_script_of_two_megabytes_runs(sandbox: DockerSandbox) -> None:
    script = "\n".join(["# " + "x" * 98] * 20_000) + "\necho ran; exit 3\n"
    assert len(script) > 2_000_000
    ran = await run(sandbox, script)
    assert (ran.stdout, ran.stderr, ran.result.exit_code) == (b"ran\n", b"", 3)


async def test_a_script_with_every_kind_of_quote_runs_unchanged(sandbox: DockerSandbox) -> None:
    ran = await run(sandbox, "printf '%s' \"$(cat <<'END'\n'\"`$(x)\\ \u00e4\u4e16 END'\nEND\n)\"")
    assert ran.stdout.decode() == "'\"`$(x)\\ \u00e4\u4e16 END'"


async def test_a_gigabyte_of_output_passes_in_bounded_memory(sandbox: DockerSandbox) -> None:
    count = 0

    async def on_output(stream: str, data: bytes) -> None:
        nonlocal count
        count += len(data)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await sandbox.run(Command("yes | head -c 1000000000", "call"), on_output)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (result.exit_code, count) == (0, 1_000_000_000)
    assert grown < 50 * 1024, f"{grown} KiB"


async def test_a_reader_that_waits_holds_the_command_back(sandbox: DockerSandbox, workspace_dir: Path) -> None:
    go_on = asyncio.Event()
    count = 0

    async def on_output(stream: str, data: bytes) -> None:
        nonlocal count
        await go_on.wait()
        count += len(data)

    task = asyncio.create_task(sandbox.run(Command("yes | head -c 50000000; touch done", "call"), on_output))
    await asyncio.sleep(1)
    assert not (workspace_dir / "done").exists()
    go_on.set()
    assert (await task).exit_code == 0
    assert (count, (workspace_dir / "done").exists()) == (50_000_000, True)


async def test_a_slow_reader_loses_nothing_after_the_command_has_ended(sandbox: DockerSandbox) -> None:
    ran = Ran()

    async def on_output(stream: str, data: bytes) -> None:
        await asyncio.sleep(0.5)
        ran.stdout += data

    result = await sandbox.run(Command("seq 20000", "call"), on_output)
    assert result.exit_code == 0
    assert ran.stdout == "".join(f"{n}\n" for n in range(1, 20_001)).encode()


@pytest.mark.parametrize(
    "child", ["sleep 300 &", "setsid sleep 300 &", "env -i sleep 300 &", "env -i setsid -f sleep 300;"]
)
async def test_a_child_in_the_background_holds_nothing_up_and_is_counted(sandbox: DockerSandbox, child: str) -> None:
    ran = await run(sandbox, f"{child} echo started; exit 5")
    assert (ran.stdout, ran.result.exit_code, ran.result.left_running) == (b"started\n", 5, 1)
    await processes_become(sandbox, "sleep", 1)


async def test_a_child_in_the_background_may_go_on_printing(sandbox: DockerSandbox) -> None:
    writer = "(until [ -e enough ]; do echo tick; echo tock >&2; touch began; done; touch survived) &"
    before = await processes(sandbox, "cat")
    ran = await run(sandbox, f"{writer} until [ -e began ]; do :; done")
    assert (ran.result.left_running > 0, ran.stdout[:5], ran.stderr[:5]) == (True, b"tick\n", b"tock\n")
    assert (await run(sandbox, "touch enough; until [ -e survived ]; do :; done")).result.exit_code == 0
    await processes_become(sandbox, "cat", before)  # what took the child's output has ended with it


async def test_a_child_that_writes_for_ever_holds_nothing_up(sandbox: DockerSandbox) -> None:
    ran = await run(sandbox, "yes & exit 5")
    assert (ran.result.exit_code, ran.result.left_running) == (5, 1)


async def test_an_earlier_child_is_not_counted_twice_nor_stopped_with_a_later_command(sandbox: DockerSandbox) -> None:
    assert (await run(sandbox, "sleep 300 & env -i setsid -f sleep 300")).result.left_running == 2
    assert (await run(sandbox, "true")).result.left_running == 0
    result, _ = await cancelled_after(sandbox, "echo go; sleep 500", b"go")
    assert result.stopped
    assert await processes(sandbox, "sleep") == 2


async def test_cancelling_stops_everything_and_the_container_lives(sandbox: DockerSandbox) -> None:
    result, _ = await cancelled_after(sandbox, "sleep 600 & setsid sleep 600 & echo go; wait", b"go")
    assert (result.exit_code, result.stopped, result.killed) == (None, True, 3)
    assert await processes(sandbox, "sleep") == 0
    assert result.notices == ()


async def test_cancelling_finds_what_dropped_its_environment_and_its_parents(sandbox: DockerSandbox) -> None:
    command = "env -i setsid -f sleep 600; (env -i bash -c 'sleep 601 & sleep 602 & wait' &) ; echo go; sleep 603"
    result, _ = await cancelled_after(sandbox, command, b"go")
    assert result.stopped
    assert await processes(sandbox, "sleep") == 0


async def test_what_ignores_term_is_killed(sandbox: DockerSandbox) -> None:
    command = (
        "trap '' TERM; (trap '' TERM; sleep 300) & setsid bash -c \"trap '' TERM; sleep 300\" & echo go; sleep 300"
    )
    result, _ = await cancelled_after(sandbox, command, b"go")
    assert result.stopped
    assert result.killed >= 3
    assert await processes(sandbox, "sleep") == 0


async def test_output_printed_on_term_is_kept(sandbox: DockerSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(
        sandbox.run(Command("trap 'echo bye; exit' TERM; echo go; while :; do sleep 0.05; done", "call"), ran)
    )
    await ran.printed(b"go")
    task.cancel()
    await task
    assert ran.stdout == b"go\nbye\n"


async def test_stopped_processes_are_stopped_for_good(sandbox: DockerSandbox) -> None:
    result, _ = await cancelled_after(sandbox, "sleep 600 & kill -STOP $!; echo go; sleep 600", b"go")
    assert result.stopped
    assert await processes(sandbox, "sleep") == 0


async def test_cancelling_one_of_two_commands_leaves_the_other_alone(sandbox: DockerSandbox) -> None:
    other = asyncio.create_task(run(sandbox, "setsid sleep 3 & sleep 2; echo survived"))
    await asyncio.sleep(0.3)
    result, _ = await cancelled_after(sandbox, "setsid sleep 600 & echo go; sleep 600", b"go")
    assert (result.stopped, result.killed) == (True, 2)
    assert (await other).stdout == b"survived\n"


async def test_cancelling_before_anything_ran_says_so(sandbox: DockerSandbox) -> None:
    task = asyncio.create_task(sandbox.run(Command("touch ran", "call"), Ran()))
    await asyncio.sleep(0)
    task.cancel()
    assert (await task).stopped


async def test_being_cancelled_again_while_stopping_changes_nothing(sandbox: DockerSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command("trap '' TERM; echo go; sleep 600", "call"), ran))
    await ran.printed(b"go")
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.1)
    assert (await task).stopped
    assert await processes(sandbox, "sleep") == 0


async def test_what_the_reader_raises_stops_the_command(sandbox: DockerSandbox) -> None:
    async def on_output(stream: str, data: bytes) -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await sandbox.run(Command("echo x; sleep 600", "call"), on_output)
    assert await processes(sandbox, "sleep") == 0


async def test_a_fork_bomb_is_stopped(make_sandbox: MakeSandbox, workspace_dir: Path) -> None:
    sandbox = await make_sandbox(workspace_dir, pids=128)
    result, _ = await cancelled_after(sandbox, "echo go; bomb() { bomb | bomb & }; bomb; sleep 600", b"go")
    assert result.stopped
    ran = await run(sandbox, "echo alive")
    assert ran.stdout == b"alive\n"


async def test_a_fork_bomb_that_ends_leaves_a_usable_sandbox(make_sandbox: MakeSandbox, workspace_dir: Path) -> None:
    sandbox = await make_sandbox(workspace_dir, pids=64)
    await run(sandbox, "for i in $(seq 100); do sleep 0.5 & done; wait")
    assert (await run(sandbox, "echo alive")).stdout == b"alive\n"


async def test_running_out_of_memory_is_said(make_sandbox: MakeSandbox, workspace_dir: Path) -> None:
    sandbox = await make_sandbox(workspace_dir, memory_bytes=128 * MIB)
    ran = await run(sandbox, "perl -e '$x = \"x\" x 400_000_000; print length $x'")
    assert (ran.result.exit_code, ran.result.out_of_memory) == (137, True)
    assert (await run(sandbox, "kill -9 $$")).result == CommandResult(137)


async def test_a_command_that_kills_everything_ends_with_that_signal(sandbox: DockerSandbox) -> None:
    ran = await run(sandbox, "echo x; sleep 0.5; kill -9 -1")
    assert (ran.stdout, ran.result.exit_code) == (b"x\n", 137)
    assert (await run(sandbox, "echo alive")).stdout == b"alive\n"


async def test_a_command_that_claims_to_have_ended_is_not_believed(sandbox: DockerSandbox) -> None:
    ran = await run(sandbox, f"{WRAPPERS_WORD} printf '\\0%s 0 0\\n' $word >&2; sleep 1; echo later; exit 4")
    assert (ran.stdout, ran.result.exit_code) == (b"later\n", 4)


@pytest.mark.parametrize("uid", [0, 1000])
async def test_files_belong_to_the_owner_of_the_workspace(make_sandbox: MakeSandbox, tmp_path: Path, uid: int) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a workspace of somebody else")
    root = make_repository(tmp_path / "project")
    for path in [root, *root.rglob("*")]:
        os.chown(path, uid, uid)
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, "mkdir d && echo x > d/f && git status --short && id -u")
    assert (ran.result.exit_code, ran.stdout.split()[-1]) == (0, str(uid).encode())
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (root / "d", root / "d" / "f")} == {(uid, uid)}
    info = await sandbox.start(lambda _: None)
    assert info.user == ("root, no capabilities" if uid == 0 else "1000:1000")


@pytest.mark.parametrize("uid", [0, 1000])
async def test_devices_cannot_be_replaced_and_terminals_and_shared_memory_work(
    make_sandbox: MakeSandbox, tmp_path: Path, uid: int
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a workspace of somebody else")
    root = tmp_path / "project"
    root.mkdir()
    os.chown(root, uid, uid)
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, "ln -sf Makefile /dev/null; touch /dev/x; mv /dev/zero /dev/one; rm /dev/full; ls -A")
    assert ran.stdout == b""
    assert len(ran.stderr.splitlines()) == 4
    code = "import multiprocessing, os; multiprocessing.Lock(); print(os.ttyname(os.openpty()[1])[:9])"
    assert (await run(sandbox, f"echo x > /dev/null && python3 -c '{code}'")).stdout == b"/dev/pts/\n"


@pytest.mark.parametrize(
    "name", ["with space", "größe-世界", "with:colon", "with,comma", 'with"quote', "with\nnewline", "-dash"]
)
async def test_a_workspace_may_have_any_name(make_sandbox: MakeSandbox, tmp_path: Path, name: str) -> None:
    root = make_repository(tmp_path / name)
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, 'printf %s "$PWD"; git status --short; echo x > made')
    assert (ran.stdout.decode(), ran.result.exit_code) == (str(root), 0)
    assert (root / "made").read_text() == "x\n"


async def test_a_workspace_reached_over_a_link_is_mounted_where_it_really_is(
    make_sandbox: MakeSandbox, workspace_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(workspace_dir)
    sandbox = await make_sandbox(tmp_path / "link")
    assert (await run(sandbox, "pwd -P")).stdout.decode().strip() == str(workspace_dir)


async def test_a_read_only_workspace_is_read_only(make_sandbox: MakeSandbox, workspace_dir: Path) -> None:
    sandbox = await make_sandbox(workspace_dir, read_only_workspace=True)
    ran = await run(sandbox, "touch x; cat hello.py > /dev/null && echo x > /tmp/x && cat /tmp/x")
    assert b"Read-only file system" in ran.stderr
    assert ran.stdout == b"x\n"


async def test_a_git_directory_that_a_command_makes_is_moved_away(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, "git init -q . && echo made; mkdir .codeagent; ln -s /etc .GIT")
    assert ran.stdout == b"made\n"
    assert len(ran.result.notices) == 3
    assert "created .git" in " ".join(ran.result.notices)
    assert os.listdir(root) == []  # noqa: PTH208  # only names are wanted
    assert (await run(sandbox, "true")).result.notices == ()


async def test_a_git_directory_that_the_person_makes_is_kept_and_protected(
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
    assert "made anew because .git changed" in ran.result.notices[0]


async def test_a_masked_file_that_was_replaced_is_masked_again(make_sandbox: MakeSandbox, workspace_dir: Path) -> None:
    (workspace_dir / ".env").write_text("OLD=1\n")
    sandbox = await make_sandbox(workspace_dir)
    assert (await run(sandbox, "cat .env")).stdout == b""
    (workspace_dir / "new").write_text("NEWSECRET=1\n")
    (workspace_dir / "new").rename(workspace_dir / ".env")
    ran = await run(sandbox, "cat .env")
    assert ran.stdout == b""
    assert "made anew because .env changed" in ran.result.notices[0]
    assert "look like secrets (1): .env" in (await sandbox.start(lambda _: None)).warnings[0]


async def test_a_secret_that_appears_after_the_start_is_masked_before_the_next_command(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    assert (await run(sandbox, "true")).result.notices == ()
    (workspace_dir / "web").mkdir()
    (workspace_dir / "web/.env.local").write_text("CANARY=1\n")
    ran = await run(sandbox, "cat web/.env.local; grep -r CANARY .")
    assert ran.stdout == b""
    assert "made anew because web/.env.local changed" in ran.result.notices[0]
    assert (await run(sandbox, "true")).result.notices == ()


async def test_a_secret_that_cannot_be_masked_is_said_once_and_then_asked_about(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command("echo go; sleep 600", "job"), ran))
    await ran.printed(b"go")
    assert sandbox.exposed == ""
    (workspace_dir / ".env.local").write_text("CANARY=1\n")
    with pytest.raises(SandboxUnavailable, match=r"\.env\.local may hold secrets and cannot be hidden"):
        await run(sandbox, "grep -r CANARY .")
    assert sandbox.exposed == ".env.local may hold secrets and is not hidden"
    assert (await run(sandbox, "echo asked")).stdout == b"asked\n"
    task.cancel()
    await task
    assert (await run(sandbox, "grep -r CANARY .")).stdout == b""
    assert sandbox.exposed == ""


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


async def test_starting_twice_and_closing_twice_is_fine(make_sandbox: MakeSandbox, workspace_dir: Path) -> None:
    sandbox = await make_sandbox(workspace_dir)
    first, second = await asyncio.gather(sandbox.start(lambda _: None), sandbox.start(lambda _: None))
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
    assert await processes(sandbox, "sleep") == 0
