"""Shows a batch: as a live table on a terminal, and as one line for each task that ends."""

import os
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codeagent.changes.diff import count
from codeagent.core.pulse import duration
from codeagent.core.sanitize import one_line, visible
from codeagent.extensions.batch.progress import BatchProgress
from codeagent.extensions.batch.results import TaskRecord

_OTHER_LINES = 4
"""Lines of the terminal that the running tasks leave free."""


def end_line(record: TaskRecord) -> str:
    """Return one line about the end of a task."""
    files, added, removed = record.changed
    cost = f" ${record.usage.cost_usd:.4f}" if record.usage.cost_usd else ""
    why = f": {one_line(record.error, 160)}" if record.error else ""
    if record.denied:
        why += f"; this rule would have allowed it: {one_line(record.denied[0], 80)}"
    return (
        f"{record.state:<11} {record.title}  {count(files, 'file')} +{added} −{removed}"
        f"  {count(record.turns, 'turn')} {duration(record.seconds)}{cost}{why}"
    )


def picture(progress: BatchProgress, most: int) -> Group:
    """Return a table of at most `most` running tasks, the longest-running first, and a line about the
    batch."""
    table = Table(box=None, pad_edge=False, show_header=False, expand=True)
    for ratio in (5, 3):
        table.add_column(no_wrap=True, ratio=ratio)
    for width in (8, 11, 9):
        table.add_column(no_wrap=True, width=width, justify="right")
    now = time.time()
    rows = sorted(progress.running.items(), key=lambda item: float(item[1]["since"]))
    for _, row in rows[:most]:
        cost = f"${row['cost']:.4f}" if row.get("cost") else ""
        turn = f"turn {row['turn']}" if "turn" in row else ""
        title, state = (one_line(row[name], 60) for name in ("title", "state"))
        table.add_row(title, state, turn, duration(now - row["since"]), cost)
    if len(rows) > most:
        table.add_row(f"and {len(rows) - most} more")
    return Group(table, Text(_summary(progress, now - progress.began), style="bold"))


def _summary(progress: BatchProgress, seconds: float) -> str:
    rate = progress.ended / seconds * 3600 if seconds else 0.0
    cost = f" · ${progress.cost:.2f}" if progress.cost else ""
    return (
        f"{progress.ended} of {progress.total} · {progress.passed} passed"
        f" · {len(progress.running)} running in {progress.slots} slots"
        f" · {duration(seconds)} · {rate:.0f} tasks per hour{cost}"
    )


class BatchView:
    """Prints a line for each task that ends, and on a terminal a live table below them."""

    def __init__(self, progress: BatchProgress) -> None:
        self.progress = progress
        # `sys.stdout` spells escape sequences out instead of sending them.
        out = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        self._console = Console(file=out, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console,
            get_renderable=self._picture,
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def _picture(self) -> Group:
        return picture(self.progress, max(1, self._console.height - _OTHER_LINES))

    def ended(self, record: TaskRecord) -> None:
        """Show the line of a task that has ended."""
        self.say(end_line(record))

    def say(self, text: str) -> None:
        """Show a line for the user."""
        self._console.print(Text(visible(text)), soft_wrap=not self._console.is_terminal)
