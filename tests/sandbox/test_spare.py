"""The spare: an exec that was started before its command, in a container in which nothing else runs
(ADR 17)."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.errors import SandboxLost
from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.exec import CallMark, Execution
from codeagent.sandbox.exec_stream import start_exec
from codeagent.sandbox.freeze import KEEPERS
from codeagent.sandbox.spare import Spare, Wrapper
from tests.effort import times
from tests.sandboxes import FORGED_END, Ran, opened, run, tell_the_word
from tests.spares import alone, container, inside, need_process_list, waiting

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
WHO = "read -r stat < /proc/$PPID/stat; set -- ${stat##*) }; echo ${20}"
"""Prints when the command's wrapper was started, in ticks since boot."""


@pytest_asyncio.fixture(loop_scope="module")
async def box(module_sandbox: DockerSandbox) -> DockerSandbox:
    """The shared sandbox, idle, on a machine that shows its containers' processes."""
    await module_sandbox.start(lambda _: None)
    need_process_list(module_sandbox)
    await module_sandbox.entrance()
    await intrude(module_sandbox, "kill -9 -1")
    await alone(module_sandbox)
    return module_sandbox


async def dies(pid: int) -> None:
    """Return once the process is gone: it leaves the container's list a moment before."""
    async with asyncio.timeout(30):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240  # nobody tells; it does not block
            await asyncio.sleep(0.001)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def first_started(pids: frozenset[int]) -> set[int]:
    stats = [Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split() for pid in pids]
    return {int(fields[19]) for fields in stats}


async def wrapper_of(spare: Spare) -> int:
    """The pid, on this machine, of the spare's wrapper."""
    wrapper = await asyncio.shield(spare._starting)
    assert wrapper is not None
    return int((await spare._engine.ask("GET", f"/exec/{wrapper.exec_id}/json"))["Pid"])


async def intrude(box: DockerSandbox, text: str) -> None:
    """Run a process that the sandbox does not know of, as a command's user, to its end."""
    engine, target = box._resources.opened()[1], box._default._target(container(box))
    _, stream = await start_exec(engine, target, ["bash", "-c", text])
    async for _ in stream.pieces():
        continue
    stream.close()


async def test_a_command_is_answered_by_a_process_that_was_there_before_it(
    box: DockerSandbox,
) -> None:
    await waiting(box)
    there = first_started(inside(box))
    assert int((await run(box, WHO)).stdout) in there


async def test_a_spare_is_used_once(box: DockerSandbox) -> None:
    first = await waiting(box)
    pid = await wrapper_of(first)
    await run(box, "true")
    second = await waiting(box)
    assert second is not first
    assert await wrapper_of(second) != pid
    await dies(pid)


async def test_one_of_two_commands_at_once_gets_the_spare_and_both_run_once(
    box: DockerSandbox,
) -> None:
    await waiting(box)
    ends = await asyncio.gather(
        *(run(box, f"echo x >> both; echo {number}") for number in range(2))
    )
    assert [ran.stdout for ran in ends] == [b"0\n", b"1\n"]
    assert (await run(box, "cat both; rm both")).stdout == b"x\nx\n"


async def test_there_is_no_spare_while_anything_is_left_running_until_it_is_gone(
    box: DockerSandbox,
) -> None:
    assert (await run(box, "env -i setsid -f sleep 900 > /dev/null 2>&1")).result.left_running == 1
    assert not await box._default.is_quiet()
    assert box._default._spare is None
    before = first_started(inside(box))
    ran = await run(box, WHO)
    assert int(ran.stdout) not in before, "it got an exec of its own"
    assert box._default._spare is None
    await run(box, "pkill -9 sleep")
    await waiting(box)


