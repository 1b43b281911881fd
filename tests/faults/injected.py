"""A headless run that writes files and runs commands, with something done to it at one of its
system calls."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.messages import transcript_problems
from codeagent.session.fold import fold
from codeagent.session.recording import read_recording
from codeagent.session.store import LOG
from tests.e2e.product import Done, Product, Turn, bash, calls, read, say
from tests.warm import WarmProcess

GATED = Path(__file__).with_name("gated.py")
PATH = {"PYTHONPATH": str(Path(__file__).parents[2])}
END = "All of it is done."
TURNS: tuple[Turn, ...] = (
    calls(read("a.txt")),
    calls(bash("echo > ran-1"), ("write", {"path": "new/b.txt", "content": "whole\n" * 500})),
    calls(
        ("edit", {"path": "a.txt", "old_string": "before", "new_string": "after"}),
        bash("echo > ran-2"),
    ),
    calls(("edit", {"path": "a.txt", "old_string": "after", "new_string": "again"})),
    say(END),
)
WORDS = ("before", "after", "again")
ACKNOWLEDGED = {"message.added", "tool.started", "tool.result", "tool.finished", "run.finished"}
"""The types of events that are in the log once they were told."""
_LINE = "one line and another\n" * 500
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)", re.MULTILINE)


@dataclass(frozen=True)
class Point:
    """The nth system call of this name."""

    call: str
    nth: int


def make(folder: Path) -> Product:
    folder.mkdir()
    product = Product(folder / "work", folder / "home")
    product.workspace.mkdir()
    product.home.mkdir()
    (product.workspace / "a.txt").write_text(f"before\n{_LINE}")
    return product


def command(product: Product) -> list[str]:
    """The arguments of the run."""
    model = product.script(*TURNS)
    return ["run", "go", "--model", model, "--sandbox", "off", "--yes", "--output", "jsonl"]


def run(product: Product, point: Point, what: str) -> Done:
    """The whole run, with `what`, in strace's words, at that call; the exit code is negative after
    a signal."""
    options = (
        "-o",
        "/dev/null",
        "-e",
        f"trace={point.call}",
        f"--inject={point.call}:{what}:when={point.nth}",
    )
    return _watched(product, *options)


def _watched(product: Product, *options: str) -> Done:
    here, gate = product.home / "here", product.home / "gate"
    os.mkfifo(here)
    os.mkfifo(gate)
    process = WarmProcess(
        [str(here), str(gate), *command(product)],
        program=str(GATED),
        env=product.environment | PATH,
        cwd=product.workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    here.read_text()
    watcher = ["strace", "-f", "-p", str(process.pid), *options]
    opened = os.open(gate, os.O_RDWR)  # never waits, even if the process has died
    with subprocess.Popen(watcher, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stderr is not None
            assert "attached" in watching.stderr.readline()
            os.write(opened, b"go\n")
            out, err = process.communicate(60)
        finally:
            process.kill()
            os.close(opened)
    return Done(process.returncode, out, err)


def points(product: Product, calls: str, *, below: str = "") -> list[Point]:
    """Every call of these names that an undisturbed run makes in its own process; with a path below
    `below`, if given.

    strace counts for each thread, and so does this: two threads may share a point.
    """
    folder = product.home.parent
    first = make(folder.with_name(f"{folder.name}-first"))  # the very first run compiles modules
    assert first.call_apart(*command(first)).code == 0
    log = product.home / "trace"
    done = _watched(product, "-y", "-e", f"trace={calls},execve", "-o", str(log))
    assert done.code == 0, done.err
    made = [match.groups() for match in _CALL.finditer(log.read_text(errors="replace"))]
    programs = {pid for pid, call, _ in made if call == "execve"}
    counted: dict[tuple[str, str], int] = {}
    found = set()
    for pid, call, arguments in made:
        counted[pid, call] = counted.get((pid, call), 0) + 1
        if pid not in programs and below in arguments:
            found.add(Point(call, counted[pid, call]))
    return sorted(found, key=lambda point: (point.call, point.nth))


def what_broke(product: Product, done: Done) -> list[str]:
    """What was lost, half done or done without a record; the session is resumed afterwards."""
    return [*_half_written(product), *_unrecorded(product, done), *_unusable(product)]


def _half_written(product: Product) -> list[str]:
    found = []
    first, _, rest = (product.workspace / "a.txt").read_text().partition("\n")
    if first not in WORDS or rest != _LINE:
        found.append(f"a.txt is half written: {first!r} and {len(rest)} more")
    written = product.workspace / "new/b.txt"
    if written.exists() and written.read_text() != "whole\n" * 500:
        found.append("b.txt is half written")
    return found


def _unrecorded(product: Product, done: Done) -> list[str]:
    """Commands ran only after the log held them, and what was said on standard output is in the
    log."""
    logged = [event for folder in _begun(product) for event in read_recording(folder / LOG).events]
    begun = [event for event in logged if event.type == "tool.started"]
    ran = sum((product.workspace / f"ran-{number}").exists() for number in (1, 2))
    found = (
        []
        if sum("echo > ran" in repr(event) for event in begun) >= ran
        else ["a command ran without a record"]
    )
    there = {(event.type, event.seq) for event in logged}
    for line in done.out.split("\n")[:-1]:
        event = json.loads(line)
        if (
            event["type"] in ACKNOWLEDGED
            and (event["type"], event["seq"]) not in there
            and "session log" not in done.err
        ):
            found.append(f"{event['type']} {event['seq']} was acknowledged and is lost")
    return found


def _begun(product: Product) -> list[Path]:
    """The sessions; a folder without a log was never one."""
    return [folder for folder in product.sessions if (folder / LOG).exists()]


def _unusable(product: Product) -> list[str]:
    """The session continues, with a history that every provider takes."""
    for folder in _begun(product)[-1:]:
        before = list(read_recording(folder / LOG).events)
        done = product.run(product.script(say("resumed")), "--resume", folder.name)
        if done.code or done.out != "resumed\n":
            return [f"it cannot be resumed: {done.err[-300:]}"]
        recording = read_recording(folder / LOG)
        if list(recording.events[: len(before)]) != before or recording.problems or recording.tail:
            return ["resuming changed or lost records"]
        return [str(problem) for problem in transcript_problems(fold(recording.events).messages)]
    return []
