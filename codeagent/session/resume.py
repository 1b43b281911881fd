"""What a session that ended in the middle still owes: the events that close it before it goes on."""

from collections.abc import Sequence

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.envelope import stamped
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    RunFinished,
    RunStarted,
    ToolCallAdded,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from codeagent.core.json_types import JsonValue
from codeagent.core.messages import AssistantMessage, ErrorInfo, TextPart, ToolCall, Usage, UserMessage
from codeagent.core.shell import SHELL
from codeagent.session.history import ENDED, ENDED_MIDWAY, MAIN, OpenCall, fold
from codeagent.session.jobs import lost, open_jobs

AnyEvent = KnownEvent | UnknownEvent


def closing_events(events: Sequence[AnyEvent], session: str, first_seq: int, now: float) -> tuple[KnownEvent, ...]:
    """Give every approval its answer, every call its one result, every job and the run their end.

    Text that had left its queue becomes the message it was about to be; what is still queued stays so.
    Empty for a session that ended properly. Approvals are closed as cancelled: no consent outlives its run.
    """
    own = [event for event in events if event.agent == MAIN]
    writer = _Writer(session, first_seq, now)
    history = fold(own)
    for approval in _open_approvals(own):
        writer.add(
            ApprovalResolved(
                approval_id=approval.approval_id,
                call_id=approval.call_id,
                answer="cancelled",
                source="auto",
                reason="the session ended",
            )
        )
    for tool in _unfinished_tools(own):
        writer.add(ToolFinished(call_id=tool.call_id, name=tool.name, is_error=True, duration_ms=0))
    for open_call in history.open_calls:
        _add_result(writer, open_call)
    for call in _discarded(own, {open_call.call.id for open_call in history.open_calls}):
        _add_result(writer, OpenCall(call, started=False))
    for command in _open_commands(own):
        _add_result(writer, OpenCall(ToolCall(id=command.call_id, name=SHELL), started=True), dict(command.arguments))
    for job in open_jobs(own):
        writer.add(lost(job, own, now))
    for queued in history.undelivered:
        if queued.taken_out:
            writer.add(MessageAdded(message=UserMessage.from_text(queued.text, queued.kind)))
    _end_run(writer, own)
    return tuple(writer.events)


class _Writer:
    def __init__(self, session: str, first_seq: int, now: float) -> None:
        self.events: list[KnownEvent] = []
        self._session = session
        self._seq = first_seq
        self._now = now

    def add(self, event: KnownEvent) -> None:
        self.events.append(stamped(event, seq=self._seq, ts=self._now, session=self._session, agent=MAIN))
        self._seq += 1


def _open_approvals(events: Sequence[AnyEvent]) -> list[ApprovalRequested]:
    answered = {event.approval_id for event in events if isinstance(event, ApprovalResolved)}
    asked = [event for event in events if isinstance(event, ApprovalRequested)]
    return [event for event in asked if event.approval_id not in answered]


def _unfinished_tools(events: Sequence[AnyEvent]) -> list[ToolStarted]:
    finished = {event.call_id for event in events if isinstance(event, ToolFinished)}
    return [event for event in events if isinstance(event, ToolStarted) and event.call_id not in finished]


def _open_commands(events: Sequence[AnyEvent]) -> list[ToolStarted]:
    """Commands of the person's own that have no result."""
    answered = {event.call_id for event in events if isinstance(event, ToolResultAdded)}
    started = [event for event in events if isinstance(event, ToolStarted) and event.name == SHELL]
    return [event for event in started if event.call_id not in answered]


def _discarded(events: Sequence[AnyEvent], open_ids: set[str]) -> list[ToolCall]:
    """Calls that were announced in an answer that never came to be."""
    answered = {event.call_id for event in events if isinstance(event, ToolResultAdded)} | open_ids
    announced = {event.call_id: event for event in events if isinstance(event, ToolCallAdded)}
    return [
        ToolCall(id=event.call_id, name=event.name, arguments=event.arguments)
        for event in announced.values()
        if event.call_id not in answered
    ]


def _add_result(writer: _Writer, open_call: OpenCall, details: dict[str, JsonValue] | None = None) -> None:
    text = ENDED_MIDWAY if open_call.started else ENDED
    writer.add(
        ToolResultAdded(
            call_id=open_call.call.id,
            name=open_call.call.name,
            content=(TextPart(text=text),),
            is_error=True,
            executed=open_call.started,
            error=ErrorInfo(kind="cancelled", message=text.removeprefix("cancelled: ")),
            details=details or {},
        )
    )


def _end_run(writer: _Writer, events: Sequence[AnyEvent]) -> None:
    edges = [at for at, event in enumerate(events) if isinstance(event, RunStarted | RunFinished)]
    if not edges or isinstance(events[edges[-1]], RunFinished):
        return
    run = events[edges[-1] :]
    said = [
        event.message.text
        for event in run
        if isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage) and event.message.text
    ]
    writer.add(
        RunFinished(
            reason="interrupted",
            text=said[-1] if said else "",
            usage=sum((event.usage for event in run if isinstance(event, TurnFinished)), Usage()),
            turns=sum(isinstance(event, TurnStarted) for event in run),
            calls=sum(isinstance(event, ToolStarted) and event.name != SHELL for event in run),
            error="the process ended before the run did",
            duration_ms=max(0, int((run[-1].ts - run[0].ts) * 1000)),
        )
    )
