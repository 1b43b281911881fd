"""The audit of a session: each call, each decision, and their totals."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Literal

from codeagent.core.approval_events import (
    ApprovalRequested,
    ApprovalResolved,
    EffectsFound,
    HostDecided,
    ListedEffect,
)
from codeagent.core.dataclass import dataclass, record
from codeagent.core.display import QuestionBlock
from codeagent.core.events import (
    AsideAnswered,
    BatchPlanned,
    JobFinished,
    JobStarted,
    KnownEvent,
    LimitReached,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
    UnknownEvent,
)
from codeagent.core.messages import ErrorKind, Usage
from codeagent.core.notes import SHELL
from codeagent.core.notices import CallEdited, SummaryWritten
from codeagent.core.policy import EFFECTS, HOSTS, Answer, ApprovalSource


@dataclass(frozen=True)
class CallRecord:
    """One call; secrets are masked, as in the log it is made from."""

    id: str
    tool: str
    arguments: str
    """JSON of the arguments as it ran; if it did not run, as the model asked for it."""
    at: float
    """When it was asked for, in seconds since the epoch."""
    approval: ApprovalSource | None = None
    rule: str | None = None
    sandbox: Literal["docker", "host"] | None = None
    """None if it did not run in one."""
    exit: int | None = None
    """The exit code of a command; None if it was stopped, or the call was not a command."""
    executed: bool = False
    error: ErrorKind | None = None
    duration_ms: int = 0
    """Of a job, until it ended."""
    job: str | None = None
    """The job it became."""
    answered: bool = False
    """It has its result."""
    changes: tuple[ListedEffect, ...] = ()
    """What it did to files, if it was tried out; who took that is a decision of its own."""


def audit(events: Iterable[KnownEvent | UnknownEvent]) -> tuple[CallRecord, ...]:
    """List the calls in the order in which they were asked for, the user's own commands
    included."""
    rows: dict[str, CallRecord] = {}

    def known(event: ToolStarted | ToolResultAdded) -> CallRecord:
        row = rows.get(event.call_id)
        return row or CallRecord(event.call_id, event.name, "", event.ts)

    for event in events:
        match event:
            case ToolCallAdded():
                rows[event.call_id] = CallRecord(
                    event.call_id, event.name, event.arguments, event.ts
                )
            case ToolStarted():
                arguments = json.dumps(event.arguments, ensure_ascii=False)
                rows[event.call_id] = replace(known(event), tool=event.name, arguments=arguments)
            case ToolResultAdded():
                rows[event.call_id] = _ended(known(event), event)
            case EffectsFound() if event.call_id in rows:
                rows[event.call_id] = replace(rows[event.call_id], changes=event.changes)
            case JobStarted() if event.call_id in rows:
                rows[event.call_id] = replace(rows[event.call_id], job=event.job_id)
            case JobFinished() if event.call_id in rows:
                row = rows[event.call_id]
                rows[event.call_id] = replace(
                    row, job=event.job_id, exit=event.exit_code, duration_ms=event.duration_ms
                )
            case _:
                pass
    return tuple(rows.values())


def _ended(row: CallRecord, result: ToolResultAdded) -> CallRecord:
    code = result.details.get("exit_code")
    return replace(
        row,
        approval=result.approval,
        rule=result.rule,
        sandbox=result.sandbox,
        exit=code if isinstance(code, int) else None,
        executed=result.executed,
        error=None if result.error is None else result.error.kind,
        duration_ms=result.duration_ms,
        answered=True,
    )


@dataclass(frozen=True)
class LedgerRow:
    """One decision about one call."""

    at: float
    """Seconds since the epoch."""
    call_id: str
    tool: str
    target: str
    """One line: the path or the command."""
    what: str
    """The whole command, or the arguments as JSON."""
    outcome: Literal["allowed", "denied", "cancelled"]
    who: ApprovalSource
    answer: Answer | None = None
    """What the user answered; None if they were not asked."""
    rule: str = ""
    """The rule that decided, or that was made from the answer."""
    keep: bool = False
    """Whether that rule also holds in later sessions."""
    reason: str = ""
    """Why it was asked, allowed or denied, as a phrase."""
    proposal: str = ""
    """A rule that would have allowed this call and similar ones; empty if none can be proposed."""


def decided_by(row: LedgerRow) -> str:
    """Say who decided, and for how long: `you, once`, `rule`, `you, kept`."""
    who = "you" if row.who == "user" else row.who
    match row.answer:
        case "deny" if row.rule:
            return f"{who}, never"
        case None | "deny":
            return who
        case "rule":
            return f"{who}, {'kept' if row.keep else 'session'} rule"
        case "edit":
            return f"{who}, edited"
        case answer:
            return f"{who}, {answer}"


_OUTCOMES: dict[Answer | Literal["cancelled"], Literal["allowed", "denied", "cancelled"]] = {
    "once": "allowed",
    "session": "allowed",
    "rule": "allowed",
    "edit": "cancelled",
    "deny": "denied",
    "cancelled": "cancelled",
}


def decisions(events: Sequence[KnownEvent | UnknownEvent]) -> tuple[LedgerRow, ...]:
    """Return the decisions in the order they were made: what the user answered, and what was
    decided without asking.

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
                started.target = event.target
                started.arguments = json.dumps(event.arguments, ensure_ascii=False)
                started.started = True
            case ApprovalRequested():
                reading.asked(event)
            case ApprovalResolved():
                reading.answered(event)
            case HostDecided():
                reading.reached(event)
            case EffectsFound():
                reading.found(event)
            case ToolResultAdded():
                reading.ended(event)
            case _:
                pass  # not a decision
    return tuple(reading.rows)


