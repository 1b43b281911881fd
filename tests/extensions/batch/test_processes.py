"""The parent's end of the processes of a batch."""

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from codeagent.extensions.batch.pacing import Limiter
from codeagent.extensions.batch.perform import BatchContext
from codeagent.extensions.batch.processes import Worker


async def test_a_process_that_does_not_end_in_order_can_still_be_killed(tmp_path: Path) -> None:
    worker = Worker(BatchContext(tmp_path, tmp_path, {}), tmp_path / "log", Limiter())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import time; time.sleep(600)"), stdin=asyncio.subprocess.PIPE
    )
    worker._process = process
    closing = asyncio.ensure_future(worker.close())
    done, _ = await asyncio.wait((closing,), timeout=0.1)
    assert not done
    worker.kill()
    async with asyncio.timeout(30):
        await closing
    assert process.returncode == -9


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
