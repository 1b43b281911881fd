"""Search over 80,000 files, against ripgrep itself."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, median_of, ms

FILES = 80_000
RG = Path(sys.executable).parent / "rg"


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        root = Path(folder)
        _plant(root)
        for name, pattern in (("rare", "needle_[0-9]+"), ("frequent", "def work")):
            ours, floor = _tool(root, pattern), _ripgrep(root, pattern)
            yield Figure(
                f"search {FILES:,} files, a {name} match",
                ms(ours),
                f"rg {ms(floor)}",
                ours / floor,
                "<= 1.15",
            )


def _plant(root: Path) -> None:
    for number in range(FILES):
        folder = root / f"d{number // 1000}" / f"e{number // 50 % 20}"
        if number % 50 == 0:
            folder.mkdir(parents=True, exist_ok=True)
        text = "def work(x):\n    return x\n" + (f"needle_{number}\n" if number % 8000 == 7 else "")
        (folder / f"f{number}.py").write_text(text)


def _ripgrep(root: Path, pattern: str) -> float:
    def once() -> float:
        started = time.monotonic()
        command = [RG, "--no-config", "--json", "--", pattern, "."]
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            found = 0
            for line in process.stdout:
                found += line.startswith(b'{"type":"match"')
                if found >= 100:
                    process.kill()
                    break
        return time.monotonic() - started

    return median_of(5, once)


def _tool(root: Path, pattern: str) -> float:
    from codeagent.core.cancel import CancelToken
    from codeagent.core.tool import ToolContext
    from codeagent.tools.builtin.search import Search
    from codeagent.tools.edit.reads import ReadTracker
    from codeagent.workspace.files import LocalWorkspace

    workspace = LocalWorkspace(root)
    tool = Search(workspace, ReadTracker(workspace))

    def once() -> float:
        started = time.monotonic()
        context = ToolContext("c", "search", workspace, None, CancelToken())
        asyncio.run(tool.run(tool.Args(pattern=pattern), context))
        return time.monotonic() - started

    return median_of(5, once)
