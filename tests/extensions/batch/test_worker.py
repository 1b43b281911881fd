"""The process that works on tasks, after the batch that started it was killed."""

import os
import subprocess
from pathlib import Path

from codeagent.extensions.batch.worker import teller
from tests.e2e.product import Product


def test_a_task_continues_if_nobody_reads_its_progress() -> None:
    reading, writing = os.pipe()
    tell = teller(writing)
    tell({"state": "working"})
    assert os.read(reading, 100) == b'{"state": "working"}\n'
    os.close(reading)
    tell({"state": "working"})
    os.close(writing)


def test_a_line_that_the_death_of_the_batch_cut_off_is_not_a_task(tmp_path: Path) -> None:
    product = Product(tmp_path, tmp_path)
    for given in ("", '{"task": {"repo', '{"go": [1'):
        reading, writing = os.pipe()
        os.write(writing, given.encode())
        os.close(writing)
        done = product.call_apart("batch", "work", stdin=reading)
        os.close(reading)
        assert (done.code, done.out, done.err) == (0, "", "")


def test_a_user_who_starts_a_worker_is_told_what_to_start_instead(tmp_path: Path) -> None:
    done = Product(tmp_path, tmp_path).call_apart("batch", "work", stdin=subprocess.DEVNULL)
    assert (done.code, done.out) == (2, "")
    assert "only a batch starts this command; start one with codeagent batch run" in done.err
