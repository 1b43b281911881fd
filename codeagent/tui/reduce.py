"""Reduces events to the state of the screen: the only place where an event becomes something to
see."""

from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

from codeagent.core import events, notices
from codeagent.core.acts import Queued
from codeagent.core.approval_events import (
    ApprovalRequested,
    ApprovalResolved,
    EffectsFound,
    HostDecided,
)
from codeagent.core.compaction import ContextCompacted
from codeagent.core.extension import Reference, resolved
from codeagent.core.jobs import TriggerAdded, TriggerEvent, TriggerFired, TriggerStopped
from codeagent.core.json_types import MAIN
from codeagent.core.memory import TodoChanged
from codeagent.core.messages import AssistantMessage, UserMessage, text_of
from codeagent.core.pulse_events import follow
from codeagent.tui import outcomes
from codeagent.tui.reduce_calls import CallReducer, RunningCall
from codeagent.tui.reduce_run import RunReducer
from codeagent.tui.state import UiState

AnyEvent = events.KnownEvent | events.UnknownEvent
BoundaryNotice = (
    notices.ModeChanged
    | notices.RunPausing
    | notices.RunPaused
    | notices.RunResumed
    | notices.RunStopped
    | notices.RunNotBegun
    | notices.RecipeStepBegun
)
"""What is said of the run itself."""
NoticeLike = (
    events.Notice | HostDecided | EffectsFound | notices.AnyNotice | ContextCompacted | TodoChanged
)
CardsOf = Callable[[], Sequence[Reference]]
"""The `cards` of the extensions that are on; they are imported once an event needs them."""


class AgentCards(Protocol):
    """Shows the other agents of a conversation in it; an extension makes it (`OnScreen.cards`).

    It is made with a function that makes what applies the events of the agent of a name to a state.
    """

    def begin(self, event: notices.AgentStarted, main: UiState) -> None:
        """Show an agent below the card of its call."""

    def apply(self, event: AnyEvent, main: UiState) -> None:
        """Show an event of another agent; ignore it if that agent is not shown."""

    def end_recording(self) -> None:
        """Stop showing agents as working: they ended with the process that was cut short."""


