"""The session survives its process and its disk: whatever was acknowledged is there, and it always
goes on."""

import asyncio
import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.events import KnownEvent, Notice
from codeagent.core.messages import transcript_problems
from codeagent.core.redact import Redactor
from codeagent.session.fold import fold
from codeagent.session.recording import Recording, read_recording
from codeagent.session.repair import DAMAGED, check_recording, closing_events
from codeagent.session.store import LOG, SessionStore
from tests.e2e.product import Product, bash, calls, read, say
from tests.effort import times
from tests.session.eventlogs import finished_run
from tests.warm import WarmProcess

WRITER = """
import asyncio, sys, time
from pathlib import Path
from typing import Any
from codeagent.core.events import Notice
from codeagent.core.redact import Redactor
from codeagent.session.store import SessionStore

async def main():
    log = SessionStore(Path(sys.argv[1]), Redactor({})).create()
    for number in range(100000):
        text = f"{number} " + "x" * 3000
        log.append(Notice(seq=log.next_seq, ts=time.time(), session=log.session_id, code="n", text=text))
        if number % 3 == 0:
            await log.sync()
            print(number, flush=True)

asyncio.run(main())
"""


TAKING_TURNS = """
import sys, time
from pathlib import Path
from codeagent.core.errors import SessionInUse
from codeagent.core.events import Notice
from codeagent.core.redact import Redactor
from codeagent.session.store import SessionStore

store = SessionStore(Path(sys.argv[1]), Redactor({}))
done = 0
while done < 5:
    try:
        log, _ = store.open(sys.argv[2])
    except SessionInUse:
        time.sleep(0.002)
        continue
    log.append(Notice(seq=log.next_seq, ts=1.0, session=sys.argv[2], code="n", text=sys.argv[3]))
    log.close()
    done += 1
"""
LIMITED = """
import resource, runpy, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
sys.argv[0] = "codeagent"
runpy.run_module("codeagent", run_name="__main__")
"""


def started(folder: Path, program: str, *arguments: str, **options: Any) -> WarmProcess:
    """This Python as a program of its own."""
    file = folder / "program.py"
    if not file.exists():  # another of the same kind may be reading it
        file.write_text(program)
    return WarmProcess(arguments, program=str(file), **{"env": dict(os.environ), **options})


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state", Redactor({}))


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "work/a.txt").write_text("text\n")
    return Product(tmp_path / "work", tmp_path / "home")


def stored(store: SessionStore) -> Path:
    log = store.create()
    for event in finished_run():
        log.append(event)
    log.close()
    return store.folder(log.session_id) / LOG


def go_on(store: SessionStore, session_id: str) -> tuple[Recording, Recording]:
    """Open, close what is open, append, and read again: what was found, and what is there then."""
    log, found = store.open(session_id)
    for event in closing_events(found.events, session_id, log.next_seq, 1.0):
        log.append(event)
    log.append(Notice(seq=log.next_seq, ts=1.0, session=session_id, code="a", text="went on"))
    log.close()
    return found, store.read(session_id)


def assert_sound(recording: Recording) -> None:
    report = check_recording(recording)
    assert (report.problems, report.repairs) == ((), ())
    assert transcript_problems(fold(recording.events).messages) == []


def test_a_log_cut_at_any_byte_keeps_every_whole_record_and_goes_on(store: SessionStore) -> None:
    path = stored(store)
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    rng = random.Random(1)
    cuts = {0, len(whole), *ends, *(end - 1 for end in ends), *(end + 1 for end in ends[:-1])}
    cuts |= set(rng.sample(range(len(whole)), times(30)))
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut or end - 1 == cut for end in ends)
        found, after = go_on(store, path.parent.name)
        assert list(found.events) == finished_run()[:complete]
        assert list(after.events[:complete]) == finished_run()[:complete]
        assert_sound(after)


