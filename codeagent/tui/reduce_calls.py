"""Reduces the events of calls: a batch, its questions, what its calls print, and those that become
jobs."""

from dataclasses import replace
from typing import assert_never

from codeagent.core import events
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.display import TerminalBlock
from codeagent.core.events import (
    ToolFinished,
    ToolProgress,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
)
from codeagent.core.jobs import Job
from codeagent.core.notes import SHELL, job_note, words_of
from codeagent.core.notices import CallEdited, CallMarked
from codeagent.tui import outcomes
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.state import UiState
from codeagent.tui.transcript.blocks import CallState

RunningCall = ToolStarted | ToolUpdated | ToolProgress | ToolFinished | ToolResultAdded


class CallReducer:
    """Keeps the card of each call as its events say."""

    def __init__(self, state: UiState) -> None:
        self.state = state
        self._arguments: dict[str, str] = {}
        """Arguments of the calls of this run, as JSON by call id."""
        self._asked_of: dict[str, CallState] = {}
        """The state of a call before the question about it, restored afterwards, by id of the
        question."""
        self._asking_since = 0.0
        """Since when the run has waited for an answer, in seconds since the epoch."""
        self._waited: dict[str, float] = {}
        """When each call that the agent waits for began, in seconds since the epoch."""

    def begin_run(self) -> None:
        self._arguments.clear()

    def end_run(self) -> None:
        """End what waits for calls; a job may still have a question."""
        jobs = self.state.jobs.rows
        self.state.approvals.clear(but={row.call_id for row in jobs if row.status == "running"})
        self._waited.clear()

    def end_recording(self) -> None:
        """End what was in progress when the recording stopped: questions and jobs."""
        document, jobs = self.state.document, self.state.jobs
        self.state.approvals.clear()
        for row in jobs.rows:
            card = document.find_card(row.call_id)
            if card is not None and card.state == "background":
                card.state = "lost"
                card.note = row.id
                document.touch_card(row.call_id)
        jobs.lose()
        self._waited.clear()

    def add(self, event: events.ToolCallAdded) -> None:
        self._arguments[event.call_id] = event.arguments
        self.state.document.close_thoughts(event.ts)

    def plan_batch(self, event: events.BatchPlanned) -> None:
        self.state.document.plan(event.batch, event.calls)
        self.state.boundary.plan(event.calls, self._arguments)
        self.state.status.set(phase="working", batch=event.batch)

    def mark(self, event: CallMarked) -> None:
        card = self.state.document.card(event.call_id, "")
        card.state = "skipped" if event.skipped else "planned"
        self.state.document.touch_card(event.call_id)
        self.state.boundary.change(event.call_id, skipped=event.skipped)

    def edit(self, event: CallEdited) -> None:
        self.state.document.card(event.call_id, "").target = event.target
        self.state.document.touch_card(event.call_id)
        self.state.boundary.change(
            event.call_id,
            target=event.target,
            arguments=event.arguments,
            permission=event.permission,
            edited=True,
        )

    def ask(self, event: ApprovalRequested) -> None:
        card = self.state.document.card(event.call_id, event.name, event.target)
        self._asked_of[event.approval_id] = card.state
        card.state = "asking"
        self.state.document.touch_card(event.call_id)
        if not self.state.approvals.waiting:
            self._asking_since = event.ts
        self.state.approvals.add(event)
        self.state.status.set(phase="waiting")

    def resolve(self, event: ApprovalResolved) -> None:
        card = self.state.document.card(event.call_id, "")
        card.state = self._asked_of.pop(event.approval_id, "planned")
        card.said = outcomes.said_of(event, card.name) or card.said
        self.state.document.touch_card(event.call_id)
        asked = next(
            (one for one in self.state.approvals.waiting if one.approval_id == event.approval_id),
            None,
        )
        self.state.approvals.resolve(event)
        if (
            asked is not None and event.call_id in self._waited
        ):  # its own time stopped while it waited for the user
            card.began = None if card.began is None else card.began + event.ts - asked.ts
            self._wait_for(event.call_id, self._waited[event.call_id] + event.ts - asked.ts)
        if not self.state.approvals.waiting:
            self.state.status.add_wait(event.ts - self._asking_since)
        self.state.status.set(phase=self.state.phase_at_rest)

    def show(self, event: RunningCall) -> None:
        if isinstance(event, ToolStarted) and event.name == SHELL:
            self.state.document.run_command(
                event.call_id, event.target, shared=event.arguments.get("shared") is True
            )
            self.state.status.set(notice="your command is running: Esc stops it")
        find = (
            self.state.document.begin_call
            if isinstance(event, ToolStarted)
            else self.state.document.card
        )
        card = find(event.call_id, event.name)
        match event:
            case ToolStarted():
                card.state = "running"
                card.began = event.ts
                card.target = event.target or card.target
                if event.name != SHELL:
                    self._wait_for(event.call_id, event.ts)
            case ToolUpdated():
                card.output = card.output or OutputBuffer()
                card.output.feed(event.text)
            case ToolProgress():
                card.progress = event.text
            case ToolFinished():
                self.state.approvals.end(event.call_id)
                card.duration_ms = event.duration_ms
                self._wait_for(event.call_id, None)
            case ToolResultAdded():
                self.state.approvals.end(event.call_id)
                self._wait_for(event.call_id, None)
                # If the call became a job, its result only says so.
                if not card.job:
                    self._settle_call(event)
            case _:
                assert_never(event)
        self.state.document.touch_card(event.call_id)
        if event.name == SHELL:
            self.state.status.set(commands=len(self.state.document.running_commands()))

    def _settle_call(self, event: ToolResultAdded) -> None:
        card = self.state.document.card(event.call_id, event.name)
        card.state = outcomes.state_of(event)
        card.note = outcomes.note_of(event)
        card.error = outcomes.error_of(event)
        card.progress = ""
        card.duration_ms = event.duration_ms
        card.shown = event.blocks
        printed = next(
            (block.output for block in event.blocks if isinstance(block, TerminalBlock)), ""
        )
        if printed:
            # This is what the model gets; live pieces may have been merged.
            card.output = OutputBuffer()
            card.output.feed(printed)
            card.output.skip(outcomes.lines_left_out(event))
        if card.state == "skipped":
            self.state.boundary.change(event.call_id, skipped=True)
        if event.name == SHELL:
            self.state.status.set(notice="")

    def begin_job(self, event: events.JobStarted) -> None:
        """Show the job on its card; what it printed so far moves to the job."""
        card = self.state.document.card(event.call_id, event.name, event.title)
        row = Job(event.job_id, event.call_id, event.name, event.title, "running", started=event.ts)
        row = replace(row, takes_input=event.takes_input, promoted=event.promoted)
        self.state.jobs.begin(row, card.output)
        card.state = "background"
        card.job = event.job_id
        card.output = None
        card.shown = ()
        card.duration_ms = 0
        card.note = card.progress = card.error = ""
        self.state.document.touch_card(event.call_id)
        self._wait_for(event.call_id, None)

    def end_job(self, event: events.JobFinished) -> None:
        jobs = self.state.jobs
        began = event.ts - event.duration_ms / 1000
        known = jobs.get(event.job_id) or Job(
            event.job_id, event.call_id, event.name, event.title, "running", started=began
        )
        ended = replace(
            known,
            status=event.status,
            ended=known.started if event.status == "lost" else event.ts,
            lines=max(known.lines, event.lines),
            exit_code=event.exit_code,
            summary=event.summary,
            takes_input=False,
        )
        jobs.end(ended, event.tail)
        jobs.end_notes.add(words_of(job_note(event)))
        card = self.state.document.find_card(event.call_id)
        if card is not None:
            card.state = event.status
            card.job = event.job_id
            card.note = outcomes.job_words(event)
            card.duration_ms = event.duration_ms
            card.output = jobs.output(event.job_id)
            self.state.document.touch_card(event.call_id)
        self.state.status.set(jobs=jobs.running)
        self.state.document.remark(outcomes.job_line(event))

    def _wait_for(self, call_id: str, since: float | None) -> None:
        """Note since when the agent has waited for a call; None if the call ended or became a
        job."""
        self._waited.pop(call_id, None)
        if since is not None:
            self._waited[call_id] = since
        self.state.status.set(
            jobs=self.state.jobs.running, waits_since=min(self._waited.values(), default=None)
        )
