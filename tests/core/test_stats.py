"""What a session's calls and requests add up to."""

from codeagent.core.audit import COUNTED, SessionStats, ToolStats, gather_stats
from codeagent.core.events import JobFinished, LimitReached, ToolResultAdded
from codeagent.core.messages import ErrorInfo
from tests.session.eventlogs import Log, finished_run


def test_calls_durations_tokens_and_cost_are_sums() -> None:
    stats = gather_stats(finished_run())
    assert (stats.total_calls, stats.successful, stats.failed, stats.total_duration_ms) == (
        2,
        2,
        0,
        10,
    )
    assert stats.tools == {"read": ToolStats(calls=2, successful=2, duration_ms=10)}
    assert (
        stats.turns,
        stats.usage.input_tokens,
        stats.usage.output_tokens,
        stats.usage.cost_usd,
    ) == (2, 30, 5, 0.75)


def test_failed_calls_are_counted_by_the_kind_of_their_error() -> None:
    log = Log()
    log.finish("c1", "no", ErrorInfo(kind="denied", message="no"), executed=False)
    log.finish("c2", "no", ErrorInfo(kind="failed", message="no"))
    log.finish("c3")
    stats = gather_stats(log.events)
    assert (stats.total_calls, stats.successful, stats.failed) == (3, 1, 2)
    assert stats.errors == {"denied": 1, "failed": 1}


def test_approvals_jobs_and_limits_are_counted() -> None:
    log = Log()
    for call_id, source in (("c1", "auto"), ("c2", "user"), ("c3", "auto"), ("c4", None)):
        log.add(
            ToolResultAdded,
            call_id=call_id,
            name="x",
            content=(),
            is_error=False,
            executed=True,
            approval=source,
        )
    ended = {"call_id": "c1", "name": "bash", "title": "make", "summary": "", "tail": ""}
    log.add(JobFinished, job_id="j1", status="stopped", **ended)
    log.add(LimitReached, limit="max_turns", maximum=2)
    stats = gather_stats(log.events)
    assert (stats.approvals, stats.jobs, stats.limits) == (
        {"auto": 2, "user": 1},
        {"stopped": 1},
        {"max_turns": 1},
    )


def test_several_sessions_add_up_and_only_some_events_are_needed_for_it() -> None:
    events = [*finished_run(), *finished_run()]
    assert gather_stats(event for event in events if event.type in COUNTED) == gather_stats(events)
    assert gather_stats(events).total_calls == 4


def test_a_session_without_calls_adds_up_to_nothing() -> None:
    assert gather_stats([]) == SessionStats()
