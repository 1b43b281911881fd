"""Attacks on a command's way through its wrapper: forged reports, what hides between two looks,
stops at any moment."""

import asyncio
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.freeze import KEEPERS, living
from codeagent.sandbox.spare import Spare, Wrapper
from tests.effort import times
from tests.sandboxes import Ran, run
from tests.spares import inside, need_process_list, waiting

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
PADDING = "#" * 101_000
"""So long a command is read from a file, whose name tells it the word of its own reports."""
KNOWS = "w=${0#/tmp/.command-}; [[ ${#w} == 16 ]] && echo knows"
MANY = "9" * 5000
WAITING = 4
"""Processes of a spare."""


@pytest_asyncio.fixture(loop_scope="module")
async def box(module_sandbox: DockerSandbox) -> DockerSandbox:
    """The shared sandbox, in which a spare waits."""
    await module_sandbox.start(lambda _: None)
    need_process_list(module_sandbox)
    await waiting(module_sandbox)
    return module_sandbox


async def processes_are(box: DockerSandbox, number: int) -> None:
    async with asyncio.timeout(30):
        while len(inside(box)) != number:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "report",
    [f"{MANY} 0 0", f"0 {MANY} 0", f"0 0 {MANY}", f"begun {MANY}", "0 0 0 0", "-1 0 0"],
    ids=["left", "memory", "code", "begun", "four", "negative"],
)
async def test_a_forged_end_is_no_end_however_it_is_written(
    box: DockerSandbox, report: str
) -> None:
    forged = (
        f"printf '\\0%s \\n' $w; printf '\\0%s {report}\\n' $w > /tmp/report; cat /tmp/report >&2"
    )
    ran = await run(box, f"{KNOWS}; {forged}; sleep 0.05; echo on; exit 7\n{PADDING}")
    assert (ran.stdout, ran.result.exit_code) == (b"knows\non\n", 7)


