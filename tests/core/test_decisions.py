"""Who allowed or denied what is told by the events alone."""

from typing import Any

from hypothesis import given

from codeagent.core.approval_events import (
    ApprovalRequested,
    ApprovalResolved,
    EffectsFound,
    ListedEffect,
    PlannedCall,
)
from codeagent.core.audit import LedgerRow, audit, decisions
from codeagent.core.display import QuestionBlock
from codeagent.core.events import (
    BatchPlanned,
    KnownEvent,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
    UnknownEvent,
)
from codeagent.core.messages import ErrorInfo
from codeagent.core.notices import CallEdited
from tests.session.eventlogs import logs
from tests.table import for_each

COMMAND = '{"command": "make test\\nmake lint"}'


class Log:
    """Writes events as an agent emits them; every call is named c1 unless the test says
    otherwise."""

    def __init__(self) -> None:
        self.events: list[KnownEvent | UnknownEvent] = []
        self.questions = 0

    def add(self, kind: Any, **fields: Any) -> "Log":
        number = len(self.events) + 1
        self.events.append(kind(seq=number, ts=1000.0 + number, session="s", **fields))
        return self

    def call(
        self,
        name: str = "bash",
        arguments: str = COMMAND,
        *,
        call_id: str = "c1",
        target: str = "make …",
    ) -> "Log":
        self.add(ToolCallAdded, call_id=call_id, name=name, arguments=arguments)
        plan = PlannedCall(
            call_id=call_id, name=name, target=target, permission="auto", reason="as planned"
        )
        return self.add(BatchPlanned, batch=1, calls=(plan,))

    def ask(self, name: str = "bash", *blocks: Any, call_id: str = "c1", **fields: Any) -> "Log":
        self.questions += 1
        given = {
            "reason": "this tool asks",
            "target": "make …",
            "blocks": blocks,
            "binding": "0",
            **fields,
        }
        approval_id = f"{call_id}.{self.questions}"
        return self.add(
            ApprovalRequested, approval_id=approval_id, call_id=call_id, name=name, **given
        )

    def answer(
        self, answer: str, *, call_id: str = "c1", source: str = "user", **fields: Any
    ) -> "Log":
        approval_id = f"{call_id}.{self.questions}"
        return self.add(
            ApprovalResolved,
            approval_id=approval_id,
            call_id=call_id,
            answer=answer,
            source=source,
            **fields,
        )

    def run(self, name: str = "bash", *, call_id: str = "c1", **arguments: Any) -> "Log":
        return self.add(
            ToolStarted, call_id=call_id, name=name, target="as run", arguments=arguments
        )

    def end(
        self,
        approval: str | None,
        error: tuple[str, str] | None = None,
        *,
        name: str = "bash",
        call_id: str = "c1",
        rule: str | None = None,
    ) -> "Log":
        return self.add(
            ToolResultAdded,
            call_id=call_id,
            name=name,
            content=(),
            is_error=error is not None,
            executed=error is None,
            error=None if error is None else ErrorInfo(kind=error[0], message=error[1]),
            approval=approval,
            rule=rule,
        )

    @property
    def row(self) -> LedgerRow:
        [row] = decisions(self.events)
        return row

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        return [(row.outcome, row.answer or row.who, row.reason) for row in decisions(self.events)]


def test_an_answer_is_told_with_the_whole_command_and_the_rule_it_could_become() -> None:
    log = Log().call().ask(arguments=COMMAND, proposal="bash(make *)").answer("once").end("user")
    assert log.row == LedgerRow(
        at=1004.0,
        call_id="c1",
        tool="bash",
        target="make …",
        what="make test\nmake lint",
        outcome="allowed",
        who="user",
        answer="once",
        reason="this tool asks",
        proposal="bash(make *)",
    )


def test_an_answer_that_became_a_rule_names_it_and_how_long_it_holds() -> None:
    row = Log().call().ask().answer("rule", rule="bash(make *)", keep=True).end("user").row
    assert (row.outcome, row.rule, row.keep) == ("allowed", "bash(make *)", True)


def test_a_no_is_told_with_the_users_reason() -> None:
    row = (
        Log()
        .call()
        .ask()
        .answer("deny", reason="not now")
        .end("user", ("denied", "the user said no: not now"))
        .row
    )
    assert (row.outcome, row.who, row.reason) == ("denied", "user", "not now")


def test_a_call_that_was_not_asked_about_is_told_with_what_the_model_asked_for() -> None:
    row = Log().call().end("rule", rule="bash(make *)").row
    assert (row.outcome, row.who, row.answer, row.rule) == ("allowed", "rule", None, "bash(make *)")
    assert (row.target, row.what, row.reason) == ("make …", "make test\nmake lint", "as planned")