class Reducer:
    """Applies events to the UI state one by one, whether of a live run, a resumed session or a
    recorded log."""

    def __init__(
        self, state: UiState, *, live: bool, agent: str = MAIN, cards: CardsOf = tuple
    ) -> None:
        """If `live`, queued text that is taken back returns to the composer; `agent` is whose
        conversation it is."""
        self._state = state
        self._agent = agent
        self._live = live
        self._cards_of = cards
        self._agents: tuple[AgentCards, ...] | None = None
        self._calls = CallReducer(state)
        self._run = RunReducer(state)
        self._thought = False
        self._moments: dict[str, str] = {}
        """The prompt, or what the batch was about, by id of the checkpoint."""

    def apply(self, event: AnyEvent) -> None:
        if event.agent != self._agent:
            for cards in self._other_agents():
                cards.apply(event, self._state)
            return
        follow(self._state.pulse, event)
        if isinstance(event, RunningCall):
            self._calls.show(event)
            return
        match event:
            case events.TextDelta() | events.ReasoningDelta() | events.ToolCallDelta():
                self._stream(event)
            case events.ToolCallAdded():
                self._calls.add(event)
            case events.BatchPlanned():
                self._calls.plan_batch(event)
            case events.BatchFinished():
                self._state.document.finish_batch(event.batch, event.duration_ms)
            case ApprovalRequested():
                self._calls.ask(event)
            case ApprovalResolved():
                self._calls.resolve(event)
            case events.JobStarted():
                self._calls.begin_job(event)
            case events.JobUpdated():
                self._state.jobs.feed(event.job_id, event.text)
            case events.JobFinished():
                self._calls.end_job(event)
            case events.RunStarted():
                self._run.begin(event)
                self._calls.begin_run()
            case events.RunFinished():
                self._run.end(event)
                self._calls.end_run()
                self._run.rest(event)
            case events.TurnStarted():
                self._thought = False
                self._state.document.begin_turn()
                self._state.status.set(phase="asking", retry_reason="")
            case events.TurnFinished() | events.AsideAnswered():
                outcomes.count_request(event, self._state)
            case events.MessageAdded():
                self._add_message(event)
            case events.SteerQueued():
                self._state.queue.add(Queued(event.id, event.kind, event.text))
            case events.SteerDelivered():
                self._deliver(event)
            case TriggerAdded() | TriggerFired() | TriggerStopped():
                self._show_trigger(event)
            case events.CheckpointCreated():
                self._moments[event.checkpoint_id] = event.label
            case events.CheckpointRestored():
                moment = self._moments.get(event.checkpoint_id, "")
                self._state.document.remark(outcomes.restored_text(event, moment))
            case events.ProviderToolUsed() | events.LimitReached() | events.UnknownEvent():
                outcomes.show_line(event, self._state.document)
            case _:
                self._apply_notice(event)

    def _apply_notice(self, event: NoticeLike) -> None:
        state, status = self._state, self._state.status
        if isinstance(event, BoundaryNotice):
            self._show_run(event)
            return
        match event:
            case notices.NetworkChanged():
                status.set(network=event.network, notice=event.text)
            case notices.ModelChanged() | notices.ModelRetried() | notices.ModelFellBack():
                outcomes.show_model(event, state)
            case notices.BudgetChanged():
                status.set(budget=event.left, notice=event.text)
            case notices.StepModeChanged():
                status.set(stepping=event.on, notice=event.text)
            case notices.PinsChanged():
                status.set(pins=event.pins, notice=event.text)
            case TodoChanged():
                status.set(todo=event.items)
            case notices.QueueOrdered():
                state.queue.order(event.ids)
            case notices.CallMarked():
                self._calls.mark(event)
            case notices.CallEdited():
                self._calls.edit(event)
            case notices.JobListens():
                state.jobs.listens(event.job_id, event.port)
                state.document.remark(event.text, event.level)
            case (
                events.Notice()
                | notices.ToolsetChosen()
                | notices.SessionNotSaved()
                | notices.ActFailed()
                | notices.RecipeStopped()
                | notices.MessageReceived()
            ):
                state.document.remark(event.text, event.level)
            case (
                notices.CompactionBegun()
                | notices.SummaryWritten()
                | notices.CompactionFailed()
                | ContextCompacted()
            ):
                outcomes.show_compaction(event, state)
            case notices.AgentStarted() if event.child != self._agent:
                for cards in self._other_agents():
                    cards.begin(event, state)
            case HostDecided():
                state.approvals.reach(event)
            case notices.AgentStarted() | notices.TextRead() | EffectsFound():
                pass  # a child's first event; the reason for, or what is on, the next question
            case _:
                assert_never(event)

    def _show_run(self, event: BoundaryNotice) -> None:
        match event:
            case notices.ModeChanged():
                self._run.change_mode(event)
            case notices.RunPausing():
                self._run.hold("pausing")
            case notices.RunPaused() | notices.RunResumed():
                self._run.wait_at_boundary(event)
            case notices.RunStopped():
                self._run.stop(event)
            case notices.RecipeStepBegun():
                self._run.begin_step(event)
            case notices.RunNotBegun():
                self._run.refuse(event)
                if self._live and event.prompt:
                    self._state.give_back(event.prompt)
            case _:
                assert_never(event)

    def _other_agents(self) -> tuple[AgentCards, ...]:
        if self._agents is None:
            made = (resolved(reference) for reference in self._cards_of())
            self._agents = tuple(each(self._reducer_of) for each in made)
        return self._agents

    def _reducer_of(self, own: UiState, name: str) -> Callable[[AnyEvent], None]:
        return Reducer(own, live=False, agent=name, cards=self._cards_of).apply

    def go_live(self, state: UiState) -> None:
        """Continue live, on the state that shows the recorded events."""
        self._state = self._calls.state = self._run.state = state
        self._live = True

    def end_recording(self) -> None:
        """End what was in progress when the recording stopped: questions, a pause, jobs, other
        agents."""
        self._calls.end_recording()
        for cards in self._agents or ():
            cards.end_recording()
        self._state.boundary.end_recording()
        self._state.status.set(halt="", in_run=False, jobs=0, waits_since=None)

    def _stream(
        self, event: events.TextDelta | events.ReasoningDelta | events.ToolCallDelta
    ) -> None:
        self._state.status.set(phase=self._state.pulse.state or "answering", retry_reason="")
        match event:
            case events.TextDelta():
                self._state.document.stream_text(event.text, event.ts)
            case events.ReasoningDelta():
                self._thought = True
                self._state.document.stream_thoughts(event.text, event.ts)
            case events.ToolCallDelta():
                self._state.document.close_thoughts(event.ts)
            case _:
                assert_never(event)

    def _add_message(self, event: events.MessageAdded) -> None:
        match event.message:
            case AssistantMessage() as message:
                self._finish_answer(message, event.ts)
            case UserMessage(source="note") as message:
                outcomes.show_note(message, self._state)
            case UserMessage() as message:
                task = self._agent != MAIN and message.source == "prompt"
                self._state.document.say(
                    text_of(message.content), "task" if task else message.source
                )

    def _finish_answer(self, message: AssistantMessage, now: float) -> None:
        """Show a whole answer; a recorded one was not streamed, so its thinking is shown here
        too."""
        document = self._state.document
        thoughts = "\n\n".join(thought.text for thought in message.thinking if thought.text)
        if thoughts and not self._thought:
            document.stream_thoughts(thoughts, now)
        document.close_thoughts(now)
        document.finish_answer(message.text, cut=message.stop == "cut")

    def _deliver(self, event: events.SteerDelivered) -> None:
        queue = self._state.queue
        text = next((item.text for item in queue.items if item.id == event.id), None)
        queue.remove(event.id)
        if event.taken_back and self._live and text is not None:
            self._state.give_back(text)

    def _show_trigger(self, event: TriggerEvent) -> None:
        line, jobs = outcomes.trigger_line(event), self._state.jobs
        jobs.set_trigger(outcomes.trigger_row(event, jobs.get(event.trigger.id)), line)
        if isinstance(event, TriggerFired):
            self._state.document.remark(line)
