"""Shows a batch: a live table on a terminal, one line per end elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codeagent.core.pulse import duration
from codeagent.core.sanitize import one_line
from codeagent.extensions.batch.progress import Progress
from codeagent.extensions.batch.results import TaskRecord

_ROWS = 20
"""Tasks at work that the table shows, the slowest first."""


def end_line(record: TaskRecord) -> str:
    """Return one line about the end of a task."""
    files, added, removed = record.changed
    cost = f" ${record.usage.cost_usd:.4f}" if record.usage.cost_usd else ""
    why = f": {one_line(record.error, 160)}" if record.error else ""
    return (
        f"{record.state:<11} {record.title}  {files} files +{added} −{removed}"
        f"  {record.turns} turns {duration(record.seconds)}{cost}{why}"
    )


def picture(progress: Progress) -> Group:
    """Return the tasks at work, and a line about all of them."""
    table = Table(box=None, pad_edge=False, show_header=False)
    now = time.time()
    rows = sorted(progress.at_work.items(), key=lambda item: float(item[1]["since"]))
    for key, row in rows[:_ROWS]:
        cost = f"${row['cost']:.4f}" if row.get("cost") else ""
        turn = f"turn {row['turn']}" if "turn" in row else ""
        state = one_line(str(row.get("state", "starting")), 30)
        table.add_row(one_line(key, 34), state, turn, duration(now - row["since"]), cost)
    if len(rows) > _ROWS:
        table.add_row(f"and {len(rows) - _ROWS} more")
    return Group(table, Text(_summary(progress, now - progress.began), style="bold"))


def _summary(progress: Progress, seconds: float) -> str:
    rate = progress.ended / seconds * 3600 if seconds else 0.0
    cost = f" · ${progress.cost:.2f}" if progress.cost else ""
    return (
        f"{progress.ended} of {progress.total} · {progress.passed} passed"
        f" · {len(progress.at_work)} at work in {progress.slots} slots"
        f" · {duration(seconds)} · {rate:.0f} an hour{cost}"
    )


class BatchView:
    """Writes a line for each task that ends, on standard error; a table below them is redrawn on a
    terminal."""

    def __init__(self, progress: Progress) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._live = Live(
            console=self._console,
            get_renderable=lambda: picture(progress),
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

    def ended(self, record: TaskRecord) -> None:
        self.say(end_line(record))

    def say(self, text: str) -> None:
        """Show a line for the user."""
        self._console.print(Text(text))