def test_what_ran_is_told_where_it_is_not_what_the_model_asked_for() -> None:
    row = Log().call().run(command="make check").end("auto").row
    assert (row.target, row.what) == ("as run", "make check")


def test_what_was_asked_about_the_files_a_command_left_is_told_beside_the_command() -> None:
    log = (
        Log()
        .call()
        .run(command="make")
        .ask(name="write", target=".envrc")
        .answer("deny")
        .end("rule", rule="bash(make)")
    )
    rows = decisions(log.events)
    assert [(row.tool, row.what, row.outcome, row.who) for row in rows] == [
        ("write", ".envrc", "denied", "user"),
        ("bash", "make", "allowed", "rule"),
    ]


def test_arguments_besides_the_command_are_told_below_it() -> None:
    assert Log().call().run(command="x", timeout=5.0, network=True).end("auto").row.what == (
        "x\n(timeout: 5.0, network: true)"
    )


@for_each("arguments", ['{"path": "a.py"}', '["x"]', '{"command": 5}', '{"command"', "[" * 100_000])
def test_arguments_without_a_command_are_told_as_they_are(arguments: str) -> None:
    assert Log().call("write", arguments).end("auto", name="write").row.what == arguments


def test_a_call_without_arguments_in_the_log_is_told_by_its_target() -> None:
    assert Log().ask(target="src/a.py").answer("once").row.what == "src/a.py"


def test_a_call_allowed_for_the_session_is_not_asked_about_again_and_told_as_the_users() -> None:
    log = Log().call().ask().answer("session").end("user")
    log.call(call_id="c2").end("user", call_id="c2")
    assert log.rows == [
        ("allowed", "session", "this tool asks"),
        ("allowed", "user", "the same call was allowed for this session"),
    ]


def test_what_a_hook_or_a_rule_denied_is_told_with_its_reason() -> None:
    log = Log().call().end("hook", ("denied", "no pushes on Friday"))
    log.call(call_id="c2").end(
        "rule", ("denied", "denied by the rule bash(rm *)"), call_id="c2", rule="bash(rm *)"
    )
    assert log.rows == [
        ("denied", "hook", "no pushes on Friday"),
        ("denied", "rule", "denied by the rule bash(rm *)"),
    ]
    assert decisions(log.events)[1].rule == "bash(rm *)"


def test_what_was_passed_over_is_told_by_whom() -> None:
    log = Log().call().end("user", ("skipped", "skipped by user: later"))
    log.call(call_id="c2").end(
        None, ("skipped", "Skipped: the limit of 5 calls is reached"), call_id="c2"
    )
    assert log.rows == [
        ("cancelled", "user", "skipped by user: later"),
        ("cancelled", "auto", "Skipped: the limit of 5 calls is reached"),
    ]


def test_what_no_rule_could_allow_is_told_too() -> None:
    log = (
        Log()
        .call("write")
        .end(None, ("denied", "the path leads out of the workspace"), name="write")
    )
    assert log.rows == [("denied", "auto", "the path leads out of the workspace")]


def test_a_yes_that_was_of_no_use_is_followed_by_the_denial() -> None:
    log = (
        Log()
        .call("write")
        .ask("write")
        .answer("once")
        .end("user", ("denied", ".git is protected"), name="write")
    )
    assert log.rows == [
        ("allowed", "once", "this tool asks"),
        ("denied", "auto", ".git is protected"),
    ]


def test_a_call_whose_arguments_were_wrong_was_never_decided() -> None:
    assert Log().call().end(None, ("invalid_args", "no")).rows == []
    assert Log().call().end(None, ("cancelled", "session ended")).rows == []


def test_a_question_that_still_waits_is_no_decision() -> None:
    assert Log().call().ask().rows == []


def test_a_question_that_was_called_off_is_told() -> None:
    log = (
        Log()
        .call()
        .ask()
        .answer("cancelled", source="auto", reason="interrupted")
        .end(None, ("cancelled", "x"))
    )
    assert log.rows == [("cancelled", "auto", "interrupted")]


def test_an_edited_call_is_told_twice_and_only_the_second_answer_allowed_it() -> None:
    log = (
        Log()
        .call()
        .ask(arguments=COMMAND)
        .answer("edit")
        .ask(arguments='{"command": "make"}')
        .answer("once")
    )
    rows = decisions(log.end("user").events)
    assert [(row.outcome, row.answer, row.what) for row in rows] == [
        ("cancelled", "edit", "make test\nmake lint"),
        ("allowed", "once", "make"),
    ]


