"""Running things and reading the clock: what every figure is made of."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CODEAGENT = [sys.executable, "-m", "codeagent"]
SCRIPT = [str(Path(sys.executable).parent / "codeagent")]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
"""With it every start would compile what has no cache yet; the first, uncounted, run of each kind
writes the cache."""


@dataclass(frozen=True)
class Figure:
    """One row: what was measured, the floor of the same run, and what is aimed at."""

    name: str
    ours: str
    floor: str
    ratio: float | None
    target: str


@dataclass(frozen=True)
class Finished:
    """One process: wall seconds, CPU seconds, peak resident memory in MB."""

    wall: float
    cpu: float
    peak_mb: float
    code: int
    stdout: str


def run(
    command: Sequence[str], cwd: Path | None = None, env: dict[str, str] | None = None
) -> Finished:
    """Run to the end under `wait4`, so that time and memory are the process's own."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            print(err.read().decode(errors="replace")[-2000:], file=sys.stderr)
        text = out.read().decode(errors="replace")
    return Finished(
        wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, text
    )


def median_of(times: int, work: Callable[[], float]) -> float:
    """The median of `times` measurements after one that is not counted."""
    work()
    return statistics.median(work() for _ in range(times))


@dataclass(frozen=True)
class Server:
    base_url: str

    def log(self) -> list[dict[str, float]]:
        root = self.base_url.removesuffix("/v1")
        with urllib.request.urlopen(f"{root}/log") as answer:
            entries: list[dict[str, float]] = json.load(answer)
        return entries


@contextmanager
def model_server(turns: list[dict[str, Any]]) -> Iterator[Server]:
    """The model of `model_server.py` in a process of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(turns, file)
        file.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.model_server", file.name],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            yield Server(f"http://127.0.0.1:{process.stdout.readline().strip()}/v1")
        finally:
            process.terminate()
            process.wait()


@contextmanager
def workspace() -> Iterator[Path]:
    """An empty git repository that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        yield Path(folder)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
