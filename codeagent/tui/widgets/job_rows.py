"""One row for every job: which it is, how it stands, what it is about, and how long and how much."""

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from codeagent.core.job import Job, JobStatus
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.spelling import counted, whole
from codeagent.tui.widgets.fitting import Part, cut_end, fit, flat, joined_width, styled

Parts = list[tuple[str, Style | None]]
_WORD = 7
"""Cells of `running` and `stopped`."""
_LONGEST_ID = 10


def parts_of(row: Job, width: int, now: float, palette: Palette) -> Parts:
    """The row in at most `width` cells; `now` in seconds since the epoch."""
    name = cut_end(flat(row.id), _LONGEST_ID)
    head = f"{name:<6}  "
    room = max(0, width - cell_len(head) - _WORD - 2)
    facts = fit(_facts(row, now), room * 3 // 5)
    beside = joined_width(facts) if facts and joined_width(facts) <= room * 3 // 5 else 0
    about = max(0, room - beside - (2 if beside else 0))
    parts: Parts = [
        (head, palette.text),
        (f"{row.status:<{_WORD}}  ", state_style(row.status, palette)),
        (set_cell_size(cut_end(flat(row.title), about), about), palette.text),
    ]
    return [*parts, ("  ", None), *styled(facts, palette)] if beside else parts


def state_style(state: JobStatus, palette: Palette) -> Style:
    return {
        "running": palette.running,
        "done": palette.success,
        "failed": palette.error,
        "stopped": palette.warning,
        "lost": palette.warning,
    }[state]


def ports_text(row: Job) -> str:
    """`port 8000`, `ports 8000, 8001`; empty where it listens on none."""
    if not row.ports:
        return ""
    return f"port{'s' if len(row.ports) > 1 else ''} {', '.join(map(str, row.ports))}"


def _facts(row: Job, now: float) -> tuple[Part, ...]:
    return (
        Part(ports_text(row), 3, lambda palette: palette.accent),
        Part(f"exit {row.exit_code}" if row.exit_code else "", 2, lambda palette: palette.error),
        Part(counted(row.lines, "line", "lines") if row.lines else "", 0),
        Part("" if row.status == "lost" else whole(row.seconds(now)), 1),
    )