@pytest.mark.parametrize(
    "stage", ["before the copy", "in mid copy", "after the copy", "after the cut"]
)
def test_a_crash_during_the_repair_is_repaired_by_the_next_start(
    store: SessionStore, stage: str
) -> None:
    path = stored(store)
    whole = path.read_bytes()
    torn = b'{"v":1,"seq":77,"ts":5.0,"session":"half'
    path.write_bytes(whole + torn)
    copies = {
        "before the copy": b"",
        "in mid copy": torn[:9],
        "after the copy": torn,
        "after the cut": torn,
    }
    path.with_name(DAMAGED).write_bytes(copies[stage])
    if stage == "after the cut":
        path.write_bytes(whole)
    _, after = go_on(store, path.parent.name)
    assert path.with_name(DAMAGED).read_bytes().endswith(torn)
    assert path.with_name(DAMAGED).read_bytes().count(torn) == 1
    assert_sound(after)


@pytest.mark.soak(tried=1, row="kills at random")
@pytest.mark.parametrize("seed", range(times(3)))
def test_after_kill_9_every_acknowledged_event_is_there(
    store: SessionStore, tmp_path: Path, seed: int
) -> None:
    writer = started(tmp_path, WRITER, str(store.root.parent), stdout=subprocess.PIPE)
    assert writer.stdout is not None
    acknowledged = int(writer.stdout.readline())
    time.sleep(random.Random(seed).random() / 5)
    writer.kill()
    acknowledged = max(
        [acknowledged, *(int(line) for line in writer.stdout.read().splitlines() if line.isdigit())]
    )
    writer.wait()
    found, after = go_on(store, store.last())
    assert [event.seq for event in found.events] == list(range(1, len(found.events) + 1))
    assert len(found.events) > acknowledged
    assert_sound(after)


def test_a_disk_that_fills_up_stops_the_run_before_the_next_call_and_says_so(
    product: Product,
) -> None:
    """The kernel refuses every byte past a file size limit, as a full disk does."""
    model = product.script(
        *[calls(read("a.txt"), text="x" * 500)] * 20, calls(bash("touch ran")), say("never")
    )
    arguments = ["run", "go", "--model", model, "--sandbox", "off", "--yes"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = started(
        product.home, LIMITED, *arguments, cwd=product.workspace, env=product.environment, **pipes
    )
    _, said = process.communicate(60)
    assert process.returncode == 1
    assert "session log" in said and "File too large" in said
    assert "Traceback" not in said
    assert not (product.workspace / "ran").exists()
    recording = read_recording(product.sessions[0] / LOG)
    assert (recording.problems, recording.tail) == ((), b"")
    assert (
        product.run(product.script(say("Going on.")), "--resume", product.sessions[0].name).out
        == "Going on.\n"
    )


def test_eight_processes_that_want_one_session_get_it_one_at_a_time(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = stored(store).parent.name
    place = str(store.root.parent), session_id
    writers = [started(tmp_path, TAKING_TURNS, *place, str(number)) for number in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    recording = store.read(session_id)
    events: list[KnownEvent] = [event for event in recording.events if isinstance(event, Notice)]
    assert (len(events), recording.problems) == (40, ())


async def test_a_sync_that_runs_while_more_is_written_covers_what_came_before_it(
    store: SessionStore,
) -> None:
    log = store.create()
    for round_ in range(times(10)):
        for _ in range(5):
            log.append(
                Notice(seq=log.next_seq, ts=1.0, session=log.session_id, code="n", text=str(round_))
            )
        await asyncio.gather(log.sync(), log.sync())
    log.close()
    assert len(store.read(log.session_id).events) == times(10) * 5


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf {state}",
        "mv {state} {state}-away",
        "cd {state}/sessions/* && cp events.jsonl x && mv x events.jsonl",
    ],
)
@pytest.mark.parametrize(
    "more", [[], [calls(bash("touch ran"))]], ids=["in the last batch", "with a call to come"]
)
def test_a_log_that_goes_away_during_the_run_fails_it_before_anything_else_is_done(
    product: Product, command: str, more: list[dict[str, Any]]
) -> None:
    state = product.home / "state/codeagent"
    model = product.script(calls(bash(command.format(state=state))), *more, say("All done."))
    done = product.run(model, "--yes", "--output", "json")
    report = json.loads(done.out)
    assert (done.code, report["reason"]) == (1, "failed")
    assert (
        "was removed or replaced while this ran" in report["error"]
        and "in the workspace is kept" in report["error"]
    )
    assert not any(line.startswith("done") for line in done.err.splitlines())
    assert not (product.workspace / "ran").exists()
