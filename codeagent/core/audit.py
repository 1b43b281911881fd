"""Every call of a session as one row: what was asked for, who allowed it, where it ran, how it ended (FEATURES F33)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from codeagent.core.events import (
    JobFinished,
    JobStarted,
    KnownEvent,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
    UnknownEvent,
)
from codeagent.core.messages import ErrorKind
from codeagent.core.policy import ApprovalSource


@dataclass(frozen=True)
class CallRecord:
    """Secrets are masked, as in the log it is made from."""

    id: str
    tool: str
    arguments: str
    """JSON as it ran; what the model asked for where it did not run."""
    at: float
    """When it was asked for, in seconds since the epoch."""
    approval: ApprovalSource | None = None
    rule: str | None = None
    sandbox: Literal["docker", "host"] | None = None
    """None where it did not run in one."""
    exit: int | None = None
    """Of a command; None where there was none, or it was stopped."""
    executed: bool = False
    error: ErrorKind | None = None
    duration_ms: int = 0
    """Of a job, until it ended."""
    job: str | None = None
    """The job it went on as."""
    answered: bool = False
    """It has its result."""


def audit(events: Iterable[KnownEvent | UnknownEvent]) -> tuple[CallRecord, ...]:
    """In the order in which they were asked for; the person's own commands are among them."""
    rows: dict[str, CallRecord] = {}
    for event in events:
        match event:
            case ToolCallAdded():
                rows[event.call_id] = CallRecord(event.call_id, event.name, event.arguments, event.ts)
            case ToolStarted():
                row = rows.get(event.call_id) or CallRecord(event.call_id, event.name, "", event.ts)
                arguments = json.dumps(event.arguments, ensure_ascii=False)
                rows[event.call_id] = replace(row, tool=event.name, arguments=arguments)
            case ToolResultAdded():
                row = rows.get(event.call_id) or CallRecord(event.call_id, event.name, "", event.ts)
                rows[event.call_id] = _ended(row, event)
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