@dataclass
class _Call:
    """What is known about a call so far."""

    target: str = ""
    arguments: str = ""
    """JSON, or whatever the model produced instead."""
    reason: str = ""
    row: int | None = None
    """The row of the user's answer."""
    started: bool = False
    """Whether questions from now on are about what it did."""
    tried: bool = False
    """Whether what it changed was decided about."""


class _Reading:
    """Reads the decisions in one pass over the events."""

    def __init__(self) -> None:
        self.rows: list[LedgerRow] = []
        self._calls: dict[tuple[str, str], _Call] = {}
        self._requests: dict[tuple[str, str], ApprovalRequested] = {}

    def call(
        self,
        event: ToolCallAdded
        | CallEdited
        | ToolStarted
        | ApprovalRequested
        | ApprovalResolved
        | EffectsFound
        | ToolResultAdded,
    ) -> _Call:
        return self._calls.setdefault((event.agent, event.call_id), _Call())

    def planned(self, event: BatchPlanned) -> None:
        for plan in event.calls:
            call = self._calls.setdefault((event.agent, plan.call_id), _Call())
            call.target = plan.target
            call.reason = plan.reason

    def edited(self, event: CallEdited) -> None:
        call = self.call(event)
        call.arguments = event.arguments
        call.target = event.target
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
                what=request.target
                if call.started
                else _all_of(request.arguments or call.arguments) or request.target,
                outcome=_OUTCOMES[event.answer],
                who=event.source,
                answer=None if event.answer == "cancelled" else event.answer,
                rule=event.rule,
                keep=event.keep,
                reason=event.reason or request.reason,
                proposal=request.proposal,
            )
        )

    def reached(self, event: HostDecided) -> None:
        call = self._calls.get((event.agent, event.call_id), _Call())
        what = f"{event.host}\n({call.target})" if call.target else event.host
        self._decided(event, HOSTS, event.host, what, allowed=event.allowed)

    def found(self, event: EffectsFound) -> None:
        call = self.call(event)
        call.tried = True
        if event.permission != "prompt":  # then the answer is the decision
            what = f"{call.target}\n({', '.join(event.listed())})"
            allowed = event.permission == "auto"
            self._decided(event, EFFECTS, call.target, what, allowed=allowed)

    def _decided(
        self, event: HostDecided | EffectsFound, tool: str, target: str, what: str, *, allowed: bool
    ) -> None:
        self.rows.append(
            LedgerRow(
                at=event.ts,
                call_id=event.call_id,
                tool=tool,
                target=target,
                what=what,
                outcome="allowed" if allowed else "denied",
                who=event.source,
                rule=event.rule,
                reason=event.reason,
            )
        )

    def ended(self, event: ToolResultAdded) -> None:
        call = self.call(event)
        kind = None if event.error is None or call.tried else event.error.kind
        refused = kind in ("denied", "skipped")
        if call.row is not None and not (
            kind == "denied" and self.rows[call.row].outcome == "allowed"
        ):
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
                outcome="denied"
                if kind == "denied"
                else "cancelled"
                if kind == "skipped"
                else "allowed",
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
    if call.tried or "files_changed" in event.details:
        return "it was tried out first"
    if event.approval == "user":
        return "the same call was allowed for this session"
    return call.reason


