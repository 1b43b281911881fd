"""A sparse file of 1 TB and a line without end cost no tool, checkpoint or commit memory,
time or disk."""

import asyncio
import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.core.errors import ContentChanged
from codeagent.workspace.files import LocalWorkspace
from tests.e2e.product import Product, bash, calls, results, say, text_of
from tests.effort import FACTOR
from tests.fakes import put
from tests.landings import remove, write
from tests.sandboxes import MIB, make_repository
from tests.warm import WarmProcess

TIB = 1 << 40
LINE = 2048 * MIB if FACTOR else 100 * MIB
"""Of the line without end: it takes room on the disk."""
MOST_MEMORY = 500 * MIB
TURNS = {
    "list": ("list", {"path": "."}),
    "list with a glob": ("list", {"glob": "*"}),
    "search everything": ("search", {"pattern": "needle"}),
    "search the sparse file": ("search", {"pattern": "needle", "path": "sparse"}),
    "search the line": ("search", {"pattern": "needle", "path": "line"}),
    "read the sparse file": ("read", {"path": "sparse"}),
    "read its end": ("read", {"path": "sparse", "offset": 900}),
    "read the line": ("read", {"path": "line"}),
    "read behind the line": ("read", {"path": "line", "offset": 2}),
    "edit it": ("edit", {"path": "sparse", "old": "text", "new": "x"}),
    "overwrite it": ("write", {"path": "sparse", "content": "x"}),
    "write beside it": ("write", {"path": "new.txt", "content": "new\n"}),
    "commit beside it": ("git_commit", {"message": "new", "paths": ["new.txt"]}),
    "commit it": ("git_commit", {"message": "big", "paths": ["sparse"]}),
    "a command": bash("echo here"),
}


def make_huge(root: Path, size: int = LINE) -> None:
    with put(root, "sparse", "text needle\n" * 1000).open("r+b") as file:
        file.truncate(TIB)
    with put(root, "empty", "").open("r+b") as file:
        file.truncate(TIB)
    with (root / "line").open("wb") as file:
        for _ in range(size // MIB):
            file.write(b"a" * MIB)


def most_memory(process: WarmProcess, ended: threading.Event) -> int:
    most = 0
    while not ended.wait(0.05):
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        most = max(most, int(found[1]) * 1024 if found else 0)
    return most


@pytest.mark.soak(row="floods")
def test_every_tool_answers_beside_huge_files_in_bounded_memory(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    product = Product(make_repository(tmp_path / "work"), tmp_path / "home")
    product.home.mkdir()
    make_huge(product.workspace)
    turns = [calls(call) for call in TURNS.values()]
    process = product.start(
        "run",
        "go @sparse",
        "--model",
        product.script(*turns, say("done")),
        "--yes",
        "--sandbox",
        "off",
        "--output",
        "jsonl",
    )
    ended, seen = threading.Event(), []
    watching = threading.Thread(target=lambda: seen.append(most_memory(process, ended)))
    watching.start()
    try:
        out, err = process.communicate(110)
    finally:
        process.kill()
        ended.set()
        watching.join()
    tried(len(TURNS))
    assert json.loads(out.splitlines()[-1])["type"] == "run.finished", err[-2000:]
    said = dict(zip(TURNS, (text_of(result) for result in results(product.log())), strict=True))
    assert "new.txt:" not in said["search everything"]
    assert "[Not searched: 3 files over 16 MiB (" in said["search everything"]
    assert (
        "is not searched" in said["search the sparse file"]
        and "is not searched" in said["search the line"]
    )
    assert "text needle" in said["read the sparse file"] or "binary" in said["read the sparse file"]
    assert "here" in said["a command"] and (product.workspace / "new.txt").read_text() == "new\n"
    assert (product.workspace / "sparse").stat().st_size == TIB
    assert 0 < seen[0] < MOST_MEMORY
    assert (
        sum(path.stat().st_size for path in product.home.rglob("*") if path.is_file()) < 100 * MIB
    )
    exported = product.call("sessions", "export", product.sessions[-1].name)
    assert exported.code == 0, exported.err


def test_a_file_that_became_huge_since_it_was_read_is_refused_unhashed(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    path = put(tmp_path, "it", "old")
    with path.open("r+b") as file:
        file.truncate(TIB)
    with pytest.raises(ContentChanged):
        write(workspace, "it", b"new", base=b"old")
    with pytest.raises(ContentChanged):
        remove(workspace, "it", base=b"old")
    os.truncate(path, 3)
    write(workspace, "it", b"new", base=b"old")
    assert path.read_bytes() == b"new"


async def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "it")
    workspace = LocalWorkspace(tmp_path)
    with pytest.raises(Exception, match="not a regular file"):
        await asyncio.wait_for(asyncio.to_thread(workspace.open, "it"), 5)
