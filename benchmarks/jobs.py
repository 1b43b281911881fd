"""Jobs: what fifty of them at a time hold in memory, and what one that prints a gigabyte does."""

import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from benchmarks.measure import Figure
from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.policy import Decision
from codeagent.core.redact import Redactor
from codeagent.core.sandbox import Command, CommandResult, OnOutput
from codeagent.session.outputs import FileOutputs
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Turn
from tests.agent.job_doubles import Backstage
from tests.fakes import FakeSandbox

JOBS = 50
LINES = 400
"""Of 80 characters, in each piece; what a build prints in a moment."""
PIECE = b"".join(b"%-79d\n" % number for number in range(LINES))


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        loud = asyncio.run(_grown(root / "loud", JOBS, 100))
        yield Figure(
            f"memory of {JOBS} jobs that printed 3 MB each",
            f"{loud:.0f} MB",
            "-",
            None,
            "<= +60 MB",
        )
        started = time.monotonic()
        flood = asyncio.run(_grown(root / "flood", 1, (1 << 30) // len(PIECE)))
        seconds = time.monotonic() - started
        yield Figure(
            "memory of a job that printed 1 GB",
            f"{flood:.0f} MB, {seconds:.1f} s",
            "-",
            None,
            "bounded",
        )


async def _grown(root: Path, jobs: int, pieces: int) -> float:
    """How many MB more are resident while they run, after each has printed so many pieces."""
    (root / "work").mkdir(parents=True)
    workspace = LocalWorkspace(root / "work")
    printed = asyncio.Semaphore(0)
    never = asyncio.Event()

    async def wait() -> None:
        printed.release()
        await never.wait()

    outputs = FileOutputs(root / "outputs", Redactor({"API_KEY": "0123456789abcdef"}))
    sandbox = _Printing(pieces, wait)
    calls = [
        ("bash", f'{{"command": "make {number}", "run_in_background": true}}')
        for number in range(jobs)
    ]
    turns = [Turn("", tuple(calls[at : at + 10])) for at in range(0, jobs, 10)]
    b = Backstage(
        *turns, sandbox=sandbox, more=(Bash(outputs, ReadTracker(workspace)),), outputs=outputs
    )
    b.agent.observe(lambda event: b.events.clear())
    gc.collect()
    before = _resident()
    async for event in b.agent.run("go"):
        if isinstance(event, ApprovalRequested):
            b.agent.do(Answer(event.approval_id, Decision("once")))
    for _ in range(jobs):
        await printed.acquire()
    gc.collect()
    grown = _resident() - before
    await b.agent.close()
    workspace.close()
    return grown


class _Printing(FakeSandbox):
    """Every command prints so many pieces, and then waits."""

    def __init__(self, pieces: int, then: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._pieces = pieces
        self._then = then

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        try:
            for _ in range(self._pieces):
                await on_output("stdout", PIECE)
                await asyncio.sleep(0)
            await self._then()
        except asyncio.CancelledError:
            return CommandResult(exit_code=None, stopped=True)
        return CommandResult(exit_code=0)


def _resident() -> float:
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)
