"""Batches on a Ray cluster whose nodes are on this machine: the tasks are done, whatever is lost."""

import asyncio
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from codeagent.extensions.batch.copies import Mirror
from codeagent.extensions.batch.processes import WorkerDied
from codeagent.extensions.batch.results import TaskFolder
from codeagent.extensions.batch.tasks import BatchTask
from tests.e2e.product import Product, bash, calls, running, say
from tests.e2e.test_batch import Batch
from tests.effort import chance, part, up_to
from tests.faults.test_batch_kills import comes_to, ended, fill, points, start, what_broke
from tests.faults.test_batch_kills import killed as kill
from tests.images import small_image
from tests.servers import Turn, openai_server

ray = pytest.importorskip("ray", reason="Ray is not installed")
ray_cluster = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
pytestmark = pytest.mark.timeout(300)  # a cluster takes as long to start as the machine is busy
NODE = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}
KEY = "sk-that-only-the-nodes-know"


class Nodes:
    """A cluster whose head has no engine and runs no task, and the folder of its nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = Path(f"/tmp/ray-{os.getpid()}-{time.time_ns()}")  # a path of a socket is short
        self._cluster = ray_cluster.Cluster()
        self._added: list[Any] = []

    def begin(self) -> None:
        self._started(**NODE | {"num_cpus": 0, "temp_dir": str(self.logs)})

    @property
    def address(self) -> str:
        address: str = self._cluster.address
        return address

    def add(self, **variables: str) -> None:
        own = self.folder / f"node-{len(list(self.folder.glob('node-*')))}"
        (own / "tmp").mkdir(parents=True)
        own_variables = {"XDG_STATE_HOME": str(own), "TMPDIR": str(own / "tmp")}
        node = NODE | {"resources": {"engine": 2}, "env_vars": own_variables | variables}
        self._added.append(self._started(**node))

    def _started(self, **given: Any) -> Any:
        """Try three times: Ray gives a node 30 seconds, which a busy machine may exceed."""
        for _ in range(3):
            with suppress(Exception):
                return self._cluster.add_node(**given)
        pytest.fail("no node starts")

    def lose(self, *, in_order: bool) -> None:
        """Kill the newest node, or stop it as `ray stop` does."""
        self._cluster.remove_node(self._added.pop(), allow_graceful=in_order)

    def taken(self) -> dict[str, float]:
        """The resources of the nodes that running tasks have reserved."""
        ray.init(self.address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        free = ray.available_resources()
        taken = {name: most - free.get(name, 0) for name, most in ray.cluster_resources().items()}
        return {name: amount for name, amount in taken.items() if amount}

    def close(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()
        for pid, line in processes():
            if os.fsencode(self.logs) in line:  # of a node that did not start
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        subprocess.run(["rm", "-rf", self.logs], check=True)


@pytest.fixture
def batch(product: Product) -> Batch:
    return Batch(product)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster without a node for tasks: all tests share it, as it is slow to start."""
    with pytest.MonkeyPatch.context() as patch:
        yield from nodes_in(tmp_path_factory.mktemp("cluster"), patch)


@pytest.fixture(scope="module")
def nodes(head: Nodes) -> Nodes:
    """The same cluster with two nodes."""
    head.add()
    head.add()
    return head


def nodes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("RAY_prestart_worker_first_driver", "0")  # a node starts sooner
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "100")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()  # its address is written there, beside the folder of its nodes
    nodes = Nodes(tmp_path)
    try:
        nodes.begin()
        yield nodes
    finally:
        nodes.close()


def words(nodes: Nodes, *more: str) -> tuple[str, ...]:
    return ("--ray", nodes.address, "--sandbox", "off", "--slots", "4", *more)


def test_a_cluster_without_engines_is_an_error(batch: Batch, head: Nodes) -> None:
    batch.write(batch.task(0))
    done = batch.product.call_apart(*batch.words, "--ray", head.address, "--sandbox", "off")
    assert (done.code, batch.records) == (2, [])
    assert "start nodes with ray start --resources=" in done.err


def test_a_node_with_another_version_is_an_error(batch: Batch, head: Nodes, tmp_path: Path) -> None:
    other = tmp_path / "other/codeagent-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: codeagent\nVersion: 0.0.1\n")
    (tmp_path / "other/codeagent").mkdir()
    (tmp_path / "other/codeagent/__init__.py").write_text("")
    head.add(PYTHONPATH=str(tmp_path / "other"))
    batch.write(batch.task(0))
    try:
        done = batch.run(*words(head))
    finally:
        head.lose(in_order=True)
    assert done.code == 2
    assert "a node of the cluster has codeagent 0.0.1, and this machine " in done.err
    assert batch.records == []


