"""The decisions of a session, read from its events."""

from collections.abc import Sequence

from codeagent.core.events import ApprovalRequested, ApprovalResolved, KnownEvent, ToolResultAdded, UnknownEvent
from codeagent.core.ledger import LedgerRow


def decisions(events: Sequence[KnownEvent | UnknownEvent]) -> tuple[LedgerRow, ...]:
    """In the order they were made: what a person answered, and what was decided without asking."""
    requests = {event.approval_id: event for event in events if isinstance(event, ApprovalRequested)}
    asked = {request.call_id for request in requests.values()}
    rows: list[LedgerRow] = []
    for event in events:
        match event:
            case ApprovalResolved() if event.approval_id in requests:
                rows.append(_answered(requests[event.approval_id], event))
            case ToolResultAdded() if event.approval is not None and event.call_id not in asked:
                rows.append(_decided(event))
            case _:
                pass  # no decision
    return tuple(rows)


def _answered(request: ApprovalRequested, event: ApprovalResolved) -> LedgerRow:
    cancelled = event.answer == "cancelled"
    return LedgerRow(
        at=event.ts,
        call_id=event.call_id,
        tool=request.name,
        target=request.target,
        what=request.arguments or request.target,
        outcome="cancelled" if cancelled else "denied" if event.answer == "deny" else "allowed",
        who=event.source,
        answer=None if event.answer == "cancelled" else event.answer,
        rule=event.rule,
        keep=event.keep,
        reason=event.reason or request.reason,
        proposal=request.proposal,
    )


def _decided(event: ToolResultAdded) -> LedgerRow:
    denied = event.error is not None and event.error.kind == "denied"
    return LedgerRow(
        at=event.ts,
        call_id=event.call_id,
        tool=event.name,
        target="",
        what="",
        outcome="denied" if denied else "allowed",
        who=event.approval or "auto",
        rule=event.rule or "",
        reason=event.error.message if denied and event.error is not None else "",
    )
