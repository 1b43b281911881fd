"""What a session's tool calls and requests add up to (FEATURES F33)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from codeagent.core.events import JobFinished, KnownEvent, LimitReached, ToolResultAdded, TurnFinished, UnknownEvent
from codeagent.core.messages import Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStats:
    """Calls of one tool."""

    calls: int = 0
    successful: int = 0
    failed: int = 0
    """Errors of every kind, denied and skipped calls among them."""
    duration_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionStats:
    """`total_duration_ms` is the sum over calls, also of those that ran side by side."""

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
    """Calls that went on in the background, by how they ended."""
    limits: dict[str, int] = field(default_factory=dict)
    """How often each limit was reached."""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)


COUNTED = frozenset({"turn.finished", "tool.result", "job.finished", "limit.reached"})
"""The types of the events that are counted; others change nothing."""


def gather_stats(events: Iterable[KnownEvent | UnknownEvent]) -> SessionStats:
    """Of one session, or of several one after the other."""
    tools: dict[str, ToolStats] = {}
    errors, approvals, jobs, limits = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    usage, turns = Usage(), 0
    for event in events:
        match event:
            case TurnFinished():
                usage, turns = usage + event.usage, turns + 1
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
