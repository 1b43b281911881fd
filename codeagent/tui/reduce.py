"""Reduces events to the state of the screen: the only place where an event becomes something to
see."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from codeagent.core import events, notices
from codeagent.core.acts import Queued
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved, HostDecided
from codeagent.core.compaction import ContextCompacted
from codeagent.core.display import TerminalBlock
from codeagent.core.events import (
    ToolFinished,
    ToolProgress,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
)
from codeagent.core.jobs import Job
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage, UserMessage, text_of
from codeagent.core.notes import SHELL, job_note, words_of
from codeagent.core.policy import Mode
from codeagent.core.pulse_events import follow
from codeagent.core.todo import TodoChanged
from codeagent.core.triggers import TriggerAdded, TriggerEvent, TriggerFired, TriggerStopped
from codeagent.extensions.agents.cards import ChildCards
from codeagent.tui import outcomes
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.state import Halt, PlanReady, UiState
from codeagent.tui.transcript.blocks import CallState
from codeagent.tui.transcript.document import Document

AnyEvent = events.KnownEvent | events.UnknownEvent
NoticeLike = events.Notice | HostDecided | notices.AnyNotice | ContextCompacted | TodoChanged


class Reducer:
    """Applies events to the UI state one by one, whether of a live run, a resumed session or a
    recorded log."""

    def __init__(self, state: UiState, *, live: bool, agent: str = MAIN) -> None:
        """If `live`, queued text that is taken back returns to the composer; `agent` is whose
        conversation it is."""
        self._state = state
        self._agent = agent
        self._children = ChildCards(lambda own, name: Reducer(own, live=False, agent=name).apply)
        self._document = state.document
        self._live = live
        self._thought = False
        self._mode: Mode = (
            "ask"  # according to the events; the status shows the user's choice at once
        )
        self._own_mode: Mode = "ask"
        """The session's mode, to which it returns after a step of a recipe."""
        self._step_mode: Mode | None = None
        self._stopped: notices.RunStopped | None = None
        self._arguments: dict[str, str] = {}
        """Arguments of the calls of this run, as JSON by call id."""
        self._asked_of: dict[str, CallState] = {}
        """The state of a call before the question about it, restored afterwards, by id of the
        question."""
        self._asking_since = self._paused_since = 0.0
        """Since when the run has waited for an answer, and at a boundary, in seconds since the
        epoch."""
        self._moments: dict[str, str] = {}
        """The prompt, or what the batch was about, by id of the checkpoint."""
        self._waited: dict[str, float] = {}
        """When each call that the agent waits for began, in seconds since the epoch."""

    def apply(self, event: AnyEvent) -> None:
        if event.agent != self._agent:
            self._children.apply(event, self._state)
            return
        document, state = self._document, self._state
        follow(state.pulse, event)
        match event:
            case events.RunStarted():
                self._begin_run(event)
            case events.RunFinished():
                self._end_run(event)
            case events.TurnStarted():
                self._thought = False
                state.status.set(phase="asking", retry_reason="")
            case events.TurnFinished():
                outcomes.add_usage(event.usage, state, context=True)
            case events.MessageAdded():
                self._add_message(event)
            case events.TextDelta() | events.ReasoningDelta() | events.ToolCallDelta():
                self._stream(event)
            case events.ToolCallAdded():
                self._arguments[event.call_id] = event.arguments
                document.close_thoughts(event.ts)
            case events.ProviderToolUsed():
                document.remark_above(event.told(), "provider", event.ts)
            case events.BatchPlanned():
                self._plan_batch(event)
            case events.BatchFinished():
                document.finish_batch(event.batch, event.duration_ms)
            case events.SteerQueued():
                state.queue.add(Queued(event.id, event.kind, event.text))
            case events.SteerDelivered():
                self._deliver(event)
            case ApprovalRequested():
                self._ask(event)
            case ApprovalResolved():
                self._resolve(event)
            case (
                ToolStarted() | ToolUpdated() | ToolProgress() | ToolFinished() | ToolResultAdded()
            ):
                self._show_call(event)
            case events.JobStarted():
                self._begin_job(event)
            case events.JobUpdated():
                state.jobs.feed(event.job_id, event.text)
            case events.JobFinished():
                self._end_job(event)
            case TriggerAdded() | TriggerFired() | TriggerStopped():
                self._show_trigger(event)
            case events.CheckpointCreated():
                self._moments[event.checkpoint_id] = event.label
            case events.CheckpointRestored():
                document.remark(
                    outcomes.restored_text(event, self._moments.get(event.checkpoint_id, ""))
                )
            case events.LimitReached():
                document.remark(
                    f"the limit {event.limit} = {event.maximum:g} is reached", "warning"
                )
            case events.UnknownEvent():
                document.remark(
                    f"{event.type}: an event from a newer version; it is kept in the log"
                )
            case _:
                self._apply_notice(event)

    def _apply_notice(self, event: NoticeLike) -> None:
        state, status = self._state, self._state.status
        match event:
            case events.Notice():
                self._document.remark(event.text, event.level)
            case notices.ModeChanged():
                self._mode = self._own_mode = event.mode
                status.set(mode=event.mode)
                if event.mode != "plan" and isinstance(state.boundary.now, PlanReady):
                    state.boundary.set(None)
            case notices.NetworkChanged():
                status.set(network=event.network, notice=event.text)
            case notices.ModelChanged() | notices.ModelRetried() | notices.ModelFellBack():
                outcomes.show_model(event, state)
            case notices.BudgetChanged():
                status.set(budget=event.left, notice=event.text)
            case notices.StepModeChanged():
                status.set(stepping=event.on, notice=event.text)
            case notices.QueueOrdered():
                state.queue.order(event.ids)
            case notices.CallEdited():
                self._edit_call(event)
            case notices.RunPausing():
                self._halt("pausing")
            case notices.RunPaused() | notices.RunResumed():
                self._wait_at_boundary(event)
            case notices.RunStopped():
                self._stopped = event  # shown with the end of the run
            case notices.RunNotBegun():
                self._step_mode = None
                self._document.remark(event.text, event.level)
                status.set(phase="idle", halt="")
                if self._live and event.prompt:
                    state.give_back(event.prompt)
            case notices.JobListens():
                state.jobs.listens(event.job_id, event.port)
                self._document.remark(event.text, event.level)
            case TodoChanged():
                status.set(todo=event.items)
            case notices.ToolsetChosen():
                self._document.remark(event.text, event.level)
            case notices.PinsChanged():
                status.set(pins=event.pins, notice=event.text)
            case notices.RecipeStepBegun():
                self._step_mode = event.mode
                self._document.remark(event.text, event.level)
            case (
                notices.SessionNotSaved()
                | notices.ActFailed()
                | notices.RecipeStopped()
                | notices.MessageReceived()
            ):
                self._document.remark(event.text, event.level)
            case (
                notices.CompactionBegun()
                | notices.SummaryWritten()
                | notices.CompactionFailed()
                | ContextCompacted()
            ):
                outcomes.show_compaction(event, state)
            case notices.AgentStarted() if event.child != self._agent:
                self._children.begin(event, state)
            case HostDecided():
                state.approvals.reach(event)
            case notices.AgentStarted() | notices.TextRead():
                pass  # a child's first event; the reason for the next question
            case _:
                assert_never(event)

    def go_live(self, state: UiState) -> None:
        """Continue live, on the state that shows the recorded events."""
        self._state, self._document, self._live = state, state.document, True

    def end_recording(self) -> None:
        """End what was in progress when the recording stopped: questions, a pause, jobs,
        children."""
        self._state.approvals.clear()
        self._children.end_recording()
        self._state.boundary.end_recording()
        for row in self._state.jobs.rows:
            card = self._document.find_card(row.call_id)
            if card is not None and card.state == "background":
                card.state, card.note = "lost", row.id
                self._document.touch_card(row.call_id)
        self._state.jobs.lose()
        self._waited.clear()
        self._state.status.set(halt="", in_run=False, jobs=0, waits_since=None)

    def _begin_run(self, event: events.RunStarted) -> None:
        self._own_mode, self._stopped = event.mode, None
        self._mode, self._step_mode = self._step_mode or event.mode, None
        self._arguments.clear()
        self._state.boundary.set(None)
        self._state.status.set(
            in_run=True, model=event.model, mode=self._mode, session=event.session
        )
        self._state.status.set(phase="working", since=event.ts, batch=0)

    def _end_run(self, event: events.RunFinished) -> None:
        state = self._state
        self._document.close()
        if event.reason != "done" or event.error is not None:
            lines = outcomes.stopped_lines(self._stopped) if self._stopped is not None else ()
            if event.reason == "failed":
                lines += outcomes.failed_lines(event.error or "")
            self._document.end(event.reason, event.error or "", lines)
        planned = self._mode == "plan" and event.reason == "done" and event.text.strip()
        state.boundary.set(PlanReady(event.text) if planned else None)
        state.approvals.clear(
            but={row.call_id for row in state.jobs.rows if row.status == "running"}
        )
        self._waited.clear()
        if self._mode != self._own_mode:
            state.status.set(mode=self._own_mode)
        state.status.set(in_run=False, waits_since=None, retry_reason="")
        state.status.set(phase=state.phase_at_rest, halt="", since=event.ts, batch=0)

    def _wait_at_boundary(self, event: notices.RunPaused | notices.RunResumed) -> None:
        state = self._state
        if isinstance(event, notices.RunPaused):
            self._paused_since = event.ts
            state.boundary.pause(event.why, event.text, event.batch, event.calls)
            state.status.set(batch=event.batch)
            self._halt("paused")
            return
        if state.status.now.halt == "paused":
            self._resume_count(event.ts - self._paused_since)
        state.boundary.resumed()
        self._halt("")

    def _halt(self, halt: Halt) -> None:
        """Set what holds the run; a run that is being stopped stays that way until it ends."""
        if self._state.status.now.halt != "stopping":
            self._state.status.set(halt=halt)

    def _stream(
        self, event: events.TextDelta | events.ReasoningDelta | events.ToolCallDelta
    ) -> None:
        self._state.status.set(phase=self._state.pulse.state or "answering", retry_reason="")
        match event:
            case events.TextDelta():
                self._document.stream_text(event.text, event.ts)
            case events.ReasoningDelta():
                self._thought = True
                self._document.stream_thoughts(event.text, event.ts)
            case events.ToolCallDelta():
                self._document.close_thoughts(event.ts)
            case _:
                assert_never(event)

    def _add_message(self, event: events.MessageAdded) -> None:
        match event.message:
            case AssistantMessage() as message:
                self._finish_answer(message, event.ts)
            case UserMessage(source="note") as message:
                # The end of a job is already shown.
                is_end = words_of(message) in self._state.jobs.end_notes
                if not is_end and (told := outcomes.told_of(text_of(message.content))):
                    self._document.remark(told, "told")
            case UserMessage() as message:
                task = self._agent != MAIN and message.source == "prompt"
                self._document.say(text_of(message.content), "task" if task else message.source)

    def _finish_answer(self, message: AssistantMessage, now: float) -> None:
        """Show a whole answer; a recorded one was not streamed, so its thinking is shown here
        too."""
        document = self._document
        thoughts = "\n\n".join(thought.text for thought in message.thinking if thought.text)
        if thoughts and not self._thought:
            document.stream_thoughts(thoughts, now)
        document.close_thoughts(now)
        document.finish_answer(message.text, cut=message.stop == "cut")

    def _plan_batch(self, event: events.BatchPlanned) -> None:
        self._document.plan(event.batch, event.calls)
        self._state.boundary.plan(event.calls, self._arguments)
        self._state.status.set(phase="working", batch=event.batch)

    def _edit_call(self, event: notices.CallEdited) -> None:
        self._document.card(event.call_id, "").target = event.target
        self._document.touch_card(event.call_id)
        self._state.boundary.change(
            event.call_id,
            target=event.target,
            arguments=event.arguments,
            permission=event.permission,
            state="edited",
        )

    def _deliver(self, event: events.SteerDelivered) -> None:
        queue = self._state.queue
        text = next((item.text for item in queue.items if item.id == event.id), None)
        queue.remove(event.id)
        if event.taken_back and self._live and text is not None:
            self._state.give_back(text)

    def _ask(self, event: ApprovalRequested) -> None:
        card = self._document.card(event.call_id, event.name, event.target)
        self._asked_of[event.approval_id], card.state = card.state, "asking"
        self._document.touch_card(event.call_id)
        if not self._state.approvals.waiting:
            self._asking_since = event.ts
        self._state.approvals.add(event)
        self._state.status.set(phase="waiting")

    def _resolve(self, event: ApprovalResolved) -> None:
        card = self._document.card(event.call_id, "")
        card.state = self._asked_of.pop(event.approval_id, "planned")
        card.said = outcomes.said_of(event, card.name) or card.said
        self._document.touch_card(event.call_id)
        asked = next(
            (one for one in self._state.approvals.waiting if one.approval_id == event.approval_id),
            None,
        )
        self._state.approvals.resolve(event)
        if (
            asked is not None and event.call_id in self._waited
        ):  # its own time stopped while it waited for the user
            card.began = None if card.began is None else card.began + event.ts - asked.ts
            self._wait_for(event.call_id, self._waited[event.call_id] + event.ts - asked.ts)
        if not self._state.approvals.waiting:
            self._resume_count(event.ts - self._asking_since)
        self._state.status.set(phase=self._state.phase_at_rest)

    def _resume_count(self, waited: float) -> None:
        """Do not count the seconds for which the run waited for the user."""
        self._state.status.set(since=self._state.status.now.since + max(0.0, waited))

    def _show_call(
        self, event: ToolStarted | ToolUpdated | ToolProgress | ToolFinished | ToolResultAdded
    ) -> None:
        if isinstance(event, ToolStarted) and event.name == SHELL:
            self._document.run_command(
                event.call_id, event.target, shared=event.arguments.get("shared") is True
            )
            self._state.status.set(notice="your command is running: Esc stops it")
        find = self._document.begin_call if isinstance(event, ToolStarted) else self._document.card
        card = find(event.call_id, event.name)
        match event:
            case ToolStarted():
                card.state, card.began, card.target = (
                    "running",
                    event.ts,
                    event.target or card.target,
                )
                if event.name != SHELL:
                    self._wait_for(event.call_id, event.ts)
            case ToolUpdated():
                card.output = card.output or OutputBuffer()
                card.output.feed(event.text)
            case ToolProgress():
                card.progress = event.text
            case ToolFinished():
                self._state.approvals.end(event.call_id)
                card.duration_ms = event.duration_ms
                self._wait_for(event.call_id, None)
            case ToolResultAdded():
                self._state.approvals.end(event.call_id)
                self._wait_for(event.call_id, None)
                # If the call became a job, its result only says so.
                if not card.job:
                    self._settle_call(event)
            case _:
                assert_never(event)
        self._document.touch_card(event.call_id)
        if event.name == SHELL:
            self._state.status.set(commands=len(self._document.running_commands()))

    def _settle_call(self, event: ToolResultAdded) -> None:
        card = self._document.card(event.call_id, event.name)
        card.state, card.note, card.error = (
            outcomes.state_of(event),
            outcomes.note_of(event),
            outcomes.error_of(event),
        )
        card.progress, card.duration_ms, card.shown = "", event.duration_ms, event.blocks
        printed = next(
            (block.output for block in event.blocks if isinstance(block, TerminalBlock)), ""
        )
        if printed:
            # This is what the model gets; live pieces may have been merged.
            card.output = OutputBuffer()
            card.output.feed(printed)
            card.output.skip(outcomes.lines_left_out(event))
        if card.state == "skipped":
            self._state.boundary.change(event.call_id, state="skipped")
        if event.name == SHELL:
            self._state.status.set(notice="")

    def _begin_job(self, event: events.JobStarted) -> None:
        """Show the job on its card; what it printed so far moves to the job."""
        card = self._document.card(event.call_id, event.name, event.title)
        row = Job(event.job_id, event.call_id, event.name, event.title, "running", event.ts)
        row = replace(row, takes_input=event.takes_input, promoted=event.promoted)
        self._state.jobs.begin(row, card.output)
        card.state, card.job = "background", event.job_id
        card.output, card.shown, card.duration_ms = None, (), 0
        card.note = card.progress = card.error = ""
        self._document.touch_card(event.call_id)
        self._wait_for(event.call_id, None)

    def _end_job(self, event: events.JobFinished) -> None:
        jobs = self._state.jobs
        began = event.ts - event.duration_ms / 1000
        known = jobs.get(event.job_id) or Job(
            event.job_id, event.call_id, event.name, event.title, "running", began
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
        card = self._document.find_card(event.call_id)
        if card is not None:
            card.state, card.job, card.note = event.status, event.job_id, outcomes.job_words(event)
            card.duration_ms, card.output = event.duration_ms, jobs.output(event.job_id)
            self._document.touch_card(event.call_id)
        self._state.status.set(jobs=jobs.running)
        self._document.remark(outcomes.job_line(event))

    def _show_trigger(self, event: TriggerEvent) -> None:
        line, jobs = outcomes.trigger_line(event), self._state.jobs
        jobs.set_trigger(outcomes.trigger_row(event, jobs.get(event.trigger.id)), line)
        if isinstance(event, TriggerFired):
            self._document.remark(line)

    def _wait_for(self, call_id: str, since: float | None) -> None:
        """Note since when the agent has waited for a call; None if the call ended or became a
        job."""
        self._waited.pop(call_id, None)
        if since is not None:
            self._waited[call_id] = since
        self._state.status.set(
            jobs=self._state.jobs.running, waits_since=min(self._waited.values(), default=None)
        )


def replayed(recorded: Iterable[AnyEvent]) -> tuple[UiState, Reducer]:
    """Reduce recorded events to a state of their own, which no widget watches; slow, so run it in a
    thread."""
    state = UiState()
    reducer = Reducer(state, live=False)
    for event in recorded:
        reducer.apply(event)
    reducer.end_recording()
    return state, reducer


def replayed_end(end: Sequence[AnyEvent]) -> Document:
    """Reduce the last events of a session, from the first complete turn on; empty if there is
    none."""
    starts = (
        at
        for at, event in enumerate(end)
        if isinstance(event, events.RunStarted | events.TurnStarted)
    )
    first = next((at for at in starts if end[at].agent == MAIN), len(end))
    return replayed(_of_known_calls(end[first:]))[0].document


def _of_known_calls(recorded: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Leave out events of calls that began earlier."""
    begun = {""}
    for event in recorded:
        match event:
            case events.BatchPlanned():
                begun.update(call.call_id for call in event.calls)
            case ToolStarted():
                begun.add(event.call_id)
            case _:
                pass
        if getattr(event, "call_id", "") in begun or isinstance(event, events.JobFinished):
            yield event