def _all_of(arguments: str) -> str:
    """Return a command as it would be typed, with its other arguments below; otherwise the
    arguments as they are."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(values, dict) or not isinstance(command := values.pop("command", None), str):
        return arguments
    others = ", ".join(
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()
    )
    return f"{command}\n({others})" if others else command


@record
class ToolStats:
    """Calls of one tool."""

    calls: int = 0
    successful: int = 0
    failed: int = 0
    """Errors of every kind, denied and skipped calls included."""
    duration_ms: int = 0


@record
class SessionStats:
    """`total_duration_ms` is the sum over calls, including those that ran side by side."""

    total_calls: int = 0
    successful: int = 0
    failed: int = 0
    total_duration_ms: int = 0
    tools: dict[str, ToolStats] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """Failed calls by error kind."""
    approvals: dict[str, int] = field(default_factory=dict)
    """Calls by who allowed or denied them: `auto`, `user`, `rule`, `hook` or `flag`."""
    jobs: dict[str, int] = field(default_factory=dict)
    """Calls that kept running in the background, by how they ended."""
    limits: dict[str, int] = field(default_factory=dict)
    """How often each limit was reached."""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)


COUNTED = frozenset(
    {"turn.finished", "aside.answered", "tool.result", "job.finished", "limit.reached", "notice"}
)
"""The types of the events that are counted."""


def gather_stats(events: Iterable[KnownEvent | UnknownEvent]) -> SessionStats:
    """Add up one session, or several one after the other."""
    tools: dict[str, ToolStats] = {}
    errors, approvals, jobs, limits = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    usage, turns = Usage(), 0
    for event in events:
        match event:
            case TurnFinished():
                usage, turns = usage + event.usage, turns + 1
            case SummaryWritten() | AsideAnswered():
                usage += event.usage
            case ToolResultAdded():
                tools[event.name] = _with(tools.get(event.name, ToolStats()), event)
                errors.update([event.error.kind] if event.error is not None else [])
                approvals.update([event.approval] if event.approval is not None else [])
            case JobFinished():
                jobs[event.status] += 1
            case LimitReached():
                limits[event.limit] += 1
            case _:
                pass
    return SessionStats(
        total_calls=sum(tool.calls for tool in tools.values()),
        successful=sum(tool.successful for tool in tools.values()),
        failed=sum(tool.failed for tool in tools.values()),
        total_duration_ms=sum(tool.duration_ms for tool in tools.values()),
        tools=dict(sorted(tools.items())),
        errors=dict(sorted(errors.items())),
        approvals=dict(sorted(approvals.items())),
        jobs=dict(sorted(jobs.items())),
        limits=dict(sorted(limits.items())),
        turns=turns,
        usage=usage,
    )


def _with(stats: ToolStats, result: ToolResultAdded) -> ToolStats:
    return ToolStats(
        calls=stats.calls + 1,
        successful=stats.successful + (not result.is_error),
        failed=stats.failed + result.is_error,
        duration_ms=stats.duration_ms + result.duration_ms,
    )
