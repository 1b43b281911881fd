"""Reduces events to the state of the screen: the only place where an event becomes something to see."""

from typing import assert_never

from codeagent.core.acts import Queued
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.display import TerminalBlock
from codeagent.core.events import (
    BatchFinished,
    BatchPlanned,
    CheckpointCreated,
    CheckpointRestored,
    JobFinished,
    JobStarted,
    JobUpdated,
    KnownEvent,
    LimitReached,
    MessageAdded,
    Notice,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    SteerDelivered,
    SteerQueued,
    TextDelta,
    ToolCallAdded,
    ToolFinished,
    ToolProgress,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from codeagent.core.messages import AssistantMessage, Usage, UserMessage, text_of
from codeagent.core.notices import (
    ActFailed,
    BudgetChanged,
    CallEdited,
    JobListens,
    ModeChanged,
    ModelChanged,
    ModelRetried,
    QueueOrdered,
    RunNotBegun,
    RunPaused,
    RunPausing,
    RunResumed,
    RunStopped,
    SessionNotSaved,
    StepModeChanged,
)
from codeagent.tui.background import BackgroundCalls
from codeagent.tui.boundaries import Boundaries
from codeagent.tui.outcomes import SHELL, error_of, note_of, restored_text, said_of, state_of, told_of
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.state import Halt, Paused, UiState
from codeagent.tui.stopped import failed_lines, stopped_lines
from codeagent.tui.transcript.blocks import CallState

MAIN = "main"


class Reducer:
    """Applies events to the UI state, one by one: a live run, a resumed session and a recorded log alike."""

    def __init__(self, state: UiState, *, live: bool) -> None:
        """`live`: queued text that is taken back returns to the composer."""
        self._state = state
        self._live = live
        self._thought = False
        self._stopped: RunStopped | None = None
        self._boundaries = Boundaries(state.boundary)
        self._background = BackgroundCalls(state)
        self._asked_of: dict[str, CallState] = {}
        """What the call was before it was asked about, by id of the question: what it left may be, too."""
        self._moments: dict[str, str] = {}
        """What was said, or what a batch was about, by id of the checkpoint."""

    def apply(self, event: KnownEvent | UnknownEvent) -> None:
        if event.agent != MAIN:
            return
        self._boundaries.apply(event)
        self._background.apply(event)
        match event:
            case RunStarted() | RunFinished() | TurnStarted() | TurnFinished():
                self._show_run(event)
            case MessageAdded() | TextDelta() | ReasoningDelta() | ToolCallAdded():
                self._show_speech(event)
            case BatchPlanned() | BatchFinished():
                self._show_batch(event)
            case SteerQueued() | SteerDelivered():
                self._show_queue(event)
            case ApprovalRequested() | ApprovalResolved():
                self._show_approval(event)
            case ToolStarted() | ToolUpdated() | ToolProgress() | ToolFinished() | ToolResultAdded():
                self._show_tool(event)
            case JobStarted() | JobUpdated() | JobFinished():
                pass  # shown by the background
            case CheckpointCreated() | CheckpointRestored():
                self._show_checkpoint(event)
            case LimitReached():
                self._state.document.remark(f"the limit {event.limit} = {event.maximum:g} is reached", "warning")
            case Notice() | JobListens() | SessionNotSaved() | ActFailed():
                self._state.document.remark(event.text, event.level)
            case RunPausing() | RunPaused() | RunResumed() | RunStopped() | RunNotBegun():
                self._show_halt(event)
            case ModeChanged() | ModelChanged() | BudgetChanged() | StepModeChanged():
                self._show_setting(event)
            case QueueOrdered():
                self._state.queue.order(event.ids)
            case CallEdited():
                self._state.document.card(event.call_id, "").target = event.target
                self._state.document.touch_card(event.call_id)
            case ModelRetried():
                self._state.document.drop_answer()
                self._state.status.set(phase="retrying", retry_at=event.ts + event.delay_s, retry_reason=event.reason)
            case UnknownEvent():
                self._state.document.remark(f"{event.type}: an event of a newer version; it is kept in the log")
            case _:
                assert_never(event)

    def end_recording(self) -> None:
        """What went on when a recording ended does so no more: questions, a pause, jobs."""
        self._state.approvals.clear()
        if isinstance(self._state.boundary.now, Paused):
            self._state.boundary.set(None)
        self._background.lose()
        self._state.status.set(halt="")

    def _show_run(self, event: RunStarted | RunFinished | TurnStarted | TurnFinished) -> None:
        status = self._state.status
        match event:
            case RunStarted():
                self._stopped = None
                status.set(
                    phase="thinking", since=event.ts, batch=0, model=event.model, mode=event.mode, session=event.session
                )
            case TurnStarted():
                self._thought = False
                status.set(phase="thinking", retry_at=None, retry_reason="")
            case TurnFinished():
                self._add_usage(event.usage)
            case RunFinished():
                self._finish(event)

    def _finish(self, event: RunFinished) -> None:
        self._state.document.close()
        if event.reason != "done" or event.error is not None:
            lines = stopped_lines(self._stopped) if self._stopped is not None else ()
            if event.reason == "failed":
                lines += failed_lines(event.error or "")
            self._state.document.end(event.reason, event.error or "", lines)
        self._state.approvals.clear()
        self._state.status.set(phase="idle", halt="", since=event.ts, batch=0, retry_at=None, retry_reason="")

    def _halt(self, halt: Halt) -> None:
        """A run that is being stopped has no other state until it ends."""
        if self._state.status.now.halt != "stopping":
            self._state.status.set(halt=halt)

    def _add_usage(self, usage: Usage) -> None:
        status = self._state.status
        now = status.now
        costs = [cost for cost in (now.cost_usd, usage.cost_usd) if cost is not None]
        status.set(
            context_tokens=(usage.input_tokens + usage.output_tokens) or now.context_tokens,
            input_tokens=now.input_tokens + usage.input_tokens,
            output_tokens=now.output_tokens + usage.output_tokens,
            cache_read_tokens=now.cache_read_tokens + usage.cache_read_tokens,
            cost_usd=sum(costs) if costs else None,
            estimated=now.estimated or usage.estimated,
        )

    def _show_speech(self, event: MessageAdded | TextDelta | ReasoningDelta | ToolCallAdded) -> None:
        document = self._state.document
        match event:
            case TextDelta():
                self._state.status.set(phase="answering")
                document.stream_text(event.text, event.ts)
            case ReasoningDelta():
                self._thought = True
                document.stream_thoughts(event.text, event.ts)
            case ToolCallAdded():
                document.close_thoughts(event.ts)
            case MessageAdded(message=UserMessage() as message) if self._background.tells_end(message):
                pass
            case MessageAdded(message=UserMessage(source="note") as message):
                if told := told_of(text_of(message.content)):
                    document.remark(told, "told")
            case MessageAdded(message=UserMessage() as message):
                document.say(text_of(message.content), message.source)
            case MessageAdded(message=AssistantMessage() as message):
                self._finish_answer(message, event.ts)

    def _finish_answer(self, message: AssistantMessage, now: float) -> None:
        """Of a recorded answer nothing was streamed: its thoughts come with it."""
        document = self._state.document
        thoughts = "\n\n".join(thought.text for thought in message.thinking if thought.text)
        if thoughts and not self._thought:
            document.stream_thoughts(thoughts, now)
        document.close_thoughts(now)
        document.finish_answer(message.text, cut=message.stop == "cut")

    def _show_batch(self, event: BatchPlanned | BatchFinished) -> None:
        match event:
            case BatchPlanned():
                self._state.document.plan(event.batch, event.calls)
                self._state.status.set(phase="working", batch=event.batch)
            case BatchFinished():
                self._state.document.finish_batch(event.batch, event.duration_ms)

    def _show_queue(self, event: SteerQueued | SteerDelivered) -> None:
        queue = self._state.queue
        match event:
            case SteerQueued():
                item = Queued(event.id, event.kind, event.text)
                known = any(waiting.id == item.id for waiting in queue.items)
                (queue.replace if known else queue.add)(item)
            case SteerDelivered():
                text = next((item.text for item in queue.items if item.id == event.id), None)
                queue.remove(event.id)
                if event.taken_back and self._live and text is not None:
                    self._state.give_back(text)

    def _show_approval(self, event: ApprovalRequested | ApprovalResolved) -> None:
        approvals, document = self._state.approvals, self._state.document
        match event:
            case ApprovalRequested():
                card = document.card(event.call_id, event.name, event.target)
                self._asked_of[event.approval_id], card.state = card.state, "asking"
                approvals.add(event)
            case ApprovalResolved():
                card = document.card(event.call_id, "")
                card.state = self._asked_of.pop(event.approval_id, "planned")
                card.said = said_of(event, card.name) or card.said
                approvals.remove(event.approval_id)
        document.touch_card(event.call_id)
        self._state.status.set(phase="waiting" if approvals.waiting else "working")

    def _show_tool(self, event: ToolStarted | ToolUpdated | ToolProgress | ToolFinished | ToolResultAdded) -> None:
        document = self._state.document
        if isinstance(event, ToolStarted) and event.name == SHELL:
            shared = event.arguments.get("shared") is True
            document.run_command(event.call_id, event.target, shared=shared)
            self._state.status.set(notice="your command runs: Esc stops it")
        card = document.card(event.call_id, event.name)
        match event:
            case ToolStarted():
                card.state, card.began, card.target = "running", event.ts, event.target or card.target
            case ToolUpdated():
                card.output = card.output or OutputBuffer()
                card.output.feed(event.text)
            case ToolProgress():
                card.progress = event.text
            case ToolFinished():
                card.duration_ms = event.duration_ms
            case ToolResultAdded() if card.job:
                pass  # it only says that the call goes on as that job
            case ToolResultAdded():
                card.state, card.note, card.progress = state_of(event), note_of(event), ""
                card.duration_ms = event.duration_ms
                card.error = error_of(event)
                card.shown = event.blocks
                card.output = _output_of(event) or card.output
                if event.name == SHELL:
                    self._state.status.set(notice="")
        document.touch_card(event.call_id)

    def _show_checkpoint(self, event: CheckpointCreated | CheckpointRestored) -> None:
        match event:
            case CheckpointCreated():
                self._moments[event.checkpoint_id] = event.label
            case CheckpointRestored():
                self._state.document.remark(restored_text(event, self._moments.get(event.checkpoint_id, "")))

    def _show_halt(self, event: RunPausing | RunPaused | RunResumed | RunStopped | RunNotBegun) -> None:
        state = self._state
        match event:
            case RunPausing():
                self._halt("pausing")
            case RunPaused():
                state.status.set(batch=event.batch)
                self._halt("paused")
            case RunResumed():
                self._halt("")
            case RunStopped():
                self._stopped = event  # shown with the end of the run
            case RunNotBegun():
                state.document.remark(event.text, event.level)
                state.status.set(phase="idle", halt="")
                if self._live and event.prompt:
                    state.give_back(event.prompt)

    def _show_setting(self, event: ModeChanged | ModelChanged | BudgetChanged | StepModeChanged) -> None:
        status = self._state.status
        match event:
            case ModeChanged():
                status.set(mode=event.mode)
            case ModelChanged():
                status.set(model=event.model)
            case BudgetChanged():
                status.set(budget=event.left, notice=event.text)
            case StepModeChanged():
                status.set(stepping=event.on, notice=event.text)


def _output_of(result: ToolResultAdded) -> OutputBuffer | None:
    """The printed output as the result holds it, which is complete where the live pieces were merged."""
    shown = next((block for block in result.blocks if isinstance(block, TerminalBlock)), None)
    if shown is None or not shown.output:
        return None
    buffer = OutputBuffer()
    buffer.feed(shown.output)
    return buffer
