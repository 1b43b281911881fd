"""Child agents on the screen: each below the card of the call that started it, reduced like a
conversation."""

from collections.abc import Callable

from codeagent.core import events, notices
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved, HostDecided
from codeagent.core.dataclass import dataclass
from codeagent.tui.outcomes import add_usage
from codeagent.tui.state import UiState
from codeagent.tui.transcript.blocks import ChildView

AnyEvent = events.KnownEvent | events.UnknownEvent
Apply = Callable[[AnyEvent], None]
_SAID = {"asking": "waiting for its model", "writing": "writing a call"}
"""What a phase is called below a card, where no time is counted."""


@dataclass(frozen=True)
class _Shown:
    call_id: str
    view: ChildView
    state: UiState
    """The child's own UI state; only its document is drawn."""
    apply: Apply


class ChildCards:
    """The children of one conversation, by the agent name on their events: an implementation of
    `tui.reduce.AgentCards`."""

    def __init__(self, reducer: Callable[[UiState, str], Apply]) -> None:
        """`reducer` makes the reducer that applies the events of the agent of that name to a
        state."""
        self._reducer = reducer
        self._shown: dict[str, _Shown] = {}

    def begin(self, event: notices.AgentStarted, main: UiState) -> None:
        """Show an agent below the card of its call."""
        state = UiState()
        view = ChildView(event.child, event.child_session, state.document.blocks)
        main.document.card(event.call_id, "agent").child = view
        self._shown[event.child] = _Shown(
            event.call_id, view, state, self._reducer(state, event.child)
        )
        main.document.touch_card(event.call_id)

    def apply(self, event: AnyEvent, main: UiState) -> None:
        """Show an event of a child; what the user has to answer is shown as if the main agent had
        asked."""
        if (child := self._shown.get(event.agent)) is None:
            return
        child.apply(event)
        status, view = child.state.status.now, child.view
        phase = status.run.phase
        view.phase = "" if isinstance(event, events.RunFinished) else _SAID.get(phase, phase)
        view.tokens = status.usage.input_tokens + status.usage.output_tokens
        view.cost_usd = status.usage.cost_usd
        match event:
            case events.ToolStarted():
                view.calls += 1
            case events.TurnFinished() | notices.SummaryWritten():
                add_usage(event.usage, main, context=False)
            case ApprovalRequested():
                main.approvals.add(event)
                main.status.set(phase="waiting")
            case ApprovalResolved():
                main.approvals.resolve(event)
                main.status.set(phase="waiting" if main.approvals.waiting else "working")
            case HostDecided():
                main.approvals.reach(event)
            case events.ToolFinished() | events.ToolResultAdded():
                main.approvals.end(event.call_id)
            case notices.RunPaused():
                main.boundary.pause(event.why, f"{event.agent}: {event.text}", event.batch, ())
                main.status.set(halt="paused")
            case notices.RunResumed():
                main.boundary.resumed()
                main.status.set(halt="")
            case _:
                pass
        main.document.touch_card(child.call_id)

    def end_recording(self) -> None:
        """Stop showing children as working: they ended with the process that was cut short."""
        for child in self._shown.values():
            child.view.phase = ""
