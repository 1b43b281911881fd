"""Reduces a recorded session, or its end, to what the screen shows of it."""

from collections.abc import Iterable, Iterator, Sequence

from codeagent.core import events
from codeagent.core.events import ToolStarted
from codeagent.core.json_types import MAIN
from codeagent.tui.launcher import Launcher
from codeagent.tui.reduce import AnyEvent, CardsOf, Reducer
from codeagent.tui.state import UiState
from codeagent.tui.transcript.document import Document


def replayed(recorded: Iterable[AnyEvent], cards: CardsOf = tuple) -> tuple[UiState, Reducer]:
    """Reduce recorded events to a state of their own, which no widget watches; slow, so run it in a
    thread."""
    state = UiState()
    reducer = Reducer(state, live=False, cards=cards)
    for event in recorded:
        reducer.apply(event)
    reducer.end_recording()
    return state, reducer


def read_session(
    launcher: Launcher, session_id: str, cards: CardsOf
) -> tuple[UiState, Reducer, int]:
    """Read and reduce a session; also returns the number of its last event. Blocks on a file."""
    recorded = launcher.recorded(session_id)
    last = max((event.seq for event in recorded if event.agent == MAIN), default=0)
    return *replayed(recorded, cards), last


def replayed_end(end: Sequence[AnyEvent], cards: CardsOf = tuple) -> Document:
    """Reduce the last events of a session, from the first complete turn on; empty if there is
    none."""
    starts = (
        at
        for at, event in enumerate(end)
        if isinstance(event, events.RunStarted | events.TurnStarted)
    )
    first = next((at for at in starts if end[at].agent == MAIN), len(end))
    return replayed(_of_known_calls(end[first:]), cards)[0].document


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
