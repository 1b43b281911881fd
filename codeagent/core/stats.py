"""What a session's tool calls and requests add up to (FEATURES F33)."""

from collections.abc import Iterable

from pydantic import Field

from codeagent.core.events import KnownEvent, ToolResultAdded, TurnFinished, UnknownEvent
from codeagent.core.messages import Frozen, Usage


class ToolStats(Frozen):
    """Calls of one tool."""

    calls: int = 0
    successful: int = 0
    failed: int = 0
    """Errors of every kind, denied and skipped calls among them."""
    duration_ms: int = 0


class SessionStats(Frozen):
    """`total_duration_ms` is the sum over calls, also of those that ran side by side."""

    total_calls: int = 0
    successful: int = 0
    failed: int = 0
    total_duration_ms: int = 0
    tools: dict[str, ToolStats] = Field(default_factory=dict)
    errors: dict[str, int] = Field(default_factory=dict)
    """Failed calls by error kind."""
    turns: int = 0
    usage: Usage = Usage()


def gather_stats(events: Iterable[KnownEvent | UnknownEvent]) -> SessionStats:
    tools: dict[str, ToolStats] = {}
    errors: dict[str, int] = {}
    usage, turns = Usage(), 0
    for event in events:
        if isinstance(event, TurnFinished):
            usage, turns = usage + event.usage, turns + 1
        if isinstance(event, ToolResultAdded):
            tools[event.name] = _with(tools.get(event.name, ToolStats()), event)
            if event.error is not None:
                errors[event.error.kind] = errors.get(event.error.kind, 0) + 1
    return SessionStats(
        total_calls=sum(tool.calls for tool in tools.values()),
        successful=sum(tool.successful for tool in tools.values()),
        failed=sum(tool.failed for tool in tools.values()),
        total_duration_ms=sum(tool.duration_ms for tool in tools.values()),
        tools=dict(sorted(tools.items())),
        errors=dict(sorted(errors.items())),
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
