"""What stopping a run did, told to the person as it was: nothing of it is guessed."""

from collections.abc import Callable, Iterable

from codeagent.agent.emitter import Emitter
from codeagent.core.display import DiffBlock
from codeagent.core.notices import RunStopped
from codeagent.core.tool import ToolResult


class Tally:
    """Collects one run's results, and which of them the stop brought about."""

    def __init__(self, jobs: Callable[[], int]) -> None:
        """`jobs`: how many run in the background; stopping a run leaves them alone."""
        self._jobs = jobs
        self.stream_closed = False
        """The model's answer was still coming."""
        self._killed = 0
        self._not_run = 0
        self._left_running = 0
        self._edits: dict[str, None] = {}

    def add(self, results: Iterable[ToolResult], *, stopped: bool) -> None:
        """The results of one answer; `stopped`: the run was cancelled while its calls ran."""
        for result in results:
            self._left_running += _count(result, "left_running")
            if result.error is None:
                self._edits |= {block.path: None for block in result.blocks if isinstance(block, DiffBlock)}
            if stopped and result.error is not None and result.error.kind == "cancelled":
                self._killed += _count(result, "killed")
                self._not_run += not result.executed

    def tell(self, emitter: Emitter) -> None:
        """Emit `run.stopped`."""
        emitter.emit(
            RunStopped(
                text=self._text(),
                stream_closed=self.stream_closed,
                killed=self._killed,
                edits_kept=tuple(self._edits),
                not_run=self._not_run,
                left_running=self._left_running,
                jobs_running=self._jobs(),
            )
        )

    def _text(self) -> str:
        edits, jobs = len(self._edits), self._jobs()
        parts = [
            "the answer was cut off" if self.stream_closed else "",
            f"{self._killed} process{'es' * (self._killed != 1)} killed" if self._killed else "",
            f"{edits} edited file{'s' * (edits != 1)} kept" if edits else "",
            f"{self._not_run} call{'s' * (self._not_run != 1)} not run" if self._not_run else "",
            f"{self._left_running} left running in the background" if self._left_running else "",
            f"{jobs} job{'s' * (jobs != 1)} still running" if jobs else "",
        ]
        return "stopped: " + (", ".join(part for part in parts if part) or "nothing was running")


def _count(result: ToolResult, name: str) -> int:
    value = result.details.get(name)
    return value if isinstance(value, int) else 0
