"""The decisions of a session, read from its events."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.display import QuestionBlock
from codeagent.core.events import BatchPlanned, KnownEvent, ToolCallAdded, ToolResultAdded, ToolStarted, UnknownEvent
from codeagent.core.ledger import LedgerRow
from codeagent.core.notices import CallEdited
from codeagent.core.policy import Answer
from codeagent.core.shell import SHELL

_OUTCOMES: dict[Answer | Literal["cancelled"], Literal["allowed", "denied", "cancelled"]] = {
    "once": "allowed",
    "session": "allowed",
    "rule": "allowed",
    "edit": "cancelled",
    "deny": "denied",
    "cancelled": "cancelled",
}


def decisions(events: Sequence[KnownEvent | UnknownEvent]) -> tuple[LedgerRow, ...]:
    """In the order they were made: what a person answered, and what was decided without asking.

    A call that was asked about twice has two rows; an answer that did not settle it is `cancelled`.
    """
    reading = _Reading()
    for event in events:
        match event:
            case ToolCallAdded():
                reading.call(event).arguments = event.arguments
            case BatchPlanned():
                reading.planned(event)
            case CallEdited():
                reading.edited(event)
            case ToolStarted():
                started = reading.call(event)
                started.target, started.arguments = event.target, json.dumps(event.arguments, ensure_ascii=False)
                started.started = True
            case ApprovalRequested():
                reading.asked(event)
            case ApprovalResolved():
                reading.answered(event)
            case ToolResultAdded():
                reading.ended(event)
            case _:
                pass  # no decision
    return tuple(reading.rows)


@dataclass
class _Call:
    """What is known about a call so far."""

    target: str = ""
    arguments: str = ""
    """JSON, or whatever the model produced instead."""
    reason: str = ""
    row: int | None = None
    """The row of the person's answer."""
    started: bool = False
    """What is asked from now on is about what it did."""


class _Reading:
    """Goes through the events once."""

    def __init__(self) -> None:
        self.rows: list[LedgerRow] = []
        self._calls: dict[tuple[str, str], _Call] = {}
        self._requests: dict[tuple[str, str], ApprovalRequested] = {}

    def call(
        self, event: ToolCallAdded | ToolStarted | ApprovalRequested | ApprovalResolved | ToolResultAdded
    ) -> _Call:
        return self._calls.setdefault((event.agent, event.call_id), _Call())

    def planned(self, event: BatchPlanned) -> None:
        for plan in event.calls:
            call = self._calls.setdefault((event.agent, plan.call_id), _Call())
            call.target, call.reason = plan.target, plan.reason

    def edited(self, event: CallEdited) -> None:
        call = self._calls.setdefault((event.agent, event.call_id), _Call())
        call.arguments, call.target = event.arguments, event.target
        call.reason = "edited by the user"

    def asked(self, event: ApprovalRequested) -> None:
        if any(isinstance(block, QuestionBlock) for block in event.blocks):
            return
        self._requests[event.agent, event.approval_id] = event
        call = self.call(event)
        if call.started:
            return
        if call.row is not None and self.rows[call.row].outcome == "allowed":
            self.rows[call.row] = replace(
                self.rows[call.row], outcome="cancelled", reason=f"asked again: {event.reason}"
            )
        call.row = None

    def answered(self, event: ApprovalResolved) -> None:
        request = self._requests.get((event.agent, event.approval_id))
        if request is None:
            return
        call = self.call(event)
        if not call.started:
            call.row = None if event.answer == "edit" else len(self.rows)
        self.rows.append(
            LedgerRow(
                at=event.ts,
                call_id=event.call_id,
                tool=request.name,
                target=request.target or call.target,
                what=request.target if call.started else _all_of(request.arguments or call.arguments) or request.target,
                outcome=_OUTCOMES[event.answer],
                who=event.source,
                answer=None if event.answer == "cancelled" else event.answer,
                rule=event.rule,
                keep=event.keep,
                reason=event.reason or request.reason,
                proposal=request.proposal,
            )
        )

    def ended(self, event: ToolResultAdded) -> None:
        call = self.call(event)
        kind = None if event.error is None else event.error.kind
        refused = kind in ("denied", "skipped")
        if call.row is not None and not (kind == "denied" and self.rows[call.row].outcome == "allowed"):
            return
        if event.approval is None and not refused:
            return
        self.rows.append(
            LedgerRow(
                at=event.ts,
                call_id=event.call_id,
                tool=event.name,
                target=call.target,
                what=_all_of(call.arguments) or call.target,
                outcome="denied" if kind == "denied" else "cancelled" if kind == "skipped" else "allowed",
                who="auto" if call.row is not None else event.approval or "auto",
                rule=event.rule or "",
                reason=_why(event, call, refused),
            )
        )


def _why(event: ToolResultAdded, call: _Call, refused: bool) -> str:
    if refused and event.error is not None:
        return event.error.message
    if event.name == SHELL:
        return "the user's own command"
    if event.approval == "user":
        return "the same call was allowed for this session"
    return call.reason


def _all_of(arguments: str) -> str:
    """A command as it would be typed, with its other arguments below it; else the arguments as they are."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(values, dict) or not isinstance(command := values.pop("command", None), str):
        return arguments
    others = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return f"{command}\n({others})" if others else command
