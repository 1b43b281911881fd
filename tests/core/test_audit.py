"""Every call as one row, whatever became of it."""

from codeagent.core.audit import audit
from codeagent.core.events import (
    JobFinished,
    JobStarted,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.messages import ErrorInfo, TextPart
from tests.session.eventlogs import Log, finished_run


def result(log: Log, call_id: str, **fields: object) -> None:
    given = {
        "name": "bash",
        "content": (TextPart(text="x"),),
        "is_error": False,
        "executed": True,
    } | fields
    log.add(ToolResultAdded, call_id=call_id, **given)


def test_a_call_that_ran_has_all_its_facts() -> None:
    log = Log()
    log.add(ToolCallAdded, call_id="c1", name="bash", arguments='{"command":"ls"}')
    log.add(ToolStarted, call_id="c1", name="bash", target="ls", arguments={"command": "ls -l"})
    result(
        log,
        "c1",
        approval="rule",
        rule="bash(ls*)",
        sandbox="docker",
        details={"exit_code": 3},
        duration_ms=7,
    )
    (row,) = audit(log.events)
    assert (row.id, row.tool, row.arguments, row.at) == (
        "c1",
        "bash",
        '{"command": "ls -l"}',
        1001.0,
    )
    assert (row.approval, row.rule, row.sandbox, row.exit) == ("rule", "bash(ls*)", "docker", 3)
    assert (row.executed, row.error, row.duration_ms, row.answered) == (True, None, 7, True)


def test_a_call_that_was_denied_keeps_what_was_asked_for() -> None:
    log = Log()
    log.add(ToolCallAdded, call_id="c1", name="bash", arguments="{")
    denied = ErrorInfo(kind="denied", message="no")
    result(log, "c1", executed=False, is_error=True, error=denied, approval="user")
    (row,) = audit(log.events)
    assert (row.arguments, row.executed, row.error, row.approval, row.exit) == (
        "{",
        False,
        "denied",
        "user",
        None,
    )


def test_rows_are_in_the_order_in_which_calls_were_asked_for() -> None:
    assert [(row.id, row.duration_ms) for row in audit(finished_run())] == [("c1", 5), ("c2", 5)]


def test_a_call_without_a_result_says_so_and_the_users_own_command_is_a_row() -> None:
    log = Log()
    log.announce("c1")
    log.shell("shell-1", shared=False)
    rows = audit(log.events)
    assert [(row.id, row.tool, row.answered) for row in rows] == [
        ("c1", "read", False),
        ("shell-1", "shell", True),
    ]
    assert rows[1].exit == 0


def test_a_job_counts_until_it_ended() -> None:
    log = Log()
    log.add(ToolCallAdded, call_id="c1", name="bash", arguments="{}")
    log.add(JobStarted, job_id="j1", call_id="c1", name="bash", title="make")
    result(log, "c1", duration_ms=3)
    ended = {"status": "failed", "summary": "s", "tail": "t", "exit_code": 2, "duration_ms": 9000}
    log.add(JobFinished, job_id="j1", call_id="c1", name="bash", title="make", **ended)
    (row,) = audit(log.events)
    assert (row.job, row.exit, row.duration_ms) == ("j1", 2, 9000)
