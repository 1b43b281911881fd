"""What a batch is doing: counted where it runs, and written down for those who watch."""

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
"""Seconds without a word after which a batch whose process is gone was killed."""


@dataclass
class BatchProgress:
    """How far a batch is; times are in seconds since the epoch."""

    total: int
    slots: int
    pid: int = field(default_factory=os.getpid)
    began: float = field(default_factory=time.time)
    ended: int = 0
    passed: int = 0
    cost: float = 0.0
    at_work: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By key: `since` when, and what was last said of its `state`, `turn` and `cost`."""

    def changed(self, key: str, told: Mapping[str, Any]) -> None:
        self.at_work.setdefault(key, {"since": time.time()}).update(told)

    def has_ended(self, record: TaskRecord) -> None:
        self.at_work.pop(record.key, None)
        self.ended += 1
        self.passed += record.passed
        self.cost += record.usage.cost_usd or 0.0

    def write(self, folder: Path) -> None:
        """Write it down for those who watch. Raises OSError."""
        replace_private(folder / _FILE, json.dumps(asdict(self)).encode(), synced=False)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what a batch wrote down; None if none runs. Raises OSError, ValueError."""
        try:
            found = cls(**json.loads(read_regular(folder / _FILE)))
            silent = time.time() - (folder / _FILE).stat().st_mtime > _SILENCE
            return None if silent and not Path(f"/proc/{found.pid}").exists() else found
        except FileNotFoundError:
            return None

    @staticmethod
    def remove(folder: Path) -> None:
        (folder / _FILE).unlink(missing_ok=True)
