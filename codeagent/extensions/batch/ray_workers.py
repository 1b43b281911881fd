"""Works on the tasks of a batch on a Ray cluster: each is a Ray task, on a node with an engine."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray as _ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from codeagent.config.checking import as_given, checked
from codeagent.core.errors import ConfigError
from codeagent.disk.opens import read_regular
from codeagent.extensions.batch.pacing import Limiter, Limits
from codeagent.extensions.batch.perform import Place, Tell
from codeagent.extensions.batch.processes import Worker, WorkerDied
from codeagent.extensions.batch.results import TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask

ray: Any = _ray  # its decorators hide the types of what they decorate
ENGINE = "engine"
"""The resource of a node that says how many tasks its container engine may have at a time."""
_TASK_BYTES = 300 << 20
_ATTEMPTS = 3
"""How often a task is begun whose node is lost."""


class Cluster:
    """A connection to a cluster, and the limiter that all its tasks share."""

    def __init__(self, address: str, place: Place, secrets: Path | None) -> None:
        """`secrets` is a file on the nodes. Blocks; raises ConfigError."""
        self._place = place
        self._secrets = secrets
        try:
            ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
        except (RayError, OSError, ValueError) as error:
            raise ConfigError(f"the cluster at {address} does not answer: {error}") from error
        resources: dict[str, float] = ray.cluster_resources()
        self.slots = int(min(resources.get(ENGINE, 0.0), resources.get("CPU", 0.0)))
        if not self.slots:
            raise ConfigError(
                f"no node of the cluster at {address} has the resource {ENGINE}; start nodes with "
                f"ray start --resources='{{\"{ENGINE}\": 8}}'; nothing was run"
            )
        self._begin = ray.remote(
            num_cpus=1,
            memory=_TASK_BYTES,
            resources={ENGINE: 1},
            max_retries=_ATTEMPTS,
            retry_exceptions=[WorkerDied],
        )(_remote).remote
        actor: Any = ray.remote(max_restarts=-1, num_cpus=0, max_concurrency=10_000)(_SharedLimiter)
        self._limiter = actor.remote()

    def worker(self) -> "RayWorker":
        def begin(given: Mapping[str, Any]) -> Any:
            return self._begin(given, self._limiter)

        return RayWorker(self._place, self._secrets, begin)

    def close(self) -> None:
        ray.shutdown()


class _SharedLimiter:
    """The one limiter, in a process of its own that Ray starts again if it is lost."""

    def __init__(self) -> None:
        self._limiter = Limiter()

    async def begin(self, model: str, tokens: int) -> float:
        return await self._limiter.begin(model, tokens)

    async def answered(self, model: str, limits: Limits) -> None:
        self._limiter.answered(model, limits)

    async def refused(self, model: str, began: float, retry_after: float | None) -> None:
        self._limiter.refused(model, began, retry_after)


class _LimiterThere:
    """The limiter, as the nodes see it (a `processes.Pacer`)."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def begin(self, model: str, tokens: int) -> float:
        while True:
            with suppress(RayActorError):  # it is being started again
                began: float = await self._actor.begin.remote(model, tokens)
                return began
            await asyncio.sleep(1)

    def answered(self, model: str, limits: Limits) -> None:
        self._actor.answered.remote(model, limits)

    def refused(self, model: str, began: float, retry_after: float | None) -> None:
        self._actor.refused.remote(model, began, retry_after)


class RayWorker:
    """Has the cluster work on one task at a time (a `pool.TaskWorker`)."""

    def __init__(
        self, place: Place, secrets: Path | None, begin: Callable[[Mapping[str, Any]], Any]
    ) -> None:
        self._place = place
        self._secrets = secrets
        self._begin = begin
        self._running: Any = None

    async def run(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> TaskRecord:
        tell({"state": "on the cluster"})
        given = {
            "version": version("codeagent"),
            "task": as_given(task),
            "folder": str(folder.path),
            "place": {name: _plain(value) for name, value in asdict(self._place).items()},
            "secrets": str(self._secrets or ""),
        }
        self._running = self._begin(given)
        try:
            line: bytes = await self._running
        except RayTaskError as error:
            if isinstance(error.cause, ConfigError):
                raise error.cause from None
            raise WorkerDied from error
        except (RayError, asyncio.CancelledError) as error:
            raise WorkerDied from error
        return TaskRecord.of_line(line)

    def stop(self) -> None:
        if self._running is not None:
            ray.cancel(self._running)

    def kill(self) -> None:
        if self._running is not None:
            ray.cancel(self._running, force=True)

    async def close(self) -> None:
        self._running = None


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _remote(given: Mapping[str, Any], limiter: Any) -> bytes:
    """Work on a task on this node; return the line of its record. Raises ConfigError."""
    here = version("codeagent")
    if here != given["version"]:
        raise ConfigError(f"a node has codeagent {here}, and not {given['version']}")
    for name, value in _secrets(given["secrets"]).items():
        os.environ[name] = value
    place = Place(
        Path(given["place"]["state_dir"]),
        Path(given["place"]["mirrors"]),
        given["place"]["settings"],
    )
    folder = TaskFolder(Path(given["folder"]))
    return asyncio.run(_worked(checked(BatchTask, given["task"]), folder, place, limiter)).line()


async def _worked(task: BatchTask, folder: TaskFolder, place: Place, limiter: Any) -> TaskRecord:
    worker = Worker(place, folder.path.parent / "workers.log", _LimiterThere(limiter))
    try:
        return await worker.run(task, folder, lambda told: None)
    finally:
        await worker.close()


def _secrets(path: str) -> dict[str, str]:
    """Read `NAME=value` lines from a file of this node. Raises ConfigError."""
    if not path:
        return {}
    try:
        text = read_regular(path).decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read on a node ({error.strerror})") from error
    lines = [line.partition("=") for line in text.splitlines() if line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in lines}
