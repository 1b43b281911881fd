"""The parent's end of the processes of a batch."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from codeagent.extensions.batch.pacing import Limiter
from codeagent.extensions.batch.perform import BatchContext
from codeagent.extensions.batch.processes import Worker


def test_a_worker_says_how_long_its_process_has_waited_for_a_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(BatchContext(tmp_path, tmp_path, {}), tmp_path / "log", Limiter())
    assert worker.waited() == 0.0, "it has not been started"
    monkeypatch.setattr(worker, "_process", cast(Any, SimpleNamespace(pid=os.getpid())))
    told = Path("/proc/self/schedstat")
    before = int(told.read_text().split()[1]) if told.exists() else 0
    assert worker.waited() >= before / 1e9
    monkeypatch.setattr(worker, "_process", cast(Any, SimpleNamespace(pid=-1)))
    assert worker.waited() == 0.0, "it has ended"
