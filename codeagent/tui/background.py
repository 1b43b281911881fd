"""What runs in the background, gathered from events: jobs, their cards, and the call that is waited for longest."""

from dataclasses import replace

from codeagent.core.events import (
    JobFinished,
    JobStarted,
    JobUpdated,
    KnownEvent,
    RunFinished,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    UnknownEvent,
)
from codeagent.core.jobs import Job
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notes import job_note
from codeagent.core.notices import JobListens
from codeagent.tui.outcomes import SHELL, job_line
from codeagent.tui.state import UiState


class BackgroundCalls:
    """Keeps the jobs of the UI state as the events say."""

    def __init__(self, state: UiState) -> None:
        self._state = state
        self._waited: dict[str, float] = {}
        """When each call began that the agent waits for, in seconds since the epoch."""

    def apply(self, event: KnownEvent | UnknownEvent) -> None:
        match event:
            case JobUpdated():
                self._state.jobs.feed(event.job_id, event.text)
                return
            case ToolStarted() if event.name != SHELL:
                self._waited[event.call_id] = event.ts
            case ToolFinished() | ToolResultAdded():
                self._waited.pop(event.call_id, None)
            case RunFinished():
                self._waited.clear()
            case JobStarted():
                self._waited.pop(event.call_id, None)
                self._begin(event)
            case JobFinished():
                self._end(event)
            case JobListens():
                self._listens(event)
            case _:
                return
        self._state.status.set(jobs=self._state.jobs.running, waits_since=min(self._waited.values(), default=None))

    def tells_end(self, message: UserMessage) -> bool:
        """It only tells the model how a job ended, which is said already."""
        return message.source == "note" and text_of(message.content) in self._state.jobs.end_notes

    def lose(self) -> None:
        """The process they ran in is gone."""
        for row in self._state.jobs.rows:
            card = self._state.document.find_card(row.call_id)
            if card is not None and card.state == "background":
                card.state, card.note = "lost", row.id
                self._state.document.touch_card(row.call_id)
        self._state.jobs.lose()
        self._waited.clear()
        self._state.status.set(jobs=0, waits_since=None)

    def _begin(self, event: JobStarted) -> None:
        """Its card says so; what it printed until now goes over to the job."""
        document = self._state.document
        card = document.card(event.call_id, event.name, event.title)
        row = Job(
            event.job_id,
            event.call_id,
            event.name,
            event.title,
            "running",
            event.ts,
            takes_input=event.takes_input,
            promoted=event.promoted,
        )
        self._state.jobs.begin(row, card.output)
        card.state, card.job = "background", event.job_id
        card.output, card.shown, card.duration_ms = None, (), 0
        card.note = card.progress = card.error = ""
        document.touch_card(event.call_id)

    def _end(self, event: JobFinished) -> None:
        document, board = self._state.document, self._state.jobs
        began = event.ts - event.duration_ms / 1000
        known = board.get(event.job_id) or Job(event.job_id, event.call_id, event.name, event.title, "running", began)
        ended = replace(
            known,
            status=event.status,
            ended=known.started if event.status == "lost" else event.ts,
            lines=max(known.lines, event.lines),
            exit_code=event.exit_code,
            summary=event.summary,
            takes_input=False,
        )
        board.end(ended, event.tail)
        board.end_notes.add(text_of(job_note(event).content))
        card = document.find_card(event.call_id)
        if card is not None:
            card.state, card.job, card.note = event.status, event.job_id, _note_of(event)
            card.duration_ms, card.output = event.duration_ms, board.output(event.job_id)
            document.touch_card(event.call_id)
        document.remark(job_line(event))

    def _listens(self, event: JobListens) -> None:
        if (row := self._state.jobs.get(event.job_id)) is not None:
            self._state.jobs.change(row.id, ports=tuple(sorted({*row.ports, event.port})))


def _note_of(ended: JobFinished) -> str:
    """What its card says behind the state; of a call that is done the state is no word."""
    said = [
        "done" if ended.status == "done" else "",
        ended.job_id,
        f"exit {ended.exit_code}" if ended.exit_code else "",
    ]
    return " · ".join(part for part in said if part)
