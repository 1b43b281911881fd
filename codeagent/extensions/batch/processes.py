"""The parent's end of the processes that work on the tasks of a batch."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from codeagent.config.checking import as_given
from codeagent.core.host_programs import HostProgram, start_program
from codeagent.extensions.batch.pacing import Limits
from codeagent.extensions.batch.perform import BatchContext, Tell
from codeagent.extensions.batch.results import TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.extensions.batch.worker import LONGEST_LINE

WORKER = HostProgram("worker of a batch", None)


class Pacer(Protocol):
    """Says when requests may begin; see `pacing.Limiter`."""

    async def begin(self, model: str, tokens: int) -> float: ...

    def answered(self, model: str, began: float, limits: Limits) -> None: ...

    def refused(self, model: str, began: float, retry_after: float | None) -> None: ...


class Worker:
    """A process that works on one task at a time."""

    def __init__(self, context: BatchContext, log: Path, limiter: Pacer) -> None:
        """`log` gets what the process writes to standard error."""
        self.context = context
        self._log = log
        self._limiter = limiter
        self._process: asyncio.subprocess.Process | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def run(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> TaskRecord:
        """Work on a task until it ends, and return its record. Raises WorkerDied."""
        process = self._process or await self._started()
        if self._stopped:
            await self.close()
            raise WorkerDied
        self._write(
            {
                "task": as_given(task),
                "folder": str(folder.path),
                "state": str(self.context.state_dir),
                "mirrors": str(self.context.mirrors),
                "settings": self.context.settings,
            }
        )
        try:
            async for told in self._told(process):
                match told:
                    case {"ended": ended}:
                        return TaskRecord.of_line(json.dumps(ended).encode())
                    case {"asks": [number, model, tokens]}:
                        asking = asyncio.ensure_future(self._let_begin(number, model, tokens))
                        self._asking.add(asking)
                        asking.add_done_callback(self._asking.discard)
                    case {"limits": [model, began, limits]}:
                        self._limiter.answered(model, began, limits)
                    case {"refused": [model, began, after]}:
                        self._limiter.refused(model, began, after)
                    case _:
                        tell(told)
        finally:
            for each in self._asking:
                each.cancel()
        await self.close()
        raise WorkerDied

    async def _let_begin(self, number: int, model: str, tokens: int) -> None:
        began = await self._limiter.begin(model, tokens)
        self._write({"go": [number, began]})

    async def _started(self) -> asyncio.subprocess.Process:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = await start_program(
                WORKER,
                [sys.executable, "-P", "-m", "codeagent", "batch", "work"],
                folder=None,
                environment=os.environ,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LONGEST_LINE,
                start_new_session=True,
            )
        finally:
            os.close(log)
        self._process = process
        return process

    def _write(self, told: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")

    async def _told(self, process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
        assert process.stdout is not None
        # A line without an end was cut off by the death of the process.
        while (line := await process.stdout.readline()).endswith(b"\n"):
            yield json.loads(line)

    def waited(self) -> float:
        """Return how many seconds its process has waited for a processor; 0 if the system does not
        say."""
        if self._process is None:
            return 0.0
        try:
            return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    async def close(self) -> None:
        """Have it stop in order, and wait until it has; idempotent."""
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            await process.wait()
            self._process = None  # until then it can be killed

    def stop(self) -> None:
        """Have it stop in order, without waiting for it."""
        self._stopped = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()


class WorkerDied(Exception):
    """The process that worked on a task ended without a record."""
