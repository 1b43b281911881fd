"""Which processes belong to a command, whatever they say of themselves."""

import asyncio
from pathlib import Path

import pytest

from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.effort import times
from tests.sandboxes import FORGED_END, Ran, opened, processes, run, tell_the_word

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
DISGUISES = {
    "none": "setsid {it} &",
    "a relay": "env CODEAGENT_CALL=zz/relay setsid -f {it};",
    "nobody": "env -i setsid -f {it};",
    "another call": "env CODEAGENT_CALL=0123456789abcdef setsid -f {it};",
    "one limit lowered": "bash -c 'ulimit -x 1000; exec setsid -f {it}';",
    "the other limit lowered": "bash -c 'ulimit -m 1000; exec setsid -f {it}';",
    "both limits lowered": "bash -c 'ulimit -x 1 -m 1; exec setsid -f {it}';",
}


def disguised(seconds: int) -> tuple[str, dict[str, str]]:
    """A command that starts a process in each disguise and waits until all live; their command
    lines by disguise."""
    lines = {disguise: f"sleep {number}" for number, disguise in enumerate(DISGUISES, seconds)}
    starts = [
        DISGUISES[disguise].format(it=f'bash -c "touch alive-{line[6:]}; exec {line}"')
        for disguise, line in lines.items()
    ]
    waits = [f"until [ -e alive-{line[6:]} ]; do sleep 0.02; done;" for line in lines.values()]
    return " ".join([*starts, *waits]), lines


async def living(box: DockerSandbox, lines: dict[str, str]) -> set[str]:
    return {disguise for disguise, line in lines.items() if await processes(box, line)}


@pytest.fixture
def box(module_sandbox: DockerSandbox) -> DockerSandbox:
    return module_sandbox


async def test_no_process_hides_from_a_stop_whatever_it_calls_itself(box: DockerSandbox) -> None:
    other, ran = Ran(), Ran()
    beside = asyncio.create_task(box.run(Command("echo beside; sleep 600", "other"), other))
    await other.printed(b"beside")
    start, lines = disguised(700)
    task = asyncio.create_task(box.run(Command(f"{start} echo go; sleep 600", "call"), ran))
    await ran.printed(b"go")
    assert await living(box, lines) == DISGUISES.keys(), "the positive control: they are there"
    task.cancel()
    result = await task
    assert result.stopped and result.killed >= len(DISGUISES)
    assert await living(box, lines) == set()
    assert not beside.done(), "the command beside it goes on"
    beside.cancel()
    await beside


async def test_what_a_command_leaves_running_is_counted_whatever_it_calls_itself(
    box: DockerSandbox,
) -> None:
    start, lines = disguised(800)
    left = (await run(box, start)).result.left_running
    alive = await living(box, lines)
    await run(box, "kill -9 -1")  # what lowered a limit would count for every later command
    assert alive == DISGUISES.keys() and await living(box, lines) == set()
    assert left >= len(DISGUISES), "one that is just ending may count, too"


@pytest.mark.soak(tried=times(8))
async def test_a_plain_command_leaves_nothing_running_however_late_its_relays_start(
    box: DockerSandbox,
) -> None:
    busy = asyncio.create_task(
        box.run(Command("for i in 1 2 3 4; do (while :; do :; done) & done; wait", "b"), Ran())
    )
    results = await asyncio.gather(*(run(box, "true") for _ in range(times(8))))
    busy.cancel()
    await busy
    assert {ran.result.left_running for ran in results} == {0}


async def test_a_command_cannot_take_the_number_of_another_call(box: DockerSandbox) -> None:
    """They are kept in limits that only go down: an older call's number is out of reach, and so is
    a later one's."""
    first = await run(box, "grep -E 'file locks|resident' /proc/self/limits")
    locks, resident = (line.split()[-2] for line in first.stdout.decode().splitlines()[::-1])
    ran = await run(
        box, f"ulimit -x {locks}; echo $?; ulimit -m {int(resident) // 1024 + 2}; echo $?"
    )
    assert ran.stdout == b"1\n1\n", "both raise a limit"


async def test_what_hides_in_a_container_with_a_way_out_does_not_see_the_next_credential(
    workspace_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_the_word(monkeypatch)
    look = (
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\\\0' '\\\\n' | grep -a http_proxy >> stolen"
    )
    steal = f"while sleep 0.02; do {look}; done"
    forged = f"{FORGED_END}; sleep 0.3; kill -9 $PPID"
    async with opened(workspace_dir, tmp_path / "state") as sandbox:
        for hide in ("true", forged):
            thief = f'unset http_proxy; env CODEAGENT_CALL=zz/relay setsid bash -c "{steal}" &> /dev/null & sleep 0.3'
            await sandbox.run(Command(f"{thief}; {hide}", "call", hosts=("one.example",)), Ran())
        (workspace_dir / "stolen").unlink(missing_ok=True)
        ran = Ran()
        await sandbox.run(
            Command("echo $http_proxy; sleep 0.4; cat stolen", "call", hosts=("one.example",)), ran
        )
        assert ran.stdout.startswith(b"http://")
        assert not (workspace_dir / "stolen").exists()
