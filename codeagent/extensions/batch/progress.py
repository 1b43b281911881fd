"""The progress of a batch: counted by the batch, and written to a file for `batch watch`."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Self

from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import read_regular
from codeagent.disk.private import replace_private
from codeagent.extensions.batch.results import TaskRecord

_FILE = "running.json"
_SILENCE = 60.0
"""If the file has not changed for so many seconds and the process is gone, the batch was killed."""


@dataclass
class BatchProgress:
    """How far a batch is; times are in seconds since the epoch, costs in US dollars."""

    total: int
    slots: int
    pid: int = field(default_factory=os.getpid)
    began: float = field(default_factory=time.time)
    ended: int = 0
    passed: int = 0
    cost: float = 0.0
    running: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each running task, by its key: its `title`, `since` when it runs, and its last `state`,
    `turn` and `cost`."""

    def changed(self, key: str, told: Mapping[str, Any]) -> None:
        """Take over what a worker tells about a task."""
        self.running.setdefault(key, {"since": time.time()}).update(told)

    def has_ended(self, record: TaskRecord) -> None:
        """Count a task that has ended."""
        self.running.pop(record.key, None)
        self.ended += 1
        self.passed += record.passed
        self.cost += record.usage.cost_usd or 0.0

    def write(self, folder: Path) -> None:
        """Write the file in the results folder. Raises OSError."""
        replace_private(folder / _FILE, json.dumps(asdict(self)).encode(), synced=False)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what the running batch wrote; None if no batch is running. Raises OSError,
        ValueError."""
        try:
            found = cls(**json.loads(read_regular(folder / _FILE)))
            silent = time.time() - (folder / _FILE).stat().st_mtime > _SILENCE
            return None if silent and not Path(f"/proc/{found.pid}").exists() else found
        except FileNotFoundError:
            return None

    @staticmethod
    def remove(folder: Path) -> None:
        (folder / _FILE).unlink(missing_ok=True)
