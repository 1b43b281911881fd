"""Works on the tasks of a batch on a Ray cluster: each is a Ray task on a node with a container
engine."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from codeagent.config.checking import as_given, checked
from codeagent.config.local_environment import state_dir
from codeagent.core.errors import ConfigError
from codeagent.disk.opens import closing_fd, open_appended, read_regular
from codeagent.extensions.batch.copies import Mirror, alone
from codeagent.extensions.batch.pacing import Limiter, Limits
from codeagent.extensions.batch.perform import BatchContext, Tell
from codeagent.extensions.batch.processes import Worker, WorkerDied
from codeagent.extensions.batch.remote import local_folder, reached, upload
from codeagent.extensions.batch.results import Attempt, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask

try:
    import ray as _ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ConfigError(
        "--ray needs Ray: pip install 'codeagent[ray]', here and on each node; nothing was run"
    ) from error

ray: Any = _ray  # its decorators hide the types of what they decorate
ENGINE = "engine"
"""The Ray resource of a node: how many tasks may use its container engine at the same time."""
_TASK_BYTES = 300 << 20
_REFRESH_SECONDS = 3600.0
"""Seconds to wait while another task of the node updates the same mirror."""
_AHEAD = 2
"""Tasks that Ray has for each that the nodes have room for, so that one begins as soon as another
ends."""
_RETRIES = 3
"""How often Ray starts a task again after its node or its Ray process is lost."""


class Cluster:
    """A connection to a cluster, and the limiter that all its tasks share."""

    def __init__(
        self,
        address: str,
        context: BatchContext,
        secrets: Path | None,
        slots: int | None,
        where: str,
    ) -> None:
        """Connect to the cluster. `secrets` is a file on the nodes. `slots` may exceed what the nodes
        have, if more nodes start on demand. `where` is the address of the results, or the folder
        that the nodes share. Blocks; raises ConfigError."""
        self._common = {
            "version": version("codeagent"),
            "batch": str(time.time_ns()),
            "settings": context.settings,
            "secrets": str(secrets or ""),
            "where": where,
        }
        try:
            ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
        except (RayError, OSError, ValueError, RuntimeError) as error:
            raise ConfigError(f"the cluster at {address} does not answer: {error}") from error
        resources: dict[str, float] = ray.cluster_resources()
        room = int(min(resources.get(ENGINE, 0.0), resources.get("CPU", 0.0)))
        self.slots = slots or _AHEAD * room
        if not self.slots:
            ray.shutdown()
            raise ConfigError(
                f"no node of the cluster at {address} has the resource {ENGINE}; start nodes with "
                f"ray start --resources='{{\"{ENGINE}\": 8}}', or give --slots if they are started "
                "on demand; nothing was run"
            )
        self._begin = ray.remote(
            num_cpus=1, memory=_TASK_BYTES, resources={ENGINE: 1}, max_retries=_RETRIES
        )(_sent_whole()).remote
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._limiter = (
            ray.remote(max_restarts=-1, num_cpus=0, max_concurrency=10_000)(Limiter)
            .options(scheduling_strategy=here)
            .remote()
        )

    def worker(self) -> "RayWorker":
        def begin(task: BatchTask, folder: TaskFolder) -> Any:
            own = {"task": as_given(task), "attempt": folder.attempt().number}
            return self._begin(self._common | own, self._limiter)

        return RayWorker(begin)


def _sent_whole() -> Callable[[Mapping[str, Any], Any], bytes | str]:
    """Return the function that a node runs. Being local, it is sent by value and not looked up by its
    name, as the node may have another version of codeagent, or none."""

    def begin(given: Mapping[str, Any], limiter: Any) -> bytes | str:
        from importlib import metadata

        try:
            there = metadata.version("codeagent")
        except metadata.PackageNotFoundError:
            there = "none"
        if there != given["version"]:
            return there
        from codeagent.extensions.batch.ray_workers import work_here

        return work_here(given, limiter)

    return begin


class _SharedLimiter:
    """The limiter of all nodes (a `processes.Pacer`): an actor, which Ray starts again if it is lost."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def begin(self, model: str, tokens: int) -> float:
        while True:
            with suppress(RayError):  # it is starting again
                began: float = await self._actor.begin.remote(model, tokens)
                return began
            await asyncio.sleep(1)

    def answered(self, model: str, began: float, limits: Limits) -> None:
        self._actor.answered.remote(model, began, limits)

    def refused(self, model: str, began: float, retry_after: float | None) -> None:
        self._actor.refused.remote(model, began, retry_after)


