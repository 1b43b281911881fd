"""Whenever a process of a batch is killed, or the engine goes away, no task is lost or done twice, and
nothing is left."""

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

from codeagent.sandbox.engine import Engine, reap
from codeagent.sandbox.engine_socket import engine_socket
from tests.e2e.product import Product, bash, calls, of, say
from tests.e2e.test_batch import Batch, workers
from tests.effort import chance, up_to
from tests.faults.test_sandbox_lost import SOCKET, Door
from tests.warm import WarmProcess

DIED = "its process died 3 times"
"""The one way in which a task may fail here: a process that is killed may be its own each time."""


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    product = Product(tmp_path / "work", tmp_path / "home")
    product.workspace.mkdir()
    product.home.mkdir()
    return Batch(product)


def fill(batch: Batch, number: int, *, check: str = "grep -q mine a.txt") -> None:
    """Write tasks that share one script: each says which one it is."""
    model = batch.product.script(calls(bash("sleep 0.1; echo mine >> a.txt")), say("done"))
    batch.write(*(batch.task(each, check=check) | {"model": model} for each in range(number)))


def start(batch: Batch, sandbox: str, slots: int = 4) -> WarmProcess:
    return batch.product.start(*batch.words, "--sandbox", sandbox, "--slots", str(slots))


def ended(process: WarmProcess) -> int:
    process.communicate(timeout=600)
    return process.returncode


def what_broke(batch: Batch, number: int) -> Iterator[str]:
    """What was lost, done twice, half recorded or left behind."""
    records = batch.records
    often = Counter(record["key"] for record in records)
    if len(often) != number:
        yield f"{len(often)} of {number} tasks have a record"
    if twice := [key for key, times in often.items() if times > 1]:
        yield f"these have two: {twice}"
    for record in records:
        if DIED in record["error"]:
            continue
        if (record["state"], record["attempt"]) != ("passed", 1):
            yield f"it is not done: {record}"
            continue
        ends = [end["reason"] for end in of(batch.log(record), "run.finished")]
        if ends.count("done") != 1 or set(ends) > {"done", "interrupted"}:
            yield f"it was done twice: {record['key']}: {ends}"
        if "+mine" not in batch.patch(record):
            yield f"its patch is not there: {record['key']}"
        if json.loads((batch.results / record["key"] / "record.json").read_text()) != record:
            yield f"its two records differ: {record['key']}"
    for pattern in ("*/copy", "*/patch.git", "begun/*", "running.json", ".*.tmp", "*/.*.tmp"):
        yield from (f"left: {path}" for path in batch.results.glob(pattern))
    mirrors = batch.product.home.glob("state/codeagent/mirrors/*")
    yield from (f"left: {path}" for path in mirrors if path.suffix not in (".git", ".lock"))
    yield from left_running(batch.product.home)


def left_running(home: Path) -> list[str]:
    """What is still there of the processes, mounts and containers below a folder after a while: what
    was killed is ended by others."""
    deadline = time.monotonic() + 30
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
            reap(engine)
            said = json.dumps(engine.call("GET", "/containers/json", {"all": "1"}))
            if re.search(re.escape(str(home)), said):
                yield "a container"


def kill_driver(batch: Batch, sandbox: str, dice: random.Random, kills: int) -> int:
    """Kill the batch itself, and begin again, so often or until it is done."""
    killed, span = 0, 2.0
    while killed < kills:
        process = start(batch, sandbox)
        time.sleep(dice.uniform(0, span))
        if process.poll() is not None:
            break
        process.kill()
        process.communicate(timeout=60)
        killed += 1
        span = min(span * 1.05, 5.0)
    return killed


def kill_workers(batch: Batch, sandbox: str, dice: random.Random, kills: int) -> int:
    """Kill processes that work on tasks, so often or until the batch is done."""
    killed, process = 0, start(batch, sandbox)
    while process.poll() is None and killed < kills:
        time.sleep(dice.uniform(0, 2.5))
        with suppress(OSError):
            if found := workers(process.pid):
                os.kill(dice.choice(found), signal.SIGKILL)
                killed += 1
    ended(process)
    return killed


@pytest.mark.soak(row="kills of batches")
@pytest.mark.parametrize("kill", [kill_driver, kill_workers])
def test_a_batch_whose_processes_are_killed_does_each_task_once(
    batch: Batch,
    kill: Callable[[Batch, str, random.Random, int], int],
    tried: Callable[[int], None],
) -> None:
    fill(batch, number := up_to(4, 100))
    dice = chance(kill.__name__)
    killed = kill(batch, "off", dice, up_to(2, 50))
    ended(start(batch, "off"))
    tried(killed)
    assert [*what_broke(batch, number)] == []


@pytest.mark.docker
@pytest.mark.soak(row="kills of batches")
@pytest.mark.parametrize("kill", [kill_driver, kill_workers])
def test_no_container_is_left_of_a_batch_whose_processes_are_killed(
    batch: Batch,
    kill: Callable[[Batch, str, random.Random, int], int],
    tried: Callable[[int], None],
) -> None:
    fill(batch, number := up_to(3, 24))
    killed = kill(batch, "docker", chance(f"docker {kill.__name__}"), up_to(1, 12))
    ended(start(batch, "docker"))
    tried(killed)
    assert [*what_broke(batch, number)] == []


@pytest.mark.docker
@pytest.mark.soak(row="kills of batches")
def test_while_the_engine_is_away_no_task_begins_and_none_is_lost(
    batch: Batch, tmp_path: Path, tried: Callable[[int], None]
) -> None:
    fill(batch, number := up_to(3, 24))
    door, dice = Door(tmp_path / "e.sock"), chance("engine of a batch")
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def now(what: Callable[[], object]) -> None:
        done = asyncio.run_coroutine_threadsafe(_called(what), loop)
        done.result(timeout=60)

    now(door.open)
    environment = batch.product.environment | {"DOCKER_HOST": f"unix://{door.path}"}
    words = (*batch.words, "--sandbox", "docker", "--slots", "3")
    process = batch.product.start(*words, env=environment)
    shut = 0
    while process.poll() is None and shut < up_to(1, 50):
        time.sleep(dice.uniform(1.0, 6.0))
        now(door.shut)
        time.sleep(dice.uniform(0, 3.0))
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
    assert left_running(batch.product.home) == []


async def _called(what: Callable[[], object]) -> None:
    result = what()
    if asyncio.iscoroutine(result):
        await result
