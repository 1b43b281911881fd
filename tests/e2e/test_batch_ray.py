"""Batches on a Ray cluster, whose nodes are on this machine: what is done there, and what a loss
leaves."""

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, bash, calls, of, running, say
from tests.e2e.test_batch import Batch, states
from tests.effort import chance as chance_of
from tests.effort import times
from tests.images import small_image
from tests.servers import Turn, openai_server

ray = pytest.importorskip("ray", reason="Ray is not installed")
ray_cluster = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
pytestmark = pytest.mark.timeout(300)  # a cluster takes as long to start as the machine is busy
NODE = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}
KEY = "sk-that-only-the-nodes-know"
TASKS = times(5)


class Nodes:
    """A cluster without an engine on its head, on which no task runs, and the folder of its
    nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = Path(f"/tmp/ray-{os.getpid()}-{time.time_ns()}")  # a path of a socket is short
        self._cluster = ray_cluster.Cluster(
            initialize_head=True, head_node_args=NODE | {"num_cpus": 0, "temp_dir": str(self.logs)}
        )
        self._added: list[Any] = []

    @property
    def address(self) -> str:
        address: str = self._cluster.address
        return address

    def add(self, **variables: str) -> None:
        own = {"XDG_STATE_HOME": str(self.folder / f"node-{len(self._added)}")}
        node = NODE | {"resources": {"engine": 2}, "env_vars": own | variables}
        self._added.append(self._cluster.add_node(**node))

    def lose(self) -> None:
        """Kill the newest node."""
        self._cluster.remove_node(self._added.pop(), allow_graceful=False)

    def taken(self) -> dict[str, float]:
        """What tasks at work have of the resources of the nodes."""
        ray.init(self.address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        free = ray.available_resources()
        taken = {name: most - free.get(name, 0) for name, most in ray.cluster_resources().items()}
        return {name: amount for name, amount in taken.items() if amount}

    def close(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()
        subprocess.run(["rm", "-rf", self.logs], check=True)


@pytest.fixture
def batch(product: Product) -> Batch:
    return Batch(product)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    yield from nodes_in(tmp_path, monkeypatch)


def nodes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "100")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()  # its address is written there, beside the folder of its nodes
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.close()


def words(nodes: Nodes, *more: str) -> tuple[str, ...]:
    return ("--ray", nodes.address, "--sandbox", "off", *more)


def test_tasks_are_done_on_all_nodes_at_the_commit_where_a_branch_is_then(
    batch: Batch, nodes: Nodes
) -> None:
    nodes.add()
    nodes.add()
    slow = (calls(bash("cat a.txt >> new.txt; sleep 2")), say("done"))
    batch.write(*(batch.task(2 * number, *slow) for number in range(4)))
    done = batch.run(*words(nodes))
    assert done.code == 0, done.err
    assert len(list(nodes.folder.glob("node-*/codeagent/mirrors/*.git"))) == 2
    repository = batch.product.home / "one"
    (repository / "a.txt").write_text("moved\n")
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    batch.product.call_in(repository, "git", *who, "commit", "-qam", "second")
    assert batch.run(*words(nodes, "--retry", "all")).code == 0
    assert ["+moved" in batch.patch(record) for record in batch.records[4:]] == [True] * 4


async def test_a_key_in_a_file_of_the_nodes_is_used_and_is_nowhere_else(
    batch: Batch, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.add()
    secrets = tmp_path / "secrets"
    secrets.write_text(f"# keys\nOPENAI_API_KEY={KEY}\n")
    async with openai_server([Turn("done")]) as server:
        server.key = KEY
        settings = {"api_base": server.base_url}
        batch.write(batch.task(0, model="openai/local", settings=settings))
        given = words(nodes, "--secrets", str(secrets))
        done = await asyncio.to_thread(batch.run, *given)
    assert done.code == 0, done.err
    assert KEY not in done.out + done.err
    secrets.unlink()
    assert_is_nowhere(KEY, nodes, tmp_path)


def assert_is_nowhere(key: str, nodes: Nodes, folder: Path) -> None:
    """Look into the files there, the logs of the cluster and its object stores."""
    files = [path for each in (nodes.logs, folder) for path in each.rglob("*")]
    assert not [path for path in files if key.encode() in contents(path)]
    kinds = (b"raylet/raylet", b"gcs_server")
    own = [(pid, line) for pid, line in processes() if str(nodes.logs).encode() in line]
    stores = [pid for pid, line in own if any(kind in line for kind in kinds)]
    assert len(stores) >= 3
    assert not any(in_memory(pid, key.encode()) for pid in stores)


def contents(path: Path) -> bytes:
    """What a file has; the cluster may remove it meanwhile."""
    with suppress(OSError):
        return path.read_bytes() if path.is_file() else b""
    return b""


def processes() -> Iterator[tuple[int, bytes]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield int(path.parent.name), path.read_bytes()


def in_memory(pid: int, what: bytes) -> bool:
    """Whether a process, and what it shares with others, such as an object store, has it."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                with suppress(OSError, ValueError, OverflowError):
                    memory.seek(start)
                    if what in memory.read(end - start):
                        return True
    return False