class RayWorker:
    """Has the cluster work on one task at a time (a `pool.TaskWorker`)."""

    def __init__(self, begin: Callable[[BatchTask, TaskFolder], Any]) -> None:
        self._begin = begin
        self._running: Any = None
        self._stopped = False

    async def run(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> TaskRecord:
        if self._stopped:
            raise WorkerDied
        tell({"state": "on the cluster"})
        self._running = self._begin(task, folder)
        try:
            found: bytes | str = await self._running
        except RayTaskError as error:
            if isinstance(error.cause, ConfigError):
                raise error.cause from None
            raise WorkerDied from error
        except (RayError, asyncio.CancelledError) as error:
            raise WorkerDied from error
        finally:
            self._running = None
        if isinstance(found, str):
            raise ConfigError(
                f"a node of the cluster has codeagent {found}, and this machine "
                f"{version('codeagent')}; install the same on all, and start the batch again"
            )
        return TaskRecord.of_line(found)

    def waited(self) -> float:
        return 0.0  # the cluster begins only tasks that it has processors for

    def stop(self) -> None:
        self._stopped = True
        if self._running is not None:
            ray.cancel(self._running)

    def kill(self) -> None:
        if self._running is not None:
            ray.cancel(self._running, force=True)

    async def close(self) -> None:
        self.stop()  # who waits for `run` waits for its end


def work_here(given: Mapping[str, Any], limiter: Any) -> bytes:
    """Work on a task on this node; return the line of its record. Raises ConfigError, WorkerDied."""
    os.environ.update(_secrets(given["secrets"]))
    task = checked(BatchTask, given["task"])
    where, home = given["where"], Path(given["where"])
    if alone_here := "://" in where:
        with reached(where):
            home = local_folder(where) / "node"
    folder = TaskFolder(home / task.key)
    folder.describe(task)
    if folder.attempt().number < given["attempt"]:
        folder.begin(Attempt(given["attempt"], ""))
    state = (folder.path if alone_here else home) / "state"
    log = home / "workers.log"
    context = BatchContext(state, state_dir() / "mirrors", given["settings"])
    worker = _workers.setdefault(given["batch"], Worker(context, log, _SharedLimiter(limiter)))
    worker.context = context

    async def work() -> TaskRecord:
        working = asyncio.current_task()
        assert working is not None
        # Ray cancels with a signal, which wakes an event loop only if the loop handles it.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, working.cancel)
        try:
            await _refresh(task.repository, context.mirrors, given["batch"], log)
            return await worker.run(task, folder, lambda told: None)
        except BaseException as error:
            await worker.close()
            if isinstance(error, asyncio.CancelledError):
                raise WorkerDied from None
            raise

    record = _LOOP.run(work())
    if alone_here and record.state != "interrupted":
        upload(folder, where)
    return record.line()


_workers: dict[str, Worker] = {}
"""The worker of each batch that this Ray process has worked for, by the batch's number; it ends with
this process."""
_LOOP = asyncio.Runner()
"""Runs all tasks of this Ray process, as a worker belongs to one event loop."""


async def _refresh(repository: str, mirrors: Path, batch: str, log: Path) -> None:
    """Update the node's mirror of a repository once per batch. A failure is only written to the log: if
    there is no mirror, the task itself fails."""
    mirror = Mirror.of(repository, mirrors)
    fresh = mirror.folder.with_suffix(".batch")
    try:
        async with alone(mirror.folder.with_suffix(".refresh"), _REFRESH_SECONDS):
            if not fresh.exists() or fresh.read_text() != batch:
                await mirror.update(repository)
                fresh.write_text(batch)
    except (ConfigError, OSError) as error:
        with closing_fd(open_appended(log)) as fd:
            os.write(fd, f"{error}\n".encode())


def _secrets(path: str) -> dict[str, str]:
    """Read `NAME=value` lines from a file on this node; none without a path. Raises ConfigError."""
    if not path:
        return {}
    try:
        text = read_regular(path).decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read on a node ({error.strerror})") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.partition("=")
        if line.strip() and not line.startswith("#"):
            if not equals:
                raise ConfigError(f"{path}:{number}: write NAME=value")  # the line may be a key
            found[name.strip()] = value.strip()
    return found
