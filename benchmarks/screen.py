"""The screen on a real pty: keys, memory, idling, starting, stopping; beside a bare Textual app."""

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import screen_stream
from benchmarks.commands import exec_true_of
from benchmarks.measure import CODEAGENT, Figure, model_server, ms
from benchmarks.screen_place import LAST_ANSWER, Place, place
from benchmarks.screen_pty import READY, Terminal, p95, terminal

BARE = [sys.executable, "-m", "benchmarks.screen_floor", "input"]
PROMPT = "say something"
FIRST_FRAME = b"hat would you like to do?"
"""The composer's placeholder, without the letter under the cursor."""


def figures() -> Iterator[Figure]:
    yield from _at_the_prompt()
    yield from screen_stream.figures()
    yield from _to_the_model()
    yield from _stopped()
    yield from _resumed()


@dataclass(frozen=True)
class _Idle:
    """One start, and then a prompt at which little happens; seconds and MB."""

    start: float
    memory: float
    echo: float
    echo_p95: float
    idle: float
    """Processor seconds per second."""


def _at_the_prompt() -> Iterator[Figure]:
    with place() as here:
        model = here.script({"text": "done"})
        ours = _median([_idle([*CODEAGENT, "--model", model, "--sandbox", "off"], here) for _ in range(5)])
        bare = _median([_idle(BARE, here) for _ in range(5)])
    yield _beside("start to a typed character on screen", ours.start, bare.start, "<= 1.5")
    megabytes = f"{ours.memory:.0f} MB"
    yield Figure("memory, idle at the prompt", megabytes, f"bare {bare.memory:.0f} MB", None, "<= 90 MB")
    yield _beside("key echo, idle, median", ours.echo, bare.echo, "<= 1.5")
    yield _beside("key echo, idle, p95", ours.echo_p95, bare.echo_p95, "<= 1.5")
    yield Figure(
        "idle CPU at the prompt", f"{ours.idle * 1000:.2f} ms/s", f"bare {bare.idle * 1000:.2f} ms/s", None, "<= 1 ms/s"
    )


def _idle(command: Sequence[str], here: Place) -> _Idle:
    started = time.monotonic()
    with terminal(command, here.workspace, here.env) as screen:
        screen.until(READY)
        screen.echo()
        start = time.monotonic() - started
        screen.settle(2.0)
        memory = screen.memory_mb()
        echoes = screen.echoes(80)
        screen.settle(1.0)
        before = screen.cpu()
        screen.drain(5.0)
        return _Idle(start, memory, statistics.median(echoes), p95(echoes), (screen.cpu() - before) / 5)


def _median(runs: Sequence[_Idle]) -> _Idle:
    return _Idle(*(statistics.median(column) for column in zip(*map(_values, runs), strict=True)))


def _values(run: _Idle) -> tuple[float, ...]:
    return run.start, run.memory, run.echo, run.echo_p95, run.idle


def _beside(name: str, ours: float, bare: float, target: str) -> Figure:
    return Figure(name, ms(ours), f"bare Textual app {ms(bare)}", ours / bare, target)


def _to_the_model() -> Iterator[Figure]:
    """With the model library loaded and its first request behind it."""
    with place() as here, model_server([{"text": "the-answer"}]) as server:
        command = [*CODEAGENT, "--model", "openai/bench", "--api-base", server.base_url, "--sandbox", "off"]
        with terminal(command, here.workspace, here.env | {"OPENAI_API_KEY": "k"}) as screen:
            screen.until(READY)
            screen.settle(2.0)
            times = []
            for number in range(8):
                screen.type(f"{PROMPT} {number}")
                screen.settle(0.3)
                entered = screen.type("\r")
                screen.until("the-answer")
                screen.settle(1.0)
                times.append(server.log()[number]["arrived"] - entered)
    first, *warm = times
    yield Figure("Enter to request, warm", ms(statistics.median(warm)), f"the first one {ms(first)}", None, "<= 40 ms")


def _stopped() -> Iterator[Figure]:
    """The second Esc, while `sleep 600` runs in the container, until a key echoes at a prompt that is idle again."""
    usable, dead, floors = [], [], []
    for _ in range(3):
        with place() as here:
            model = here.script({"calls": [["bash", {"command": "sleep 600"}]]}, {"text": "never"})
            with terminal([*CODEAGENT, "--model", model, "--mode", "auto"], here.workspace, here.env) as screen:
                screen.until(READY)
                screen.until("docker", 60)
                screen.type(PROMPT + "\r")
                _until_running(screen, b"sleep\x00600")
                floors.append(exec_true_of(here.session))
                screen.settle(0.3)
                screen.type("\x1b")
                screen.drain(0.2)
                pressed = screen.type("\x1b")
                dead.append(_until_gone(screen, b"sleep\x00600") - pressed)
                screen.until("stopped", 10)
                usable.append(time.monotonic() - pressed)
    floor = statistics.median(floors)
    for name, times in (("Esc to a usable prompt", usable), ("Esc to the command's death", dead)):
        ours = statistics.median(times)
        yield Figure(name, ms(ours), f"docker exec true {ms(floor)}", ours / floor, "<= 250 ms")


def _processes(command: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().strip(b"\0") == command:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def _until_running(screen: Terminal, command: bytes) -> None:
    deadline = time.monotonic() + 60
    while not _processes(command):
        if time.monotonic() > deadline:
            raise TimeoutError("the command never ran")
        screen.drain(0.02)


def _until_gone(screen: Terminal, command: bytes) -> float:
    deadline = time.monotonic() + 20
    while _processes(command):
        if time.monotonic() > deadline:
            raise TimeoutError("the command is still running")
        screen.drain(0.005)
    return time.monotonic()


def _resumed() -> Iterator[Figure]:
    with place() as here:
        session = here.long_session(1000)
        empty, full, memory = [], [], []
        model = here.script({"text": "done"})
        for _ in range(5):
            empty.append(_until_shown([*CODEAGENT, "--model", model, "--sandbox", "off"], here, FIRST_FRAME)[0])
            command = [*CODEAGENT, "--model", model, "--sandbox", "off", "--resume", session]
            taken, megabytes = _until_shown(command, here, LAST_ANSWER.encode())
            full.append(taken)
            memory.append(megabytes)
    late = statistics.median(full) - statistics.median(empty)
    floor = f"empty session {ms(statistics.median(empty))}"
    yield Figure("resume of 2,000 messages, later", ms(late), floor, None, "<= 500 ms")
    yield Figure("memory with 2,000 messages", f"{statistics.median(memory):.0f} MB", "-", None, "+ <= 60 MB")


def _until_shown(command: Sequence[str], here: Place, text: bytes) -> tuple[float, float]:
    """Seconds until the text is on screen, and the memory after things came to rest."""
    started = time.monotonic()
    with terminal(command, here.workspace, here.env) as screen:
        shown = screen.until(text) - started
        screen.settle(2.0)
        return shown, screen.memory_mb()