async def test_there_is_no_spare_after_what_says_that_nothing_is_left(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's list decides, not the wrapper's report."""
    tell_the_word(monkeypatch)
    hidden = "env -i setsid -f sleep 901 > /dev/null 2>&1"
    await run(box, f"{hidden}; {FORGED_END}; sleep 0.2; kill -9 $PPID")
    assert not await box._default.is_quiet()
    assert box._default._spare is None


async def test_a_spare_is_for_one_container_and_no_variables(box: DockerSandbox) -> None:
    other = await waiting(box)
    target = box._default._target(container(box))
    assert await other.take(target, ("HTTP_PROXY=x",)) is None
    box._default._spare = None
    await processes_are(box, KEEPERS)
    await run(box, "true")
    other = await waiting(box)
    box._default._spare = None
    assert await other.take(replace(target, user="65534:65534"), ()) is None
    await processes_are(box, KEEPERS)


async def processes_are(box: DockerSandbox, number: int) -> None:
    async with asyncio.timeout(30):
        while len(inside(box)) != number:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


async def test_commands_that_only_read_or_reach_hosts_have_none_of_the_others(
    box: DockerSandbox,
) -> None:
    spare = await waiting(box)
    assert (await box.run(Command("true", "call", read_only=True), Ran())).exit_code == 0
    assert (await box.run(Command("true", "call", hosts=("one.example",)), Ran())).exit_code == 0
    assert box._default._spare is spare
    assert [entry.container._spare for entry in box._egress._containers.values()] == [None]


async def test_a_shell_that_enters_ends_the_spare(box: DockerSandbox) -> None:
    await waiting(box)
    await box.entrance()
    assert box._default._spare is None
    await processes_are(box, KEEPERS)


async def test_a_container_that_is_replaced_takes_its_spare_along(box: DockerSandbox) -> None:
    spare = await waiting(box)
    pid = await wrapper_of(spare)
    secret = box.spec.root / ".env"
    secret.write_text("SECRET=1\n")
    ran = await run(box, "cat .env; echo x >> ran; cat ran; rm ran")
    secret.unlink()
    assert (ran.stdout, "replaced because .env changed" in ran.result.notices[0]) == (b"x\n", True)
    assert box._default._spare is not spare
    await dies(pid)


async def test_a_spare_dies_with_the_session(workspace_dir: Path, tmp_path: Path) -> None:
    async with opened(workspace_dir, tmp_path / "state") as sandbox:
        await run(sandbox, "true")
        pid = await wrapper_of(await waiting(sandbox))
    await dies(pid)


async def test_a_spare_is_not_a_reason_to_pause(box: DockerSandbox) -> None:
    await waiting(box)
    async with box.frozen():
        engine = box._resources.opened()[1]
        state = (await engine.ask("GET", f"/containers/{container(box).container_id}/json"))[
            "State"
        ]
    assert not state["Paused"]


@pytest.mark.parametrize("hostile", ["kill -9", "kill -STOP", "kill a relay", "stay", "imitate"])
async def test_what_meddles_with_the_spare_changes_no_result(
    box: DockerSandbox, hostile: str
) -> None:
    """By the rule it cannot be there; if it were, the command runs in an exec of its own, and
    once."""
    pid = await wrapper_of(await waiting(box))
    waiters = "pgrep -f '^bash --norc -c' | head -1"
    text = {
        "kill -9": f"kill -9 $({waiters})",
        "kill -STOP": f"kill -STOP $({waiters})",
        "kill a relay": "kill -9 $(pgrep -P 0 -x cat -u $UID | tail -1; pgrep -x cat -u $UID | tail -1)",
        "stay": "setsid -f sleep 902 > /dev/null 2>&1 < /dev/null",
        "imitate": f"kill -9 $({waiters}); exec -a bash setsid -f sleep 903 > /dev/null 2>&1 < /dev/null",
    }[hostile]
    before = inside(box)
    await intrude(box, text)
    async with asyncio.timeout(30):  # the positive control: what was done shows, a moment later
        while not (is_stopped(pid) if hostile == "kill -STOP" else inside(box) != before):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)
    ran = await run(box, "echo x >> ran; cat ran; rm ran; exit 3")
    assert (ran.stdout, ran.result.exit_code) == (b"x\n", 3)


async def test_a_spare_that_dies_with_the_command_in_hand_loses_it_and_it_is_not_run_again(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = await wrapper_of(await waiting(box))
    waits = Wrapper.waits

    async def then_is_stopped(wrapper: Wrapper) -> bool:
        answer = await waits(wrapper)
        os.kill(pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(0.2, os.kill, pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(Wrapper, "waits", then_is_stopped)
    with pytest.raises(SandboxLost, match="whether it took effect is unknown"):
        await run(box, "echo x >> ran")
    monkeypatch.undo()
    assert (await run(box, "cat ran")).result.exit_code == 1, "it ran neither then nor later"


async def test_a_spare_that_cannot_be_started_costs_nothing(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise SandboxLost("refused")

    monkeypatch.setattr(Wrapper, "start", refused)
    await box.entrance()
    await alone(box)
    assert box._default._spare is not None
    monkeypatch.undo()
    assert (await run(box, "echo here")).stdout == b"here\n"


async def test_what_waits_is_never_a_program_that_a_command_could_have_put_there(
    box: DockerSandbox,
) -> None:
    """Otherwise a program of the workspace would run, unasked, while nothing counts as running."""
    await run(
        box,
        "mkdir bin; printf '#!/bin/sh\ntouch planted; exec /bin/cat' | tee bin/cat > bin/bash; chmod +x bin/*",
    )
    target = box._default._target(container(box))
    writable = (
        f"{target.directory}/bin",
        "/home/agent/.local/bin",
        "/tmp/bin",
        "bin",
        "",
        "/usr/../tmp",
    )
    planted = replace(target, path=":".join((*writable, "/usr/bin", "/bin")))
    assert planted.safe_path == "/usr/bin:/bin"
    engine = box._resources.opened()[1]
    wrapper = await Wrapper.start(engine, planted)
    assert await wrapper.waits()
    assert not (box.spec.root / "planted").exists()
    ran = Ran()
    execution = await Execution.start(
        engine, planted, Command("echo $PATH; type -P cat", "call"), CallMark("ab" * 8, 10_000), ran
    )
    await execution.finish()
    await execution.close()
    wrapper.stream.close()
    assert (box.spec.root / "planted").exists(), (
        "the positive control: the command's own shell is the planted one"
    )
    (box.spec.root / "planted").unlink()
    await run(box, "rm -r bin")


SURROUNDINGS = """
env | grep -v ^_= | sort; pwd; umask; ulimit -a | grep -v -e 'file locks' -e 'max memory size'; cat; echo $?
set -- $(cut -d' ' -f5,6 /proc/self/stat); echo $(($1 == $2)) $(($1 == PPID)); readlink /proc/self/fd/0
ls /proc/self/fd | wc -w; grep -E '^(Sig[^Q]|Shd|Cap|NoNew|Seccomp|Uid|Gid|Groups)' /proc/self/status; echo $SHLVL $0 $#
tty; shopt; set -o; ulimit -aH | grep -v -e 'file locks' -e 'max memory size'; trap; jobs; alias; nice; kill -l
declare -p | sed -E 's/ (BASHPID|EPOCH[A-Z]*|S?RANDOM|SECONDS|PPID|_)=.*/ \\1/'; declare -F; compgen -v | wc -l
for fd in 0 1 2; do readlink /proc/$$/fd/$fd | tr -d 0-9; done; readlink /proc/$$/exe; ls -A /tmp ~; date +%Z
cat /proc/self/{oom_score_adj,timerslack_ns,coredump_filter,personality,cgroup}
tr '\\0' '\\n' < /proc/$PPID/environ | sort
grep -E '^(Sig[^Q]|Shd)' /proc/$PPID/status; bash -c 'kill -PIPE $$'; echo $?; bash -c 'kill -INT $$'; echo $?
"""


async def test_a_command_finds_the_same_around_it_with_a_spare_and_without(
    box: DockerSandbox,
) -> None:
    await waiting(box)
    warm = await run(box, SURROUNDINGS)
    await waiting(box)
    await box.entrance()
    await processes_are(box, KEEPERS)
    cold = await run(box, SURROUNDINGS)
    assert warm.stdout.splitlines() == cold.stdout.splitlines()
    assert b"/dev/null\n" in warm.stdout


async def test_every_text_arrives_as_it_was_given(box: DockerSandbox) -> None:
    for text in (
        "",
        " ",
        "\n",
        "printf größe-世界",
        "printf '%s' '\\x\\n  '  ",
        "echo a; \n\n",
        "# " + "ü" * 60_000,
    ):
        await waiting(box)
        ran = await run(
            box, f"{text}\nprintf '|%s' \"$BASH_EXECUTION_STRING\"" if len(text) < 100 else text
        )
        assert ran.result.exit_code == 0
        if len(text) < 100:
            assert f"|{text}\nprintf" in ran.stdout.decode()
    await waiting(box)
    assert (await run(box, "")).result.exit_code == 0


async def test_the_word_is_neither_in_a_command_line_nor_in_an_environment(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_the_word(monkeypatch)
    await waiting(box)
    look = "all=$(cat /proc/[0-9]*/{cmdline,environ} | tr '\\0' ' '); [[ $all == *${w}76543210* ]]; echo $?"
    assert (await run(box, f"w=fedcba98; {look}")).stdout == b"1\n"
    assert (await run(box, f"w=fedcba98; export W=${{w}}76543210; {look}")).stdout == b"0\n", (
        "the control"
    )


STOPPER = "until s=$(pgrep -P $PPID -x bash | grep -v $$); do :; done"
"""In a command: finds the process that waits to be told to stop it."""


@pytest.mark.parametrize(
    "meddle", ["true", "kill -9 $s", "kill -STOP $s", "kill -9 $PPID", "kill -STOP $PPID"]
)
async def test_a_stop_leaves_nothing_whatever_became_of_the_wrapper(
    box: DockerSandbox, meddle: str
) -> None:
    await waiting(box)
    ran = Ran()
    text = f"{STOPPER}; setsid -f sleep 904; {meddle}; echo go; exec sleep 904"
    task = asyncio.create_task(box.run(Command(text, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    assert (await task).stopped
    await processes_are(box, KEEPERS)
    assert (await run(box, "echo alive")).stdout == b"alive\n"


async def test_a_command_that_says_it_was_stopped_is_stopped_all_the_same(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_the_word(monkeypatch)
    await waiting(box)
    ran = Ran()
    lie = "printf '\\0fedcba9876543210 stopping\\n\\0fedcba9876543210 stopped 1 0 0\\n' >&2"
    text = f"{STOPPER}; kill -9 $s; {lie}; trap '' TERM; echo go; while :; do sleep 0.1; done"
    task = asyncio.create_task(box.run(Command(text, "call"), ran))
    await ran.printed(b"go")
    task.cancel()
    result = await task
    assert result.stopped
    await processes_are(box, KEEPERS)


@pytest.mark.soak(tried=times(20))
async def test_commands_in_quick_succession_each_run_once(box: DockerSandbox) -> None:
    for number in range(times(20)):
        ran = await run(box, f"echo x >> quick; grep -c x quick; exit {number % 5}")
        assert (ran.stdout, ran.result.exit_code) == (b"%d\n" % (number + 1), number % 5)
    await run(box, "rm quick")
