"""What a session's calls and requests add up to."""

from codeagent.core.stats import SessionStats, ToolStats, gather_stats
from codeagent.core.tool import ErrorInfo
from tests.session.eventlogs import Log, finished_run


def test_calls_durations_tokens_and_cost_are_sums() -> None:
    stats = gather_stats(finished_run())
    assert (stats.total_calls, stats.successful, stats.failed, stats.total_duration_ms) == (2, 2, 0, 10)
    assert stats.tools == {"read": ToolStats(calls=2, successful=2, duration_ms=10)}
    assert (stats.turns, stats.usage.input_tokens, stats.usage.output_tokens, stats.usage.cost_usd) == (2, 30, 5, 0.75)


def test_failed_calls_are_counted_by_the_kind_of_their_error() -> None:
    log = Log()
    log.finish("c1", "no", ErrorInfo(kind="denied", message="no"), executed=False)
    log.finish("c2", "no", ErrorInfo(kind="failed", message="no"))
    log.finish("c3")
    stats = gather_stats(log.events)
    assert (stats.total_calls, stats.successful, stats.failed) == (3, 1, 2)
    assert stats.errors == {"denied": 1, "failed": 1}


def test_a_session_without_calls_adds_up_to_nothing() -> None:
    assert gather_stats([]) == SessionStats()
