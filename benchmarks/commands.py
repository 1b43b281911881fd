"""Commands: what judging a line costs, what one costs through the product, and how fast one is
stopped."""

import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Figure, ms, workspace
from benchmarks.place import place
from benchmarks.served import CONTAINER, bash_turns, served
from codeagent.core.sandbox import Command, CommandResult, Sandbox
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.spec import SandboxSpec
from codeagent.tools.shell.syntax import command_key
from tests.security.everyday_commands import EVERYDAY
from tests.security.hostile_commands import HOSTILE

TIMES = 20
GIGABYTE = "head -c 1000000000 /dev/zero | tr '\\0' x"


def figures() -> Iterator[Figure]:
    yield _judging()
    with workspace() as root, tempfile.TemporaryDirectory() as state:
        rows: list[Figure] = []
        asyncio.run(_measure(root, Path(state), rows.append))
        yield from rows


def _judging() -> Figure:
    """What the whole decision about asking costs, over both corpora of the tests."""
    times = []
    for line in [*EVERYDAY, *HOSTILE] * 5:
        started = time.perf_counter()
        command_key.__wrapped__(line)
        times.append(time.perf_counter() - started)
    worst = sorted(times)[int(len(times) * 0.99)]
    return Figure("a command line judged, p99", f"{worst * 1000:.2f} ms", "-", None, "<= 5 ms")


async def _measure(root: Path, state: Path, add: Callable[[Figure], None]) -> None:
    spec = SandboxSpec(root=root, state_dir=state, session="bench", home=Path.home())
    sandbox = DockerSandbox(spec)
    started = time.monotonic()
    await sandbox.start(lambda _: None)
    start = time.monotonic() - started
    try:
        plain = await asyncio.to_thread(exec_true_of, "bench")
        add(Figure("sandbox ready", ms(start), f"docker exec true {ms(plain)}", start / plain, "-"))
        for name, wait, target in (
            ("", 0.3, "<= 12 ms, <= 0.2"),
            (", at once after the one before", 0.0, "<= 1.3"),
        ):
            ours = await asyncio.to_thread(_true, wait)
            beside = f"docker exec true {ms(plain)}"
            add(
                Figure(
                    f"bash true through the product{name}", ms(ours), beside, ours / plain, target
                )
            )
        for count, target in ((4, "-"), (8, "<= 40 ms")):
            batch = await _batch(sandbox, count)
            add(
                Figure(
                    f"{count} x true in a batch",
                    ms(batch),
                    f"docker exec true {ms(plain)}",
                    batch / plain,
                    target,
                )
            )
        stopped = await _stop(sandbox)
        add(
            Figure(
                "stop sleep 600 & setsid sleep 600",
                ms(stopped),
                f"docker exec true {ms(plain)}",
                None,
                "<= 250 ms",
            )
        )
        began = time.monotonic()
        await _run(sandbox, GIGABYTE)
        speed = 1000 / (time.monotonic() - began)
        add(Figure("1 GB of output", f"{speed:.0f} MB/s", "-", None, "-"))
    finally:
        await sandbox.close()


async def _run(sandbox: Sandbox, text: str) -> CommandResult:
    async def drop(stream: str, data: bytes) -> None:
        return None

    return await sandbox.run(Command(text, "bench"), drop)


def _true(wait: float) -> float:
    """Median seconds of a command in a headless run, whose model takes that long over each
    answer."""
    with place() as here:
        turns = [turn | {"wait": wait} for turn in bash_turns(TIMES, "true")]
        printed = served([*CONTAINER, "--output", "jsonl"], turns, here).done.stdout
    events = [json.loads(line) for line in printed.splitlines()]
    began, ended = (
        [float(event["ts"]) for event in events if event["type"] == kind]
        for kind in ("tool.started", "tool.finished")
    )
    return statistics.median(last - first for first, last in zip(began, ended, strict=True))


async def _batch(sandbox: Sandbox, count: int) -> float:
    """Median seconds of as many commands that begin at the same time in an idle container."""
    times = []
    for _ in range(5):
        await asyncio.sleep(0.3)
        started = time.monotonic()
        await asyncio.gather(*(_run(sandbox, "true") for _ in range(count)))
        times.append(time.monotonic() - started)
    return statistics.median(times)


async def _stop(sandbox: Sandbox) -> float:
    times = []
    for _ in range(5):
        task = asyncio.create_task(_run(sandbox, "sleep 600 & setsid sleep 600"))
        await asyncio.sleep(0.3)
        started = time.monotonic()
        task.cancel()
        result = await task
        times.append(time.monotonic() - started)
        assert result.stopped
    return statistics.median(times)


def exec_true_of(session: str) -> float:
    """Median seconds of `docker exec true` by the engine's own client, in the session's
    container."""
    command = ["docker", "ps", "-q", "--filter", f"label=codeagent.session={session}"]
    container = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[
        0
    ]
    times = []
    for _ in range(TIMES + 1):
        started = time.monotonic()
        subprocess.run(["docker", "exec", container, "true"], check=True)
        times.append(time.monotonic() - started)
    return statistics.median(times[1:])