def test_tasks_run_on_all_nodes_and_a_later_batch_starts_from_the_new_commit(
    batch: Batch, nodes: Nodes
) -> None:
    slow = (calls(bash("cat a.txt >> new.txt; sleep 1")), say("done"))
    batch.write(*(batch.task(2 * number, *slow) for number in range(3)))  # two fit on a node
    done = batch.run(*words(nodes))
    assert done.code == 0, done.err
    repository = batch.product.home / "one"
    mirror = Mirror.of(str(repository), Path("codeagent/mirrors")).folder
    assert len(list(nodes.folder.glob(f"node-*/{mirror}"))) == 2
    (repository / "a.txt").write_text("moved\n")
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    batch.product.call_in(repository, "git", *who, "commit", "-qam", "second")
    assert batch.run(*words(nodes, "--retry", "all", "--only", "task 0")).code == 0
    assert ["+moved" in batch.patch(record) for record in batch.records[3:]] == [True]


async def test_a_key_in_a_file_of_the_nodes_is_used_and_kept_nowhere_else(
    batch: Batch, nodes: Nodes, tmp_path: Path
) -> None:
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
    """Search the folder and those of the cluster, its logs and its object stores."""
    files = [path for each in (nodes.logs, nodes.folder, folder) for path in each.rglob("*")]
    assert not [path for path in files if key.encode() in contents(path)]
    kinds = (b"raylet/raylet", b"gcs_server")
    own = [(pid, line) for pid, line in processes() if str(nodes.logs).encode() in line]
    stores = [pid for pid, line in own if any(kind in line for kind in kinds)]
    assert len(stores) >= 3
    assert not any(in_memory(pid, key.encode()) for pid in stores)


def contents(path: Path) -> bytes:
    """The content of a file; empty if the cluster has removed it."""
    with suppress(OSError):
        return path.read_bytes() if path.is_file() else b""
    return b""


