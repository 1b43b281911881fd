"""Shows a batch while it runs: a live table on a terminal, one line per end elsewhere."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codeagent.core.pulse import duration
from codeagent.core.sanitize import one_line
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


class LineView:
    """Writes one line for each task that ends, on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def changed(self, key: str, told: Mapping[str, Any]) -> None: ...

    def ended(self, record: TaskRecord) -> None:
        self.say(end_line(record))

    def say(self, text: str) -> None:
        self._console.print(Text(text))


class TableView(LineView):
    """Shows the tasks at work in a table below the lines about those that ended."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self._began = time.monotonic()
        self._ended = 0
        self._passed = 0
        self._cost = 0.0
        self._rows: dict[str, dict[str, Any]] = {}
        self._live = Live(console=self._console, get_renderable=self._picture, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def changed(self, key: str, told: Mapping[str, Any]) -> None:
        row = self._rows.setdefault(key, {"since": time.monotonic()})
        row.update(told)

    def ended(self, record: TaskRecord) -> None:
        self._rows.pop(record.key, None)
        self._ended += 1
        self._passed += record.passed
        self._cost += record.usage.cost_usd or 0.0
        super().ended(record)

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False, show_header=False)
        now = time.monotonic()
        rows = sorted(self._rows.items(), key=lambda item: float(item[1]["since"]))
        for key, row in rows[:_ROWS]:
            cost = f"${row['cost']:.4f}" if row.get("cost") else ""
            turn = f"turn {row['turn']}" if "turn" in row else ""
            state = one_line(str(row.get("state", "starting")), 30)
            table.add_row(one_line(key, 34), state, turn, duration(now - row["since"]), cost)
        if len(rows) > _ROWS:
            table.add_row(f"and {len(rows) - _ROWS} more")
        return Group(table, Text(self._summary(now - self._began), style="bold"))

    def _summary(self, seconds: float) -> str:
        rate = self._ended / seconds * 3600 if seconds else 0.0
        cost = f" · ${self._cost:.2f}" if self._cost else ""
        return (
            f"{self._ended} of {self._total} · {self._passed} passed · {len(self._rows)} at work"
            f" · {duration(seconds)} · {rate:.0f} an hour{cost}"
        )
