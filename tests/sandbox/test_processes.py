"""Which processes belong to a command, whatever they say of themselves (SECURITY.md T43, R32)."""

import asyncio
from pathlib import Path

import pytest

from codeagent.core.ports import Command, CommandResult
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.sandboxes import WRAPPERS_WORD, Ran, run, sandbox_spec

pytestmark = pytest.mark.docker
LOOP = "bash -c 'while :; do touch alive; sleep 0.05; done'"
LIVES = "until [ -e alive ]; do sleep 0.02; done;"
QUOTED = LOOP.replace("'", '"')
DISGUISES = {
    "none": f"setsid {LOOP} &",
    "a relay": f"env CODEAGENT_CALL=zz/relay setsid -f {LOOP};",
    "nobody": f"env -i setsid -f {LOOP};",
    "another call": f"env CODEAGENT_CALL=0123456789abcdef setsid -f {LOOP};",
    "one limit lowered": f"bash -c 'ulimit -x 1000; exec setsid -f {QUOTED}';",
    "the other limit lowered": f"bash -c 'ulimit -m 1000; exec setsid -f {QUOTED}';",
    "both limits lowered": f"bash -c 'ulimit -x 1 -m 1; exec setsid -f {QUOTED}';",
}


async def loops(sandbox: DockerSandbox) -> int:
    """How many of the loops live."""
    ran = await run(sandbox, "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null")
    return sum(line.startswith(b"bash -c while") for line in ran.stdout.splitlines())


async def stopped(sandbox: DockerSandbox, text: str) -> CommandResult:
    """Cancel the command once it has printed `go`."""
    ran = Ran()
    task = asyncio.create_task(sandbox.run(Command(text, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    return await task


async def test_no_process_hides_from_a_stop_whatever_it_calls_itself(
    sandbox: DockerSandbox, workspace_dir: Path
) -> None:
    other = Ran()
    beside = asyncio.create_task(sandbox.run(Command("echo beside; sleep 600", "other"), other))
    await other.printed(b"beside")
    for disguise, start in DISGUISES.items():
        (workspace_dir / "alive").unlink(missing_ok=True)
        result = await stopped(sandbox, f"{start} {LIVES} echo go; sleep 600")
        assert result.stopped and result.killed >= 2, disguise
        assert await loops(sandbox) == 0, disguise
        assert not beside.done(), "the command beside it goes on"
    beside.cancel()
    await beside


async def test_what_a_command_leaves_running_is_counted_whatever_it_calls_itself(sandbox: DockerSandbox) -> None:
    for alive, (disguise, start) in enumerate(DISGUISES.items(), 1):
        # A file for each: those that live already go on touching theirs.
        ran = await run(sandbox, f"{start} {LIVES}".replace("alive", f"alive{alive}"))
        assert ran.result.left_running >= 1, disguise
        # A loop that forks just now is there twice.
        assert await loops(sandbox) >= alive, "the positive control: it is there"


async def test_a_plain_command_leaves_nothing_running_however_late_its_relays_start(sandbox: DockerSandbox) -> None:
    busy = asyncio.create_task(
        sandbox.run(Command("for i in 1 2 3 4; do (while :; do :; done) & done; wait", "b"), Ran())
    )
    results = await asyncio.gather(*(run(sandbox, "true") for _ in range(24)))
    busy.cancel()
    await busy
    assert {ran.result.left_running for ran in results} == {0}


async def test_a_command_cannot_take_the_number_of_another_call(sandbox: DockerSandbox) -> None:
    """They are kept in limits that only go down: an older call's number is out of reach, and so is a later one's."""
    first = await run(sandbox, "grep -E 'file locks|resident' /proc/self/limits")
    locks, resident = (line.split()[-2] for line in first.stdout.decode().splitlines()[::-1])
    ran = await run(sandbox, f"ulimit -x {locks}; echo $?; ulimit -m {int(resident) // 1024 + 2}; echo $?")
    assert ran.stdout == b"1\n1\n", "both raise a limit"


async def test_what_hides_in_a_container_with_a_way_out_does_not_see_the_next_credential(
    workspace_dir: Path, tmp_path: Path
) -> None:
    sandbox = DockerSandbox(sandbox_spec(workspace_dir, tmp_path / "state"))
    steal = "while :; do cat /proc/[0-9]*/environ 2>/dev/null | tr '\\\\0' '\\\\n' | grep -a http_proxy >> stolen; done"
    forged = f"{WRAPPERS_WORD} printf '\\0%s \\n' $word; printf '\\0%s 0 0\\n' $word >&2; sleep 0.3; kill -9 $PPID"
    try:
        await sandbox.start(lambda _: None)
        for hide in ("true", forged):
            thief = f'unset http_proxy; env CODEAGENT_CALL=zz/relay setsid bash -c "{steal}" &> /dev/null & sleep 0.3'
            await sandbox.run(Command(f"{thief}; {hide}", "call", hosts=("one.example",)), Ran())
        (workspace_dir / "stolen").unlink(missing_ok=True)
        ran = Ran()
        await sandbox.run(Command("echo $http_proxy; sleep 1; cat stolen", "call", hosts=("one.example",)), ran)
        assert ran.stdout.startswith(b"http://")
        assert not (workspace_dir / "stolen").exists()
    finally:
        await sandbox.close()
