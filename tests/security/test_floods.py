"""Floods of output, processes, memory and files leave the program small, and the
next command works."""

import itertools
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, bash, calls, results, say, text_of
from tests.effort import part
from tests.sandboxes import MIB, make_repository
from tests.warm import WarmProcess

Call = tuple[str, dict[str, Any]]
MOST_MEMORY = 500 * MIB
MOST_ON_DISK = 100 * MIB
"""For each flood: the full output is kept, up to a limit."""


def limited(command: str) -> Call:
    return "bash", {"command": command, "timeout": 20}


FLOODS: dict[str, list[Call]] = {
    "a sparse file": [
        limited("truncate -s 1T sparse"),
        ("read", {"path": "sparse"}),
        limited("rm sparse"),
    ],
    "many lines": [limited("yes | head -c 40000000")],
    "one long line": [limited("head -c 100000000 /dev/zero | tr '\\0' x")],
    "both streams": [limited("seq 1000000; seq 1000000 >&2")],
    "random bytes": [limited("head -c 30000000 /dev/urandom")],
    "escapes": [limited("yes $'\\e[2J\\e]52;c;eA==\\a' | head -c 20000000")],
    "a job that never stops": [("bash", {"command": "timeout 3 yes", "run_in_background": True})],
    "processes": [("bash", {"command": "bomb() { bomb | bomb & }; bomb; sleep 1", "timeout": 3})],
    "memory": [limited("perl -e '$x = \"x\" x 6_000_000_000; print length $x'")],
    "a temporary file": [
        limited("dd if=/dev/zero of=/tmp/big bs=1M count=4000 2>&1; rm -f /tmp/big")
    ],
    "many files": [limited("mkdir many; cd many; seq 5000 | xargs touch")],
    "a pipe and a deep folder": [
        limited("mkfifo pipe; for i in $(seq 300); do mkdir d; cd d; done; touch deep"),
        ("read", {"path": "pipe"}),
        ("search", {"pattern": "x", "path": "pipe"}),
        ("list", {"path": "."}),
    ],
    "a search in much": [
        limited("seq 2000000 > numbers"),
        ("search", {"pattern": "1"}),
        ("read", {"path": "numbers"}),
    ],
}


AFTERWARDS = (bash("true"), bash("echo alive"))
"""The first may be told that the container was lost with the flood; then the next has a new one, or
gets one."""


def memory_of(process: WarmProcess, ended: threading.Event) -> list[int]:
    """The most that the process had resident, each time it was looked at; until it ends."""
    seen = []
    while not ended.wait(0.05):
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        if found := re.search(r"VmHWM:\s+(\d+) kB", status):
            seen.append(int(found[1]) * 1024)
    return seen


@pytest.mark.docker
@pytest.mark.soak(row="floods")
def test_floods_leave_the_program_small_and_the_next_command_works(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    product = Product(make_repository(tmp_path / "work"), tmp_path / "home")
    product.home.mkdir()
    chosen = part([*FLOODS], 1)
    turns = [calls(call) for name in chosen for call in (*FLOODS[name], *AFTERWARDS)]
    process = product.start(
        "run",
        "go",
        "--model",
        product.script(*turns, say("done")),
        "--mode",
        "auto",
        "--output",
        "jsonl",
    )
    ended, seen = threading.Event(), []
    watching = threading.Thread(target=lambda: seen.extend(memory_of(process, ended)))
    watching.start()
    try:
        out, err = process.communicate(600)
    finally:
        process.kill()
        ended.set()
        watching.join()
    tried(len(chosen))
    assert json.loads(out.splitlines()[-1])["type"] == "run.finished", err[-2000:]
    said = [text_of(result).strip() for result in results(product.log())]
    ends = itertools.accumulate(len(FLOODS[name]) + len(AFTERWARDS) for name in chosen)
    last = {name: said[end - 1] for name, end in zip(chosen, ends, strict=True)}
    assert {name: text for name, text in last.items() if text.splitlines()[0] != "alive"} == {}
    assert seen and max(seen) < MOST_MEMORY
    kept = [path.stat().st_size for path in product.home.rglob("*") if path.is_file()]
    assert max(kept) < MOST_ON_DISK and sum(kept) < MOST_ON_DISK * len(chosen)
    assert "Traceback" not in err
    assert len(FLOODS) >= 12