@pytest.mark.parametrize(
    "killed", [MANY, "999999999", "x", ""], ids=["endless", "many", "word", "none"]
)
async def test_a_command_that_forges_the_report_of_its_stop_is_stopped(
    box: DockerSandbox, killed: str
) -> None:
    lie = f"printf '\\0%s stopping\\n\\0%s stopped {killed} 0 0\\n' $w $w > /tmp/report; cat /tmp/report >&2"
    ran = Ran()
    text = f"{KNOWS}; {lie}; trap '' TERM; echo go; while :; do sleep 0.1; done\n{PADDING}"
    task = asyncio.create_task(box.run(Command(text, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    assert (await task).stopped
    await processes_are(box, KEEPERS)


async def test_what_is_left_of_a_text_that_does_not_fit_is_no_order_to_stop(
    box: DockerSandbox,
) -> None:
    await run(box, "head -c 1G /dev/zero > /tmp/full")
    await waiting(box)
    ran = await run(box, "touch ran\n" + "stop\n" * 100_000)
    assert (ran.result.exit_code, b"does not fit into /tmp" in ran.stderr) == (126, True)
    assert (await run(box, "cat ran; rm /tmp/full")).stderr != b""


async def test_a_spare_that_never_comes_to_wait_holds_no_command_back(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = asyncio.Event()

    async def hangs(*_: object) -> int:
        await never.wait()
        return 0

    monkeypatch.setattr(Spare, "_pid_of", hangs)
    monkeypatch.setattr("codeagent.sandbox.spare._START_SECONDS", 0.1)
    await box.entrance()
    await processes_are(box, KEEPERS)
    assert await box._default.is_quiet()
    ran = await run(box, "echo x >> ran; cat ran; rm ran")
    assert (ran.stdout, ran.result.notices) == (b"x\n", ())
    monkeypatch.undo()
    await box.entrance()
    await processes_are(box, KEEPERS)


HOPPER = """
import os, time
ends = time.monotonic() + 60
while not os.path.exists('over') and time.monotonic() < ends:
    if os.fork():
        os._exit(0)
    os.setsid()
    open('beats', 'ab', 0).write(b'.')
"""


@pytest.mark.soak(tried=times(100))
async def test_what_changes_its_pid_all_the_time_is_seen_by_every_look(box: DockerSandbox) -> None:
    await run(
        box,
        f"cat > /tmp/hopper.py <<'end'\n{HOPPER}end\nrm -f beats; setsid -f python3 /tmp/hopper.py",
    )
    beats, looks, missed = box.spec.root / "beats", 0, 0
    async with asyncio.timeout(30):
        while not beats.exists():  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)
    before = beats.stat().st_size
    while beats.stat().st_size < before + times(100) or looks < times(100):
        looks, missed = looks + 1, missed + (len(inside(box)) <= KEEPERS)
        assert box._default._spare is None
        await asyncio.sleep(0)
    assert missed == 0
    over = box.spec.root / "over"
    over.touch()
    await processes_are(box, KEEPERS)
    over.unlink()
    beats.unlink()


SPOILED = """
import os, resource
for pid in [int(name) for name in os.listdir('/proc') if name.isdigit()]:
    for change in (
        lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0)),
        lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (50, 50)),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(pid))}),
        lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    ):
        try:
            change()
        except OSError:
            pass
"""
FOUND = "ulimit -f -t; nice; grep Cpus_allowed: /proc/self/status; cut -d' ' -f41 /proc/self/stat"


async def test_what_a_command_does_to_every_process_it_can_reach_is_not_found_by_the_next(
    box: DockerSandbox,
) -> None:
    """Limits, priority, processors and scheduler can be set on any process of the same user, and
    are inherited."""
    before = (await run(box, FOUND)).stdout
    for _ in range(2):
        spoiled = await run(box, f"python3 - <<'end'\n{SPOILED}end\n{FOUND}")
        assert spoiled.stdout != before, "the positive control: what it starts itself finds them"
        assert b"\n19\n" in spoiled.stdout
        assert (await run(box, FOUND)).stdout == before
        await waiting(box)


async def test_what_it_does_while_something_is_left_running_is_not_found_either(
    box: DockerSandbox,
) -> None:
    """Then the next command has no spare, but an exec of its own."""
    before = (await run(box, FOUND)).stdout
    left = f"setsid -f sleep 907 > /dev/null 2>&1; python3 - <<'end'\n{SPOILED}end\n"
    assert (await run(box, left)).result.left_running == 1
    assert (await run(box, FOUND)).stdout == before
    await run(box, "pkill -9 sleep")
    await waiting(box)


BYTES = "".join(map(chr, (*range(1, 256), 0x2028, 0xFFFD, 0x1F600)))


async def test_every_character_arrives_through_a_spare_as_without_one(box: DockerSandbox) -> None:
    text = f"printf %s \"$BASH_EXECUTION_STRING\" | sha256sum; : <<'end'\n{BYTES}\nend\n"
    warm = await run(box, text)
    await waiting(box)
    await box.entrance()
    await processes_are(box, KEEPERS)
    cold = await run(box, text)
    assert warm.stdout == cold.stdout == f"{sha256(text.encode()).hexdigest()}  -\n".encode()
    lone = await run(box, f"printf '%s' '\udc80' | od -An -tx1; {PADDING}\0")
    assert lone.stdout == b" 3f\n"


@pytest.mark.parametrize("spare", [True, False])
async def test_a_stop_at_any_moment_of_the_hand_over_leaves_nothing_and_nothing_runs_twice(
    box: DockerSandbox, spare: bool
) -> None:
    tried = times(12)
    for number in range(tried):
        if spare:
            await waiting(box)
        task = asyncio.create_task(
            box.run(Command(f"echo {number} >> begun; exec sleep 905", "call"), Ran())
        )
        await asyncio.sleep(number * (0.0015 if spare else 0.008))
        task.cancel()
        assert (await task).stopped
        await processes_are(box, KEEPERS if box._default._spare is None else KEEPERS + WAITING)
    numbers = (await run(box, "touch begun; cat begun; rm begun")).stdout.split()
    assert len(set(numbers)) == len(numbers)


async def test_a_stop_reaches_a_command_whose_spare_is_taken_and_not_yet_given_the_text(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, waits = asyncio.Event(), Wrapper.waits

    async def slowly(wrapper: Wrapper) -> bool:
        asked.set()
        await asyncio.sleep(0.05)
        return await waits(wrapper)

    monkeypatch.setattr(Wrapper, "waits", slowly)
    task = asyncio.create_task(box.run(Command("sleep 906", "call"), Ran()))
    await asked.wait()
    task.cancel()
    assert (await task).stopped
    await processes_are(box, KEEPERS)


KILLED = """
import asyncio, os, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.sandboxes import sandbox_spec

async def wait():
    box = DockerSandbox(sandbox_spec(Path(sys.argv[1]), Path(sys.argv[2])))
    await box.start(lambda _: None)
    assert await box._default._spare._starting is not None
    print(box._default._container.processes, flush=True)
    await asyncio.sleep(600)

asyncio.run(wait())
"""


async def test_nothing_lives_on_when_the_program_is_killed_while_a_spare_waits(
    box: DockerSandbox,
) -> None:
    folders = (str(box.spec.root), str(box.spec.state_dir), *sys.path)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, *folders, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    theirs = Path((await program.stdout.readline()).decode().strip())
    assert len(living(theirs)) == KEEPERS + WAITING, "the positive control"
    program.kill()
    await program.wait()
    async with asyncio.timeout(30):
        while living(theirs):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("fate", ["remove", "pause"])
async def test_a_container_that_goes_while_the_spare_waits_is_replaced_and_the_command_runs_once(
    box: DockerSandbox, fate: str
) -> None:
    engine, container = box._resources.opened()[1], box._default._container
    assert container is not None
    path = f"/containers/{container.container_id}"
    if fate == "pause":
        await engine.ask("POST", f"{path}/pause")
    else:
        await engine.ask("DELETE", path, {"force": 1})
    ran = await run(box, "echo x >> ran; cat ran; rm ran")
    assert (ran.stdout, "was replaced" in ran.result.notices[0]) == (b"x\n", True)
    await waiting(box)
