"""Ends: a command stopped with Esc, and a process that is told to go while a command runs in the
container."""

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.commands import exec_true_of
from benchmarks.measure import CODEAGENT, Figure, ms
from benchmarks.place import BenchEnvironment, place
from benchmarks.screen_pty import READY, Terminal, terminal

SLEEP = "sleep 611.35"
"""Nobody else on this machine is likely to run it."""
TIMES = 5


def figures() -> Iterator[Figure]:
    with place() as here:
        model = here.script({"calls": [["bash", {"command": SLEEP}]]}, {"text": "never"})
        stopped = [_escape(model, here) for _ in range(TIMES)]
        floor, dead, usable = (statistics.median(column) for column in zip(*stopped, strict=True))
        for name, ours, target in (
            ("Esc to a usable prompt", usable, "<= 120 ms"),
            ("Esc to the command's death", dead, "-"),
            ("SIGTERM to exit, headless", _median(lambda: _terminated(model, here)), "<= 150 ms"),
            (
                "SIGTERM to exit, screen",
                _median(lambda: _screen_terminated(model, here)),
                "<= 150 ms",
            ),
        ):
            yield Figure(
                f"{name}, command running",
                ms(ours),
                f"docker exec true {ms(floor)}",
                ours / floor,
                target,
            )


def _median(once: Callable[[], float]) -> float:
    return statistics.median(once() for _ in range(TIMES))


def _escape(model: str, here: BenchEnvironment) -> tuple[float, float, float]:
    """Seconds of `docker exec true`, and from the second Esc to the end of the command and to an
    idle prompt."""
    with terminal(
        [*CODEAGENT, "--model", model, "--mode", "auto"], here.workspace, here.env
    ) as screen:
        _begin(screen)
        floor = exec_true_of(here.session)
        screen.settle(0.3)
        screen.type("\x1b")
        screen.drain(0.2)
        screen.watch("stopped")
        pressed = screen.type("\x1b")
        dead = _until_gone(screen) - pressed
        while not screen.watched and time.monotonic() < pressed + 10:
            screen.drain(0.002)
        return floor, dead, time.monotonic() - pressed


def _screen_terminated(model: str, here: BenchEnvironment) -> float:
    with terminal(
        [*CODEAGENT, "--model", model, "--mode", "auto"], here.workspace, here.env
    ) as screen:
        _begin(screen)
        screen.settle(0.5)
        told = time.monotonic()
        screen.process.send_signal(signal.SIGTERM)
        while screen.process.poll() is None:
            screen.drain(0.002)
        return time.monotonic() - told


def _terminated(model: str, here: BenchEnvironment) -> float:
    command = [*CODEAGENT, "run", "--model", model, "--mode", "auto", "go"]
    with subprocess.Popen(
        command,
        cwd=here.workspace,
        env={**os.environ, **here.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 60
        while not _running() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait()
        return time.monotonic() - told


def _begin(screen: Terminal) -> None:
    """Have the command run in the container."""
    screen.until(READY)
    screen.until("docker", 60)
    screen.type("go\r")
    deadline = time.monotonic() + 60
    while not _running():
        if time.monotonic() > deadline:
            raise TimeoutError("the command never ran")
        screen.drain(0.02)


def _until_gone(screen: Terminal) -> float:
    deadline = time.monotonic() + 20
    while _running():
        if time.monotonic() > deadline:
            raise TimeoutError("the command is still running")
        screen.drain(0.005)
    return time.monotonic()


def _running() -> bool:
    running = SLEEP.replace(" ", "\0").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().strip(b"\0") == running:
                return True
        except OSError:
            continue
    return False
