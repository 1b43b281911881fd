"""A run against the model server: when its requests came, when it ended, what it used."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import CODEAGENT, Finished, Server, model_server, run
from benchmarks.place import BenchEnvironment
from benchmarks.processes import memory_mb

RUN = [*CODEAGENT, "run", "--model", "openai/bench", "--api-base", "BASE", "--yes"]
HOST = [*RUN, "--sandbox", "off", "go"]
CONTAINER = [*RUN, "--sandbox", "docker", "go"]
"""`BASE` becomes the address of the server."""


def floor(turns: int = 0) -> list[str]:
    """The bare script with the product's HTTP client, which runs a command in so many turns."""
    return [sys.executable, str(Path(__file__).with_name("http_floor.py")), "BASE", str(turns)]


def bash_turns(count: int, command: str = "echo hello") -> list[dict[str, Any]]:
    """So many turns of one command each, and the answer; no command twice, as such a row would be
    refused."""
    return [{"calls": [["bash", {"command": f"{command} {turn}"}]]} for turn in range(count)] + [
        {"text": "done"}
    ]


@dataclass(frozen=True)
class Served:
    """Times are of the system-wide monotonic clock."""

    started: float
    exited: float
    log: list[dict[str, float]]
    done: Finished

    @property
    def to_first_request(self) -> float:
        return self.log[0]["arrived"] - self.started

    @property
    def gaps(self) -> list[float]:
        """Seconds from the end of each response to the arrival of the next request."""
        return [
            later["arrived"] - earlier["ended"] for earlier, later in itertools.pairwise(self.log)
        ]

    @property
    def to_exit(self) -> float:
        """Seconds from the end of the last response to the end of the process."""
        return self.exited - self.log[-1]["ended"]


def served(command: Sequence[str], turns: list[dict[str, Any]], here: BenchEnvironment) -> Served:
    with model_server(turns) as server:
        started = time.monotonic()
        done = run(_filled(command, server), cwd=here.workspace, env=here.env)
        return Served(started, started + done.wall, server.log(), done)


def memory_at(
    command: Sequence[str], turns: list[dict[str, Any]], here: BenchEnvironment, *numbers: int
) -> list[float]:
    """PSS in MB of a run while it waits for the responses with these numbers, which are held back
    for a second."""
    slow = [
        turn | {"wait": 1.0} if number in numbers else turn for number, turn in enumerate(turns)
    ]
    found = []
    with model_server(slow) as server:
        output = subprocess.DEVNULL
        process = subprocess.Popen(
            _filled(command, server),
            cwd=here.workspace,
            env={**os.environ, **here.env},
            stdin=output,
            stdout=output,
            stderr=output,
        )
        for number in numbers:
            while len(server.log()) <= number and process.poll() is None:
                time.sleep(0.05)
            time.sleep(0.3)
            found.append(memory_mb(process.pid))
        process.wait()
    return found


def _filled(command: Sequence[str], server: Server) -> list[str]:
    return [part.replace("BASE", server.base_url) for part in command]