def processes() -> Iterator[tuple[int, bytes]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield int(path.parent.name), path.read_bytes()


def in_memory(pid: int, what: bytes) -> bool:
    """Whether the memory of a process contains it, including what it shares, such as an object
    store."""
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
def test_an_error_about_a_file_of_keys_does_not_show_the_keys(
    text: str | None, said: str, batch: Batch, nodes: Nodes, tmp_path: Path
) -> None:
    if text:
        (tmp_path / "secrets").write_text(text)
    batch.write(batch.task(0))
    done = batch.run(*words(nodes, "--secrets", str(tmp_path / "secrets")))
    assert done.code == 2
    assert said in done.err
    assert "sk-1" not in done.err


@pytest.mark.docker
def test_a_task_on_a_node_runs_in_the_image_that_it_names(batch: Batch, nodes: Nodes) -> None:
    with small_image() as image:
        settings = {"sandbox": {"image": image}}
        batch.write(
            batch.task(0, settings=settings, check="! ls /usr/bin/env")
        )  # the default image has it
        done = batch.product.call_apart(*batch.words, "--ray", nodes.address)
    assert done.code == 0, done.err + done.out


def test_without_ray_the_error_says_what_to_install(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError\n")
    batch.write(batch.task(0))
    environment = batch.product.environment | {"PYTHONPATH": str(tmp_path)}
    command = [".venv/bin/python", "-m", "codeagent", *batch.words, "--ray", "auto"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'codeagent[ray]'" in done.stderr


def test_an_interrupted_batch_ends_in_order_and_returns_the_resources_of_its_task(
    batch: Batch, nodes: Nodes
) -> None:
    stays = f"613.{os.getpid()}"
    slow = (calls(bash(f"echo again >> begun; sleep {stays}")), say("done"))
    batch.write(batch.task(0, *slow))
    process = batch.product.start(*batch.words, *words(nodes))
    batch.until(lambda: any(batch.results.glob("*/copy/begun")))
    share = {"CPU": 1, "engine": 1, "memory": 300 << 20}
    batch.until(lambda: nodes.taken() == share)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert batch.records == []
    batch.until(lambda: not any(stays.encode() in line for line in running()))
    [log] = batch.results.glob("state/sessions/*/events.jsonl")
    assert '"run.finished"' in log.read_text()
    batch.until(lambda: nodes.taken() == {})


async def test_a_task_that_is_stopped_before_the_cluster_gets_it_does_not_begin() -> None:
    from codeagent.extensions.batch.ray_workers import RayWorker  # needs Ray

    worker = RayWorker(lambda task, folder: pytest.fail("it began"))
    worker.stop()
    task = BatchTask(repository="/there", prompt="go")
    with pytest.raises(WorkerDied):
        await worker.run(task, TaskFolder(Path("/nowhere")), lambda told: None)


async def test_a_batch_that_ends_early_stops_its_tasks_on_the_cluster_and_can_kill_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from codeagent.extensions.batch import ray_workers  # needs Ray

    running = asyncio.get_running_loop().create_future()
    cancelled = list[Any]()
    monkeypatch.setattr(
        ray_workers.ray, "cancel", lambda task, **how: cancelled.append((task, how))
    )
    worker = ray_workers.RayWorker(lambda task, folder: running)
    task = BatchTask(repository="/there", prompt="go")
    work = asyncio.ensure_future(worker.run(task, TaskFolder(Path("/nowhere")), lambda told: None))
    await asyncio.sleep(0)
    await worker.close()
    worker.kill()
    assert cancelled == [(running, {}), (running, {"force": True})]
    running.cancel()
    with pytest.raises(WorkerDied):
        await work


async def test_the_limiter_is_asked_again_if_its_actor_or_its_answer_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.exceptions import ObjectLostError, RayActorError

    from codeagent.extensions.batch.ray_workers import _SharedLimiter  # needs Ray

    real = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: real(0))

    lost = [RayActorError(), ObjectLostError("", "", "")]

    class Actor:
        @property
        def begin(self) -> "Actor":
            return self

        async def remote(self, model: str, tokens: int) -> float:
            if lost:
                raise lost.pop()
            return 5.0

    assert await _SharedLimiter(Actor()).begin("m", 1) == 5.0


KINDS = (*("task", "worker", "node", "limiter") * 3, "driver")


@pytest.mark.soak(row="kills of a cluster")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "sandbox", part(["off", pytest.param("docker", marks=pytest.mark.docker)], 1)
)
def test_no_task_is_lost_or_done_twice_whatever_is_killed(
    sandbox: str, batch: Batch, nodes: Nodes, tried: Callable[[int], None]
) -> None:
    dice = chance(f"kills of a cluster {sandbox}")
    (slow := nodes.folder / "slow").touch()  # tasks are slow while it exists; no container sees it
    waits = f"for _ in 1 2 3 4; do test ! -e {slow} || sleep 1; done"
    fill(batch, number := up_to(3, 200 if sandbox == "off" else 20), waits=waits)
    more = ("--ray", nodes.address, "--sandbox", sandbox)
    process = start(batch, *more, slots=4)
    killed: Counter[str] = Counter()
    for turn, point in enumerate(points(dice, number, up_to(1, 50 if sandbox == "off" else 15))):
        if not comes_to(batch, process, point):
            break
        time.sleep(dice.uniform(0, 1.5))
        match kind := KINDS[turn % len(KINDS)]:
            case "node":
                nodes.lose(in_order=dice.random() < 0.5)
                nodes.add()
                killed[kind] += 1
            case "driver":
                kill(process)
                process = start(batch, *more, slots=4)
                killed[kind] += 1
            case "limiter":
                killed[kind] += kill_one(dice, b"ray::Limiter", str(nodes.folder))
            case "task":
                killed[kind] += kill_one(dice, b"ray::begin", str(nodes.folder))
            case "worker":
                killed[kind] += kill_one(dice, b"batch\0work", str(nodes.folder))
    slow.unlink()
    ended(process)
    tried(killed.total())
    assert [*what_broke(batch, number)] == [], killed
    batch.until(lambda: not list(of_folder(b"batch\0work", str(nodes.folder))))
    assert [*nodes.folder.glob("node-*/tmp/codeagent*")] == []


def of_folder(name: bytes, folder: str) -> Iterator[int]:
    """The processes of this name that this test's nodes started."""
    for pid, line in processes():
        with suppress(OSError):
            if name in line and folder.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                yield pid


def kill_one(dice: random.Random, name: bytes, folder: str) -> bool:
    """Kill one of these as soon as there is one; False if there is none within a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(ProcessLookupError):
            if found := sorted(of_folder(name, folder)):
                os.kill(dice.choice(found), signal.SIGKILL)
                return True
        time.sleep(0.05)
    return False