@pytest.mark.parametrize(
    ("text", "said"), [("KEY sk-1", "secrets:1: write NAME=value"), (None, "cannot be read")]
)
def test_a_file_with_keys_that_is_wrong_is_an_error_without_them(
    text: str | None, said: str, batch: Batch, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.add()
    if text:
        (tmp_path / "secrets").write_text(text)
    batch.write(batch.task(0))
    done = batch.run(*words(nodes, "--secrets", str(tmp_path / "secrets")))
    assert done.code == 2
    assert said in done.err
    assert "sk-1" not in done.err


@pytest.mark.docker
def test_a_task_on_a_node_runs_in_the_image_of_that_node_that_it_names(
    batch: Batch, nodes: Nodes
) -> None:
    nodes.add()
    with small_image() as image:
        settings = {"sandbox": {"image": image}}
        batch.write(batch.task(0, settings=settings, check="! ls /usr/bin/env"))  # others have it
        done = batch.product.call_apart(*batch.words, "--ray", nodes.address)
    assert done.code == 0, done.err + done.out


def test_a_node_with_another_version_is_an_error(
    batch: Batch, nodes: Nodes, tmp_path: Path
) -> None:
    other = tmp_path / "other/codeagent-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: codeagent\nVersion: 0.0.1\n")
    (tmp_path / "other/codeagent").mkdir()
    (tmp_path / "other/codeagent/__init__.py").write_text("")
    nodes.add(PYTHONPATH=str(tmp_path / "other"))
    batch.write(batch.task(0))
    done = batch.run(*words(nodes))
    assert done.code == 2
    assert "a node of the cluster has codeagent 0.0.1, and this machine " in done.err
    assert batch.records == []


def test_a_cluster_without_engines_is_an_error(batch: Batch, nodes: Nodes) -> None:
    batch.write(batch.task(0))
    done = batch.run(*words(nodes))
    assert (done.code, batch.records) == (2, [])
    assert "start nodes with ray start --resources=" in done.err


def test_without_ray_the_error_says_what_to_install(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError\n")
    batch.write(batch.task(0))
    environment = batch.product.environment | {"PYTHONPATH": str(tmp_path)}
    command = [".venv/bin/python", "-m", "codeagent", *batch.words, "--ray", "auto"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'codeagent[ray]'" in done.stderr


def test_an_interrupted_batch_ends_in_order_and_gives_back_what_its_task_took_of_the_node(
    batch: Batch, nodes: Nodes
) -> None:
    nodes.add()
    slow = (calls(bash("echo again >> begun; sleep 611.7")), say("done"))
    batch.write(batch.task(0, *slow))
    process = batch.product.start(*batch.words, *words(nodes))
    batch.until(lambda: any(batch.results.glob("*/copy/begun")))
    share = {"CPU": 1, "engine": 1, "memory": 300 << 20}
    batch.until(lambda: nodes.taken() == share)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert batch.records == []
    batch.until(lambda: not any(b"611.7" in line for line in running()))
    [log] = batch.results.glob("state/sessions/*/events.jsonl")
    assert '"run.finished"' in log.read_text()
    batch.until(lambda: nodes.taken() == {})


@pytest.mark.soak(row="kills of a cluster")
def test_nothing_that_is_killed_loses_a_task_or_has_one_done_twice(
    batch: Batch, nodes: Nodes, tried: Callable[[int], None]
) -> None:
    chance = chance_of("kills of a cluster")
    nodes.add()
    nodes.add()
    batch.write(*(batch.task(number, check="grep -q more a.txt") for number in range(TASKS)))
    process = batch.product.start(*batch.words, *words(nodes))
    killed = 0
    deadline = time.monotonic() + 60 + 20 * TASKS
    while killed < TASKS or process.poll() is None:
        assert time.monotonic() < deadline, (killed, len(batch.records))
        if process.poll() is not None:
            if len(batch.records) == TASKS:
                break
            process = batch.product.start(*batch.words, *words(nodes))
        time.sleep(chance.uniform(0.1, 2))
        if killed == TASKS:
            continue
        killed += 1
        match chance.choice(("node", "driver", "limiter", "task", "worker")):
            case "node":
                nodes.lose()
                nodes.add()
            case "driver":
                process.kill()
                process.communicate(timeout=60)
            case "limiter":
                kill_one(chance, b"ray::Limiter", str(nodes.folder))
            case "task":
                kill_one(chance, b"ray::begin", str(nodes.folder))
            case "worker":
                kill_one(chance, b"batch\0work", str(nodes.folder))
    tried(killed)
    process.communicate(timeout=100)
    if len(batch.records) < TASKS:
        batch.run(*words(nodes))
    records = batch.records
    assert len({each["key"] for each in records}) == len(records) == TASKS
    assert set(states(batch).values()) == {"passed"}, states(batch)
    assert all(batch.patch(each).count("+more") >= 1 for each in records)
    ends = [end for each in records for end in of(batch.log(each), "run.finished")]
    assert sum(end["reason"] == "done" for end in ends) == TASKS
    assert not list(batch.results.glob("*/copy"))
    batch.until(lambda: not list(of_folder(b"batch\0work", str(nodes.folder))))


def of_folder(name: bytes, folder: str) -> Iterator[int]:
    """The processes of this name that this test's nodes started."""
    for pid, line in processes():
        with suppress(OSError):
            if name in line and folder.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                yield pid


def kill_one(chance: random.Random, name: bytes, folder: str) -> None:
    if found := sorted(of_folder(name, folder)):
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
