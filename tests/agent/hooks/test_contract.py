"""What a hook program is told fits the schema; what it answers is taken by the letter."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.hooks.command import (
    ANSWERS,
    TOLD,
    AnswerAllow,
    AnswerDeny,
    CommandHook,
    command_hooks,
    contract_schema,
    parse_answer,
)
from codeagent.agent.hooks.hook import (
    Deny,
    Hook,
    Hooks,
    HookSession,
    PlannedCompaction,
    SubmittedPrompt,
)
from codeagent.core.events import RunFinished
from codeagent.core.messages import ErrorInfo, ToolCall, Usage
from codeagent.core.policy import HookEvent, ToolHookEvent
from codeagent.core.tool import ToolResult
from tests.table import for_each

CALL = ToolCall(id="c1", name="bash", arguments='{"command": "ls"}')
RESULT = ToolResult.from_text("no", error=ErrorInfo(kind="failed", message="no"))
SESSION = HookSession("s1", "/acme", True)
FINISHED = RunFinished(
    seq=9,
    ts=1.0,
    session="s1",
    reason="done",
    text="fine",
    usage=Usage(input_tokens=3),
    turns=1,
    calls=2,
    duration_ms=5,
)
EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
ALLOWED: dict[str, set[str]] = {
    "before_tool": {"allow", "deny", "modify"},
    "before_update": {"allow", "deny"},
    "prompt_submit": {"allow", "deny", "context"},
    "compaction": {"allow", "deny", "context"},
}
WHOLE: dict[str, dict[str, Any]] = {
    "allow": {},
    "deny": {"reason": "no"},
    "modify": {"arguments": {"command": "pwd"}},
    "context": {"text": "it is Friday"},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def test_every_event_has_its_words_and_those_that_judge_have_answers() -> None:
    assert set(TOLD) == set(EVENTS)
    assert set(ANSWERS) == set(ALLOWED)
    assert set(get_args(ToolHookEvent)) < set(EVENTS)


@for_each("event", ALLOWED)
def test_each_event_takes_its_own_decisions_and_no_others(event: HookEvent) -> None:
    taken = set()
    for decision, more in WHOLE.items():
        try:
            parse_answer(event, json.dumps({"decision": decision, **more}).encode())
        except ValueError:
            continue
        taken.add(decision)
    assert taken == ALLOWED[event]


@for_each("printed", [b"", b"\n \n"])
@for_each("event", ALLOWED)
def test_no_output_allows(event: HookEvent, printed: bytes) -> None:
    assert parse_answer(event, printed) == AnswerAllow(decision="allow")


@for_each(
    "printed",
    [
        "{}",
        "[]",
        "null",
        "true",
        '"allow"',
        "allow",
        '{"decision": "allow"} {"decision": "allow"}',
        '{"decision": "Allow"}',
        '{"decision": true}',
        '{"decision": ["allow"]}',
        '{"decision": "allow", "reason": "why not"}',
        '{"decision": "allow", "decision": "allow"}',
        '{"decision": "deny", "decision": "allow"}',
        '{"decision": "deny", "reason": 1}',
        '{"decision": "deny", "reason": null}',
        '{"decision": "modify"}',
        '{"decision": "modify", "arguments": "x"}',
        '{"decision": "modify", "arguments": [["command", "x"]]}',
        '{"decision": "modify", "arguments": {"command": NaN}}',
        '{"decision": "modify", "arguments": {}, "reason": "x"}',
        "\xff",
        "[" * 100_000,
    ],
)
def test_everything_else_makes_no_sense_and_is_said_in_one_line(printed: str) -> None:
    with pytest.raises(ValueError, match="its answer") as raised:
        parse_answer("before_tool", printed.encode("latin-1"))
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 400


@given(value=JSON, event=st.sampled_from(sorted(ALLOWED)))
def test_no_json_allows_but_the_one_that_says_allow_and_nothing_else(
    value: object, event: HookEvent
) -> None:
    try:
        answer = parse_answer(event, json.dumps(value).encode())
    except ValueError:
        return
    assert not isinstance(answer, AnswerAllow) or value == {"decision": "allow"}


@given(reason=st.text(max_size=40))
def test_a_denial_keeps_its_reason(reason: str) -> None:
    printed = json.dumps({"decision": "deny", "reason": reason}).encode()
    assert parse_answer("prompt_submit", printed) == AnswerDeny(decision="deny", reason=reason)


async def tell_all(hooks: Hooks) -> None:
    await hooks.session_start(SESSION)
    await hooks.prompt_submit(SubmittedPrompt("go", "steer"))
    await hooks.before_tool(CALL)
    await hooks.before_update(CALL, "piece")
    await hooks.after_update(CALL, "piece")
    await hooks.after_tool(CALL, RESULT)
    await hooks.compaction(PlannedCompaction("user", "cover the tests", 12, 900))
    await hooks.run_finished(FINISHED)
    await hooks.session_end(SESSION)


async def test_what_a_program_reads_is_what_the_contract_says(tmp_path: Path) -> None:
    log = tmp_path / "told"
    command = (
        sys.executable,
        "-c",
        f"import sys; open({str(log)!r}, 'a').write(sys.stdin.read() + chr(10))",
    )
    hooks = Hooks(command_hooks([CommandHook(event, command, tmp_path) for event in EVENTS]))
    await tell_all(hooks)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [item["event"] for item in told] == [
        "session_start",
        "prompt_submit",
        "before_tool",
        "before_update",
        "after_update",
        "after_tool",
        "compaction",
        "run_finished",
        "session_end",
    ]
    schema = contract_schema()
    for item in told:
        jsonschema.validate({item["event"]: {"told": item}}, schema)
    by_event = {item.pop("event"): item for item in told}
    assert by_event["session_start"] == {"session": "s1", "workspace": "/acme", "resumed": True}
    assert by_event["prompt_submit"] == {"text": "go", "source": "steer"}
    assert by_event["compaction"] == {
        "cause": "user",
        "hint": "cover the tests",
        "messages": 12,
        "tokens": 900,
    }
    assert by_event["before_tool"] == {
        "call": {"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}
    }
    assert by_event["after_tool"]["result"] == {
        "content": "no",
        "is_error": True,
        "executed": True,
        "error": {"kind": "failed", "message": "no"},
    }
    assert {"session", "reason", "text", "usage", "error", "turns", "calls", "duration_ms"} == set(
        by_event["run_finished"]
    )


async def test_a_program_that_is_only_told_and_fails_is_reported_and_denies_nothing(
    tmp_path: Path,
) -> None:
    reported: list[str] = []
    command = (sys.executable, "-c", "import sys; print('{'); sys.exit('broken')")
    hooks = Hooks(
        command_hooks([CommandHook("after_tool", command, tmp_path)]), on_failure=reported.append
    )
    await hooks.after_tool(CALL, RESULT)
    assert reported == [f"the hook {sys.executable} failed: broken"]


async def test_what_a_program_that_is_only_told_prints_is_not_looked_at(tmp_path: Path) -> None:
    reported: list[str] = []
    command = (sys.executable, "-c", "print('thanks')")
    hooks = Hooks(
        command_hooks([CommandHook("run_finished", command, tmp_path)]), on_failure=reported.append
    )
    await hooks.run_finished(FINISHED)
    assert reported == []


async def test_a_program_may_be_for_some_tools_only(tmp_path: Path) -> None:
    hooks = Hooks(command_hooks([CommandHook("before_tool", ("false",), tmp_path, tools="bash*")]))
    assert isinstance(await hooks.before_tool(CALL), Deny)
    assert await hooks.before_tool(replace(CALL, name="read")) is None


async def test_text_that_is_no_unicode_can_be_told(tmp_path: Path) -> None:
    hooks = Hooks(command_hooks([CommandHook("before_tool", ("cat",), tmp_path)]))
    denied = await hooks.before_tool(replace(CALL, arguments="\ud800"))
    assert isinstance(denied, Deny) and "its answer is not valid" in denied.reason


def test_the_schema_names_each_event_with_both_sides() -> None:
    schema = contract_schema()
    sides = {event: set(both["properties"]) for event, both in schema["properties"].items()}
    assert sides == {
        event: {"told", "answer"} if event in ALLOWED else {"told"} for event in EVENTS
    }
    text = json.dumps(schema)
    names = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
    assert names <= set(schema["$defs"])
    assert all(
        schema["$defs"][name]["additionalProperties"] is False for name in names - {"JsonValue"}
    )


def test_a_hook_of_every_event_is_called_for_that_one_alone(tmp_path: Path) -> None:
    for event in EVENTS:
        hook = CommandHook(event, ("true",), tmp_path).hook()
        assert [name for name in vars(Hook("x")) if callable(getattr(hook, name))] == [event]
