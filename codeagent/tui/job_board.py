"""The jobs of a conversation as the screen keeps them: what is known of each, and the end of what it printed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from codeagent.core.jobs import Job
from codeagent.tui.observable import Observable
from codeagent.tui.rendering.output_buffer import OutputBuffer

_HEAD = 100
"""Lines kept of the beginning of a job that runs."""
_TAIL = 500
"""Lines kept of its end. All of it is one key away, and fifty jobs must not fill the memory."""
_TAIL_ENDED = 100
"""The same, once it has ended."""


class JobBoard(Observable):
    """The jobs in the order they were started; those of an earlier process among them."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, Job] = {}
        self._outputs: dict[str, OutputBuffer] = {}
        self.end_notes: set[str] = set()
        """What the model is told of jobs that ended; the screen says it in its own way."""

    @property
    def rows(self) -> tuple[Job, ...]:
        return tuple(self._rows.values())

    @property
    def running(self) -> int:
        return sum(row.status == "running" for row in self._rows.values())

    def get(self, job_id: str) -> Job | None:
        return self._rows.get(job_id)

    def output(self, job_id: str) -> OutputBuffer:
        """The beginning and the end of what it printed. Raises KeyError."""
        return self._outputs[job_id]

    def begin(self, row: Job, printed: OutputBuffer | None = None) -> None:
        """`printed` is what it printed while it was waited for; it goes on in there."""
        self._rows[row.id] = row
        self._outputs[row.id] = printed or OutputBuffer(_HEAD, _TAIL)
        self._count(row.id)

    def feed(self, job_id: str, text: str) -> None:
        """A further piece of what it prints; nothing where there is no such job."""
        if job_id in self._outputs:
            self._outputs[job_id].feed(text)
            self._count(job_id)

    def count(self, lines: Mapping[str, int]) -> None:
        """Lines printed so far by id, as somebody knows them who saw all of it."""
        more = {job_id: known for job_id, known in lines.items() if self._lines_of(job_id) < known}
        for job_id, known in more.items():
            self._rows[job_id] = replace(self._rows[job_id], lines=known)
        if more:
            self._changed()

    def change(self, job_id: str, **changes: Any) -> None:
        """Replace fields of its `Job` by name; nothing where there is no such job."""
        if job_id in self._rows:
            self._rows[job_id] = replace(self._rows[job_id], **changes)
            self._changed()

    def end(self, row: Job, tail: str) -> None:
        """It has ended as `row` says; `tail` is the end of what it printed, or its answer."""
        before = self._outputs.get(row.id) or OutputBuffer()
        # What comes too fast is not all seen, and then the log knows the end better, if without its colours.
        printed = before.last(_TAIL_ENDED) if before.total >= row.lines or not tail.strip() else []
        answered = row.exit_code is None and row.status == "done" and tail.rstrip() != "\n".join(printed).rstrip()
        buffer = OutputBuffer(0, _TAIL_ENDED)
        buffer.feed("\n".join([*printed, *([tail] if answered or not printed else [])]))
        self._rows[row.id] = replace(row, lines=max(row.lines, buffer.total))
        self._outputs[row.id] = buffer
        self._changed()

    def lose(self) -> None:
        """The process they ran in is gone: how those that ran ended is not known."""
        for row in self.rows:
            if row.status == "running":
                self._rows[row.id] = replace(row, status="lost", ended=row.started, takes_input=False)
        self._changed()

    def _lines_of(self, job_id: str) -> float:
        row = self._rows.get(job_id)
        return float("inf") if row is None else row.lines

    def _count(self, job_id: str) -> None:
        row = self._rows[job_id]
        self._rows[job_id] = replace(row, lines=max(row.lines, self._outputs[job_id].total))
        self._changed()
