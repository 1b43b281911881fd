"""A session whose repair is killed, at any system call, is repaired by the next one as if
nothing had happened."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from codeagent.core.messages import transcript_problems
from codeagent.session.fold import fold
from codeagent.session.recording import read_recording
from codeagent.session.repair import DAMAGED, check_recording
from codeagent.session.store import LOG
from tests.e2e.product import Product, bash, calls, say
from tests.effort import times
from tests.strace import killing_at, writing_down

pytestmark = pytest.mark.strace

CHANGES = "write,pwrite64,ftruncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,openat"
SYNCS = "fsync,fdatasync"
TORN = b'{"v":1,"seq":99,"ts":1.5,"session":"'


@pytest.fixture
def product(tmp_path: Path) -> Product:
    """A session that was killed in the middle of a call and of a record."""
    (tmp_path / "home").mkdir()
    product = Product(tmp_path / "work", tmp_path / "home")
    product.workspace.mkdir()
    assert product.run(product.script(calls(bash("true")), say("ok")), "--yes").code == 0
    log = product.sessions[-1] / LOG
    lines = log.read_bytes().splitlines(keepends=True)
    begun = next(number for number, line in enumerate(lines) if b'"tool.started"' in line)
    log.write_bytes(b"".join(lines[: begun + 1]) + TORN)
    return product


def resume(product: Product, folder: Path, *before: str) -> int:
    """Resume the session in a copy of the state; how it ended."""
    environment = product.environment | {
        "XDG_STATE_HOME": str(folder),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "codeagent",
        "run",
        "more",
        "--resume",
        product.sessions[-1].name,
    ]
    command += ["--sandbox", "off", "--model", product.script(say("resumed"))]
    done = subprocess.run(
        [*before, *command],
        cwd=product.workspace,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=100,
    )
    return done.returncode


def state(product: Product, folder: Path) -> Path:
    shutil.copytree(product.home / "state", folder)
    return folder


def log_in(product: Product, folder: Path) -> Path:
    return folder / "codeagent/sessions" / product.sessions[-1].name / LOG


def kill_points(product: Product, tmp_path: Path) -> list[tuple[str, int]]:
    """Names of system calls, and which call of these, once the session is open; strace counts for
    each thread."""
    trace = tmp_path / "trace"
    counting = writing_down(f"{CHANGES},{SYNCS}", trace)
    assert resume(product, state(product, tmp_path / "counted"), *counting) == 0
    made = [
        line.split(maxsplit=1)
        for line in trace.read_text().splitlines()
        if re.match(r"\d+ +\w+\(", line)
    ]
    own = [
        call
        for pid, call in made
        if pid == made[0][0] and call.partition("(")[0] in CHANGES.split(",")
    ]
    first = next(number for number, call in enumerate(own, 1) if "sessions" in call)
    syncs = Counter(pid for pid, call in made if call.partition("(")[0] in SYNCS.split(","))
    every = [(CHANGES, nth) for nth in range(first, len(own) + 1)]
    return every[:: max(1, len(every) // 100)] + [
        (SYNCS, nth) for nth in range(1, max(syncs.values()) + 1)
    ]


@pytest.mark.soak(tried=times(2), row="kills at system calls")
def test_a_repair_that_is_killed_anywhere_is_finished_by_the_next_one(
    product: Product, tmp_path: Path
) -> None:
    whole = product.sessions[-1] / LOG
    acknowledged = whole.read_bytes().removesuffix(TORN)
    points = kill_points(product, tmp_path)
    tried, killed = points[:: max(1, len(points) // times(2))], 0
    for number, (names, nth) in enumerate(tried):
        folder = state(product, tmp_path / f"killed{number}")
        killed += resume(product, folder, *killing_at(names, nth)) < 0
        log = log_in(product, folder)
        assert log.read_bytes().startswith(acknowledged), (names, nth)
        assert resume(product, folder) == 0, (names, nth)
        recording = read_recording(log)
        assert (check_recording(recording).problems, recording.problems, recording.tail) == (
            (),
            (),
            b"",
        ), (names, nth)
        assert log.read_bytes().startswith(acknowledged), (names, nth)
        assert TORN in log.with_name(DAMAGED).read_bytes(), (names, nth)
        history = fold(recording.events)
        assert not transcript_problems(history.messages), (names, nth)
        results = [event for event in recording.events if event.type == "tool.result"]
        assert len(results) == 1, (
            "the call that was open has one result, however often the repair was begun"
        )
    assert killed >= len(tried) // 2, "the last calls are not made in every run"
