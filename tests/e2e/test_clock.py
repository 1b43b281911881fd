"""The clock is set by a day or by ten years, at every moment; durations, order and ids do not
depend on it."""

import itertools
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.sandbox import image
from codeagent.sandbox.engine import Engine
from tests.e2e.product import Product, bash, calls, of, say

DAY = 86_400.0
OFFSETS = (0.0, -DAY, DAY, -3650 * DAY, 3650 * DAY)


def leaping(seed: int) -> Callable[[], float]:
    """A clock that is set anew before each look at it."""
    true, choose = time.time, random.Random(seed)
    return lambda: true() + choose.choice(OFFSETS)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_clock_that_leaps_at_every_look_a_session_is_run_resumed_and_listed(
    product: Product, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    job = ("bash", {"command": "sleep 0.1; echo from the job", "run_in_background": True})
    wait = ("job_wait", {"id": "job-1"})
    write = ("write", {"path": "new.txt", "content": "x\n"})
    first = product.script(calls(bash("true"), write, job), calls(wait), say("first answer"))
    second = product.script(calls(("read", {"path": "new.txt"})), say("second answer"))
    monkeypatch.setattr(time, "time", leaping(seed))
    done = product.run(first, "--yes")
    assert (done.code, done.out) == (0, "first answer\n"), done.err
    again = product.run(second, "--continue")
    assert (again.code, again.out) == (0, "second answer\n"), again.err
    log = product.log()
    numbers = [event["seq"] for event in log]
    assert all(earlier < later for earlier, later in itertools.pairwise(numbers))
    took = [(event["type"], event["duration_ms"]) for event in log if "duration_ms" in event]
    assert len(took) > 8 and all(0 <= milliseconds < 60_000 for _, milliseconds in took), took
    assert len(of(log, "job.finished")) == 1
    assert product.call("sessions", "check", "--last").code == 0
    listed = product.call("sessions", "list")
    assert product.sessions[0].name in listed.out
    assert product.call("stats").code == 0


def test_ids_differ_whatever_the_clock_says(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still, so all begin in the same second."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(time, "gmtime", lambda *_: time.struct_time((2030, 1, 1, 0, 0, 0, 1, 1, 0)))
    model = product.script(say("hello"))
    for _ in range(3):
        assert product.run(model).code == 0
    names = [folder.name for folder in product.sessions]
    assert len(set(names)) == 3 and all(
        re.fullmatch(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}", name) for name in names
    )


def test_an_image_whose_pull_failed_in_the_future_is_pulled_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failure while the clock was ten years ahead."""
    failed = tmp_path / "sandbox" / "pull-failed"
    failed.parent.mkdir()
    failed.write_text("no network")
    pulled: list[Engine] = []
    monkeypatch.setattr(
        image, "pull_default", lambda engine, tell: pulled.append(engine) or "no network"
    )
    for ahead, times in ((3650 * DAY, 1), (0.0, 1), (-DAY, 2)):
        os.utime(failed, (time.time() + ahead,) * 2)
        image._pull_once(Engine("/nowhere"), tmp_path, lambda _: None)
        assert len(pulled) == times
