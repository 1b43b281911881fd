"""`codeagent sessions show --approvals`: who allowed or denied what, whole and harmless to a
terminal."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeagent import cli
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.events import ToolCallAdded, ToolResultAdded
from codeagent.core.messages import ErrorInfo
from codeagent.core.redact import Redactor
from codeagent.session.log import SessionLog
from codeagent.session.store import SessionStore

AT = 1_790_000_000.0
COMMAND = "git diff --stat &&\nrm -rf build/ \x1b[2J"


@pytest.fixture(autouse=True)
def in_paris() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Paris")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionLog:
    """A session that is being written."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("EXAMPLE_API_KEY", "canary-0123456789")
    return SessionStore(tmp_path / "codeagent", Redactor(os.environ)).create()


def write(log: SessionLog, kind: Any, **fields: Any) -> None:
    seq = log.next_seq
    log.append(kind(seq=seq, ts=AT + seq, session=log.session_id, **fields))


def shown(log: SessionLog, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert cli.main(["sessions", "show", log.session_id, "--approvals", *options]) == 0
    return capsys.readouterr().out


def asked(log: SessionLog, answer: str, arguments: str, **fields: Any) -> None:
    head = {"approval_id": "c1.1", "call_id": "c1"}
    write(
        log,
        ApprovalRequested,
        **head,
        name="bash",
        target="git diff …",
        reason="this tool asks",
        blocks=(),
        binding="0",
        arguments=arguments,
    )
    write(log, ApprovalResolved, **head, answer=answer, source="user", **fields)


def denied(log: SessionLog, arguments: str) -> None:
    write(log, ToolCallAdded, call_id="c2", name="write", arguments=arguments)
    error = ErrorInfo(kind="denied", message="denied by the rule write(secret/**)")
    write(
        log,
        ToolResultAdded,
        call_id="c2",
        name="write",
        content=(),
        is_error=True,
        executed=False,
        error=error,
        approval="rule",
        rule="write(secret/**)",
    )


def test_a_decision_is_shown_with_local_time_who_rule_and_the_whole_command(
    log: SessionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(log, "rule", json.dumps({"command": COMMAND}), rule="bash(git diff*)", keep=True)
    denied(log, '{"path": "secret/a"}')
    assert shown(log, capsys).splitlines() == [
        "when                 outcome    who             tool   rule",
        "2026-09-21 16:13:22  allowed    you, kept rule  bash   bash(git diff*)",
        "    git diff --stat &&",
        "    rm -rf build/ \\x1b[2J",
        "    – this tool asks",
        "2026-09-21 16:13:24  denied     rule            write  write(secret/**)",
        '    {"path": "secret/a"}',
        "    – denied by the rule write(secret/**)",
    ]


def test_a_long_command_is_shown_whole_and_the_text_of_a_file_is_not(
    log: SessionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "echo " + "x" * 3000
    asked(log, "once", json.dumps({"command": command}))
    denied(log, json.dumps({"path": "secret/a", "content": "y" * 3000}))
    printed = shown(log, capsys)
    assert command in printed
    assert "y" * 400 not in printed and "… (3,035 characters; --json shows all of them)" in printed


def test_secrets_are_masked(log: SessionLog, capsys: pytest.CaptureFixture[str]) -> None:
    asked(log, "once", json.dumps({"command": "curl -H canary-0123456789"}))
    assert "curl -H [secret EXAMPLE_API_KEY]" in shown(log, capsys)


def test_as_json_every_decision_is_one_line_with_all_of_it(
    log: SessionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(log, "deny", json.dumps({"command": COMMAND}), reason="not now")
    [row] = [json.loads(line) for line in shown(log, capsys, "--json").splitlines()]
    assert (row["what"], row["outcome"], row["answer"], row["who"]) == (
        COMMAND,
        "denied",
        "deny",
        "user",
    )
    assert (row["reason"], row["at"], row["call_id"]) == ("not now", AT + 2, "c1")


def test_a_session_without_decisions_says_so(
    log: SessionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, ToolCallAdded, call_id="c1", name="read", arguments="{}")
    assert shown(log, capsys) == "no decisions: no call was allowed or denied\n"
