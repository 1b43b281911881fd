"""Whenever a process of a batch is killed or the engine goes away, no task is lost or done twice, and
nothing is left behind."""

import asyncio
import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from tests.e2e.product import Product, bash, calls, of, say
from tests.e2e.test_batch import Batch, workers
from tests.effort import chance, part, up_to
from tests.faults.test_sandbox_lost import SOCKET, Door
from tests.warm import WarmProcess

KNOWN = re.compile(r"(one|two|results|state|config|node-\d+)(/|$)|tasks\.jsonl|script-\d+\.json")
"""What belongs in the folder of a test, which is also its folder for temporary files."""
DIED = "its process died 3 times"
"""The one way in which a task may fail here: chance may kill the processes of one task each time."""


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    product = Product(tmp_path / "work", tmp_path / "home")
    product.workspace.mkdir()
    product.home.mkdir()
    return Batch(product)


def fill(batch: Batch, number: int, *, waits: str = "sleep 0.1") -> None:
    """Write tasks that share one script and differ in their prompts."""
    model = batch.product.script(calls(bash(f"{waits}; echo mine >> a.txt")), say("done"))
    check = "grep -q mine a.txt"
    batch.write(*(batch.task(each, check=check) | {"model": model} for each in range(number)))


def start(batch: Batch, *more: str, slots: int = 4) -> WarmProcess:
    return batch.product.start(*batch.words, "--slots", str(slots), *more)


def ended(process: WarmProcess) -> None:
    """Wait for a batch that ends by itself."""
    _, said = process.communicate(timeout=600)
    assert process.returncode in (0, 1), said
    assert re.search(r"\d of \d+ passed", said), said


def killed(process: WarmProcess) -> None:
    process.kill()
    process.communicate(timeout=60)


def points(dice: random.Random, number: int, kills: int) -> list[int]:
    """The numbers of ended tasks after which something is killed: spread over the batch, however fast
    it is."""
    return sorted(dice.randrange(max(1, number - 4)) for _ in range(kills))


def comes_to(batch: Batch, process: WarmProcess, point: int) -> bool:
    """Wait until so many tasks have ended; False if the batch has ended as well."""
    records = batch.results / "results.jsonl"
    deadline = time.monotonic() + 300
    while process.poll() is None:
        if records.exists() and records.read_bytes().count(b"\n") >= point:
            return True
        assert time.monotonic() < deadline, "no task ends"
        time.sleep(0.02)
    return False


def what_broke(batch: Batch, number: int) -> Iterator[str]:
    """Name what was lost, done twice, recorded only in part or left behind."""
    records = batch.records
    often = Counter(record["key"] for record in records)
    if len(often) != number:
        yield f"{len(often)} of {number} tasks have a record"
    if twice := [key for key, times in often.items() if times > 1]:
        yield f"these have two: {twice}"
    for record in records:
        if json.loads((batch.results / record["key"] / "record.json").read_text()) != record:
            yield f"its two records differ: {record['key']}"
        if DIED in record["error"]:
            continue
        if (record["state"], record["attempt"]) != ("passed", 1):
            yield f"it is not done: {record}"
            continue
        ends = [end["reason"] for end in of(batch.log(record), "run.finished")]
        if ends.count("done") != 1 or set(ends) > {"done", "interrupted"}:
            yield f"it was done twice: {record['key']}: {ends}"
        if "+mine" not in batch.patch(record) or "a/a.txt" not in batch.patch(record):
            yield f"its patch is not there: {record['key']}"
    yield from what_is_left(batch)


def what_is_left(batch: Batch) -> Iterator[str]:
    """Name the processes, mounts, containers, working copies and temporary files that are left."""
    yield from left_running(home := batch.product.home)
    for pattern in ("*/copy", "*/patch.git", "begun/*", "running.json"):
        yield from (f"left: {path}" for path in batch.results.glob(pattern))
    for path in home.rglob("*"):
        name = path.relative_to(home)
        unfinished = path.name.endswith((".tmp", ".new")) or path.name.startswith("tmp")
        locks_git = path.name.endswith(".lock") and ".git" in str(name.parent)
        if unfinished or locks_git or not KNOWN.match(str(name)):
            yield f"left: {name}"


