"""What the lists to choose from show of sessions and models."""

import time
from collections.abc import Iterable, Sequence

from codeagent.core.sanitize import one_line
from codeagent.tui.ports import ModelRow, SessionRow
from codeagent.tui.screens.picker_list import PickerRow

_DAY = 86_400.0


def session_rows(sessions: Sequence[SessionRow], now: float) -> list[PickerRow]:
    """`now` in seconds since the epoch; one that is open elsewhere is marked as such."""
    return [
        PickerRow(
            row.id,
            one_line(row.prompt, 60) or "(nothing said)",
            f"{_ago(row.modified, now)} · {row.model}" + (" · in use elsewhere" if row.in_use else ""),
            warn=row.in_use,
        )
        for row in sessions
    ]


def model_rows(models: Iterable[ModelRow]) -> list[PickerRow]:
    return [PickerRow(row.name, row.name, row.about, warn=not row.ready) for row in models]


def _ago(then: float, now: float) -> str:
    seconds = max(0.0, now - then)
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < _DAY:
        return f"{seconds // 3600:.0f} h ago"
    return time.strftime("%Y-%m-%d", time.localtime(then))