def test_an_edited_call_that_a_rule_allows_is_told_as_such() -> None:
    assert Log().call().ask().answer("edit").run(command="ls").end("rule").rows == [
        ("cancelled", "edit", "this tool asks"),
        ("allowed", "rule", "as planned"),
    ]


def test_an_answer_after_which_the_user_was_asked_again_allowed_nothing() -> None:
    log = (
        Log()
        .call()
        .ask()
        .answer("rule", rule="bash(x)")
        .ask(reason="bash(x) does not allow all of this call")
    )
    assert log.answer("deny").end("user", ("denied", "the user said no")).rows == [
        ("cancelled", "rule", "asked again: bash(x) does not allow all of this call"),
        ("denied", "deny", "bash(x) does not allow all of this call"),
    ]


def test_arguments_a_user_changed_before_the_batch_are_what_was_decided_about() -> None:
    log = Log().call()
    arguments = '{"command": "make check"}'
    log.add(
        CallEdited,
        text="edited by you",
        call_id="c1",
        arguments=arguments,
        target="make check",
        permission="auto",
    )
    row = log.end("rule", ("denied", "no")).row
    assert (row.target, row.what) == ("make check", "make check")


def test_the_users_own_command_is_told_as_theirs() -> None:
    log = Log().run("shell", command="make", shared=True).end("user", name="shell")
    assert log.rows == [("allowed", "user", "the user's own command")]
    assert log.row.what == "make\n(shared: true)"


def test_a_question_of_the_models_is_no_request_for_permission() -> None:
    log = Log().call("ask_user", '{"question": "which?"}', target="which?")
    log.ask("ask_user", QuestionBlock(question="which?"), target="which?").answer(
        "once", reason="the first"
    )
    assert log.end("auto", name="ask_user").rows == [("allowed", "auto", "as planned")]


def test_calls_of_two_agents_do_not_mix() -> None:
    log = Log().call().ask(target="a").answer("once").end("user")
    log.add(ToolCallAdded, call_id="c1", name="bash", arguments='{"command": "y"}', agent="main/1")
    log.add(
        ToolResultAdded,
        call_id="c1",
        name="bash",
        content=(),
        is_error=False,
        executed=True,
        approval="auto",
        agent="main/1",
    )
    assert [(row.who, row.what) for row in decisions(log.events)] == [
        ("user", "make test\nmake lint"),
        ("auto", "y"),
    ]


def test_events_of_a_newer_version_are_passed_over() -> None:
    log = Log().call().end("auto")
    log.events.insert(0, UnknownEvent(type="job.started", seq=0, ts=0.0, session="s"))
    assert len(log.rows) == 1


@given(logs())
def test_every_log_has_its_decisions_in_order_of_time(events: list[KnownEvent]) -> None:
    rows = decisions(events)
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    decided = [
        event.call_id
        for event in events
        if isinstance(event, ToolResultAdded) and event.approval is not None
    ]
    assert set(decided) <= {row.call_id for row in rows}


@for_each(
    ("permission", "decided"),
    [
        ("auto", [("effects", "allowed", "rule", "effects(src/**)")]),
        ("deny", [("effects", "denied", "rule", "effects(src/**)")]),
        ("prompt", [("effects", "denied", "user", "")]),
    ],
)
def test_who_took_what_a_command_changed_is_a_decision_and_the_command_itself_ran(
    permission: Any, decided: list[tuple[str, ...]]
) -> None:
    log = Log().call("bash", '{"command": "make"}', target="make").run()
    change = ListedEffect(path="src/a", what="modified", added=1, removed=2)
    log.add(
        EffectsFound,
        call_id="c1",
        changes=(change,),
        ignored={"build/": 3},
        permission=permission,
        source="auto" if permission == "prompt" else "rule",
        reason="as the rule says",
        rule="" if permission == "prompt" else "effects(src/**)",
    )
    if permission == "prompt":
        log.ask("effects", target="`make` changed 1 file +1 −2").answer("deny")
    denied = permission != "auto"
    log.end(approval="auto", error=("denied", "no") if denied else None)
    rows = decisions(log.events)
    assert [(row.tool, row.outcome, row.who, row.rule) for row in rows] == [
        *decided,
        ("bash", "allowed", "auto", ""),
    ]
    (call,) = audit(log.events)
    assert call.changes == (change,)
    if permission != "prompt":
        assert rows[0].what == "as run\n(M src/a, build/ (3 ignored))"