def left_running(home: Path) -> list[str]:
    """The processes, mounts and containers of a folder that are still there after a minute: what a
    killed process left is ended by others."""
    deadline = time.monotonic() + 60
    while (found := [*_left(home)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _left(home: Path) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes()
            if os.fsencode(home) in line or str(process.joinpath("cwd").readlink()).startswith(
                str(home)
            ):
                yield f"a process: {line!r}"
    mounts = Path("/proc/mounts").read_text().splitlines()
    yield from (f"a mount: {line}" for line in mounts if str(home) in line)
    if Path(SOCKET).exists():
        with closing(Engine(engine_socket(None))) as engine:
            said = json.dumps(engine.call("GET", "/containers/json", {"all": "1"}))
            if str(home) in said:
                yield "a container"


def kill_driver(batch: Batch, sandbox: str, dice: random.Random, at: list[int]) -> int:
    """Kill the batch itself at these points, and begin again each time."""
    for number, point in enumerate(at):
        process = start(batch, "--sandbox", sandbox)
        if not comes_to(batch, process, point):
            ended(process)
            return number
        time.sleep(dice.uniform(0, 2.5))  # from its start on, if the point was reached before
        killed(process)
    return len(at)


def kill_workers(batch: Batch, sandbox: str, dice: random.Random, at: list[int]) -> int:
    """Kill a process that works on a task at each of these points."""
    number, process = 0, start(batch, "--sandbox", sandbox)
    for point in at:
        if not comes_to(batch, process, point):
            break
        time.sleep(dice.uniform(0, 1.0))
        with suppress(OSError):  # it has just ended
            if found := workers(process.pid):
                os.kill(dice.choice(found), signal.SIGKILL)
                number += 1
    ended(process)
    return number


Kill = Callable[[Batch, str, random.Random, list[int]], int]


@pytest.mark.soak(row="kills of batches")
@pytest.mark.parametrize("kill", [kill_driver, kill_workers])
def test_a_batch_whose_processes_are_killed_does_each_task_once(
    batch: Batch, kill: Kill, tried: Callable[[int], None]
) -> None:
    fill(batch, number := up_to(4, 100))
    dice = chance(kill.__name__)
    tried(kill(batch, "off", dice, points(dice, number, up_to(2, 60))))
    ended(start(batch, "--sandbox", "off"))
    assert [*what_broke(batch, number)] == []


@pytest.mark.docker
@pytest.mark.soak(row="kills of batches")
@pytest.mark.parametrize("kill", part([kill_driver, kill_workers], 1))
def test_no_container_is_left_of_a_batch_whose_processes_are_killed(
    batch: Batch, kill: Kill, tried: Callable[[int], None]
) -> None:
    fill(batch, number := up_to(3, 24))
    dice = chance(f"docker {kill.__name__}")
    tried(kill(batch, "docker", dice, points(dice, number, up_to(1, 15))))
    ended(start(batch, "--sandbox", "docker"))
    assert [*what_broke(batch, number)] == []


@pytest.mark.docker
@pytest.mark.soak(row="kills of batches")
def test_while_the_engine_is_away_no_task_begins_and_none_is_lost(
    batch: Batch, tmp_path: Path, tried: Callable[[int], None]
) -> None:
    fill(batch, number := up_to(3, 100))
    door, dice = Door(tmp_path / "e.sock"), chance("engine of a batch")
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def now(what: Callable[[], object]) -> None:
        done = asyncio.run_coroutine_threadsafe(_called(what), loop)
        done.result(timeout=60)

    now(door.open)
    environment = batch.product.environment | {"DOCKER_HOST": f"unix://{door.path}"}
    words = (*batch.words, "--sandbox", "docker", "--slots", "4")
    process = batch.product.start(*words, env=environment)
    shut = 0
    for point in points(dice, number, up_to(1, 55)):
        if not comes_to(batch, process, point):
            break
        time.sleep(dice.uniform(0, 1.0))
        now(door.shut)
        time.sleep(dice.uniform(0, 1.5))
        now(door.open)
        shut += 1
    ended(process)
    tried(shut)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    assert len({record["key"] for record in batch.records}) == len(batch.records) == number
    for record in batch.records:  # a command that lost its container failed, as in any run
        assert record["state"] in ("passed", "failed", "denied") or record["error"], record
        if record["state"] == "passed":
            assert "+mine" in batch.patch(record)
    assert [*what_is_left(batch)] == []


async def _called(what: Callable[[], object]) -> None:
    result = what()
    if asyncio.iscoroutine(result):
        await result
