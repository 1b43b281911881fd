"""Whenever codeagent is killed, within ten seconds nothing of what it started is alive."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from tests.e2e.product import Product, bash, calls, running, say
from tests.effort import part
from tests.sandboxes import make_repository

POINTS = (24, *range(2, 24, 2), *range(26, 42, 2))
"""Events printed before the kill: from the first to those of the last command, which does not
end."""


def alive(workspace: Path, marks: tuple[str, ...]) -> list[str]:
    engine = Engine(engine_socket(os.environ.get("DOCKER_HOST")))
    try:
        containers = engine.containers(f"codeagent.workspace={workspace}")
    finally:
        engine.close()
    lines = [line.decode(errors="replace") for line in running()]
    return [
        *containers,
        *(line for line in lines if any(f"sleep\0{mark}\0" in line for mark in marks)),
    ]


@pytest.mark.docker
@pytest.mark.soak(row="orphans")
def test_nothing_lives_on_after_a_kill_at_any_event(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    left, killed = {}, 0
    for point in part(POINTS, 1):
        product = Product(make_repository(tmp_path / f"{point}/work"), tmp_path / f"{point}/home")
        product.home.mkdir()
        marks = tuple(f"8{point}{number}{os.getpid()}" for number in range(4))
        turns = [
            calls(bash(f"setsid sleep {marks[0]} > /dev/null 2>&1 & sleep {marks[1]} & echo one")),
            calls(("bash", {"command": f"sleep {marks[2]}", "run_in_background": True})),
            *[calls(bash(f"echo {number}")) for number in range(4)],
            calls(bash(f"sleep {marks[3]}")),
            say("never"),
        ]
        process = product.start(
            "run",
            "go",
            "--model",
            product.script(*turns),
            "--mode",
            "auto",
            "--output",
            "jsonl",
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        for _ in range(point):
            assert process.stdout.readline(), "it ended too early"
        process.kill()
        killed += process.wait(30) == -9
        until = time.monotonic() + 10
        while (found := alive(product.workspace, marks)) and time.monotonic() < until:
            time.sleep(0.05)
        if found:
            left[point] = found
    tried(killed)
    assert left == {}
    assert killed
