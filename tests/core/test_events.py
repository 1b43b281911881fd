"""Events survive being written and read, also those of a newer version."""

import json
from dataclasses import fields, replace
from typing import get_args

import pytest

from codeagent.core.event_json import event_json, parse_event, parse_event_json
from codeagent.core.events import EVENT_TYPES, Notice, ToolResultAdded, TurnStarted, UnknownEvent
from codeagent.core.messages import Usage
from codeagent.core.notices import (
    ActFailed,
    AgentStarted,
    AnyNotice,
    BudgetChanged,
    CallEdited,
    CallMarked,
    CompactionBegun,
    CompactionFailed,
    JobListens,
    MessageReceived,
    ModeChanged,
    ModelChanged,
    ModelFellBack,
    ModelRetried,
    NetworkChanged,
    PinsChanged,
    QueueOrdered,
    RecipeStepBegun,
    RecipeStopped,
    RunNotBegun,
    RunPaused,
    RunPausing,
    RunResumed,
    RunStopped,
    SessionNotSaved,
    StepModeChanged,
    SummaryWritten,
    TextRead,
    ToolsetChosen,
)
from codeagent.core.redact import Redactor
from tests.table import for_each

CONTRACT = {
    "run.started",
    "run.finished",
    "turn.started",
    "turn.finished",
    "message.added",
    "text.delta",
    "reasoning.delta",
    "tool.call",
    "batch.planned",
    "batch.finished",
    "steer.queued",
    "steer.delivered",
    "approval.requested",
    "approval.resolved",
    "tool.started",
    "tool.updated",
    "tool.progress",
    "tool.finished",
    "tool.result",
    "job.started",
    "job.updated",
    "job.finished",
    "checkpoint.created",
    "checkpoint.restored",
    "context.compacted",
    "limit.reached",
    "notice",
}
DELTAS = {
    "text.delta",
    "reasoning.delta",
    "tool.arguments",
    "tool.updated",
    "tool.progress",
    "job.updated",
}


NOTICES = (
    CompactionBegun(text="x", cause="window"),
    SummaryWritten(text="x", summary="s", usage=Usage(input_tokens=3), asked=True, replaces=4),
    CompactionFailed(text="x", cause="overflow"),
    PinsChanged(text="x", pins=("a",), added="a"),
    ToolsetChosen(text="x", toolset="web", tools=("fetch",), on=False),
    ModeChanged(text="x", mode="plan"),
    NetworkChanged(text="x", network="none"),
    ModelChanged(text="x", model="demo", api_base=None, effort="high"),
    ModelRetried(text="x", reason="overloaded", attempt=2, delay_s=1.5),
    ModelFellBack(text="x", reason="overloaded", model="other"),
    BudgetChanged(text="x", budget="$2", left="$1 of $2 left"),
    StepModeChanged(text="x", on=True),
    QueueOrdered(text="x", ids=("q2", "q1")),
    CallMarked(text="x", call_id="c", skipped=True),
    CallEdited(text="x", call_id="c", arguments="{}", target="t", permission="auto", reason="why"),
    RunPausing(text="x"),
    RunPaused(text="x", batch=1, why="step", calls=("c",)),
    RunResumed(text="x"),
    RunStopped(
        text="x",
        stream_closed=True,
        killed=1,
        edits_kept=("a",),
        not_run=2,
        left_running=0,
        jobs_running=1,
    ),
    RunNotBegun(text="x", prompt="do it"),
    JobListens(text="x", job_id="job-1", port=80),
    SessionNotSaved(text="x"),
    ActFailed(text="x", act="AllowRule"),
    AgentStarted(
        text="x", call_id="c1", child="tester.1", child_session="s1.1", parent_session="s1"
    ),
    MessageReceived(text="x", message_id="m2", sender="worker", to="all", body="12", reply_to="m1"),
    RecipeStepBegun(
        text="x", recipe="release", step="look", number=1, of=2, digest="d", mode="plan"
    ),
    RecipeStopped(
        text="x", recipe="release", step="write", done=("look",), left=("tag",), error="no key"
    ),
    TextRead(text="x", place="docs.example"),
)
DATA: dict[str, dict[str, object]] = {
    "compaction.begun": {"cause": "window"},
    "compaction.summary": {
        "summary": "s",
        "usage": {
            "input_tokens": 3,
            "output_tokens": 0,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
            "cost_usd": None,
            "estimated": False,
        },
        "asked": True,
        "replaces": 4,
    },
    "compaction.failed": {"cause": "overflow"},
    "pins.changed": {"pins": ["a"], "added": "a"},
    "mode.changed": {"mode": "plan"},
    "network.changed": {"network": "none"},
    "model.changed": {"model": "demo", "api_base": None, "effort": "high"},
    "model.retry": {"reason": "overloaded", "attempt": 2, "delay_s": 1.5},
    "model.fallback": {"reason": "overloaded", "model": "other", "server": ""},
    "budget.changed": {"budget": "$2", "left": "$1 of $2 left"},
    "step.changed": {"on": True},
    "toolset.chosen": {"toolset": "web", "tools": ["fetch"], "on": False},
    "queue.ordered": {"ids": ["q2", "q1"]},
    "call.marked": {"call_id": "c", "skipped": True, "reason": ""},
    "call.edited": {
        "call_id": "c",
        "arguments": "{}",
        "target": "t",
        "permission": "auto",
        "reason": "why",
    },
    "run.pausing": {},
    "run.paused": {"batch": 1, "why": "step", "calls": ["c"]},
    "run.resumed": {},
    "run.stopped": {
        "stream_closed": True,
        "killed": 1,
        "edits_kept": ["a"],
        "not_run": 2,
        "left_running": 0,
        "jobs_running": 1,
    },
    "run.not_begun": {"prompt": "do it"},
    "job.port": {"job_id": "job-1", "port": 80},
    "session.write": {},
    "act.failed": {"act": "AllowRule"},
    "agent.started": {
        "call_id": "c1",
        "child": "tester.1",
        "child_session": "s1.1",
        "parent_session": "s1",
    },
    "message.received": {
        "message_id": "m2",
        "sender": "worker",
        "to": "all",
        "body": "12",
        "reply_to": "m1",
    },
    "recipe.step": {
        "recipe": "release",
        "step": "look",
        "number": 1,
        "of": 2,
        "digest": "d",
        "mode": "plan",
    },
    "text.read": {"place": "docs.example"},
    "recipe.stopped": {
        "recipe": "release",
        "step": "write",
        "done": ["look"],
        "left": ["tag"],
        "error": "no key",
    },
}
"""What scripts read in `data`, by `code`."""


@for_each("notice", NOTICES)
def test_a_notice_that_is_acted_on_is_in_json_what_scripts_and_old_logs_know(
    notice: AnyNotice,
) -> None:
    event = replace(notice, seq=1, ts=2.0, session="s", agent="main")
    line = event_json(event, Redactor({}))
    envelope = {"v": 1, "seq": 1, "ts": 2.0, "session": "s", "agent": "main"}
    words = {"type": "notice", "level": notice.level, "code": notice.code, "text": "x"}
    assert json.loads(line) == {**envelope, **words, "data": DATA[notice.code]}
    assert list(json.loads(line)) == [*envelope, *words, "data"]
    assert parse_event_json(line) == event


def test_every_notice_that_is_acted_on_is_in_the_contract() -> None:
    codes = {kind.__dataclass_fields__["code"].default for kind in get_args(AnyNotice)}
    assert codes == set(DATA) == {notice.code for notice in NOTICES}


@for_each("data", [{"mode": "of a newer version"}, {"other": 1}, {}, None])
def test_a_notice_with_other_data_is_kept_as_plain_words(data: object) -> None:
    line = {
        "seq": 1,
        "ts": 2.0,
        "session": "s",
        "type": "notice",
        "code": "mode.changed",
        "text": "x",
    }
    event = parse_event(line if data is None else line | {"data": data})
    assert isinstance(event, Notice) and (event.code, event.data) == ("mode.changed", data or {})


@pytest.mark.parametrize("field", ["seq", "ts", "session"])
def test_a_record_without_its_envelope_is_no_event(field: str) -> None:
    line = {"seq": 1, "ts": 2.0, "session": "s", "type": "turn.started", "turn": 1}
    with pytest.raises(ValueError, match="without seq, ts or session"):
        parse_event({name: value for name, value in line.items() if name != field})


@for_each("kind", [[], {}, None, 5, ["turn.started"]])
def test_a_record_whose_type_is_not_text_is_no_event(kind: object) -> None:
    with pytest.raises(ValueError, match="type"):
        parse_event({"seq": 1, "ts": 2.0, "session": "s", "type": kind, "turn": 1})


def test_an_event_that_was_never_emitted_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="without seq, ts or session"):
        event_json(RunPausing(text="x"), Redactor({}))


def test_an_event_with_a_field_of_another_type_is_not_written() -> None:
    odd = TurnStarted(seq=1, ts=2.0, session="s", turn="one")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="turn"):
        event_json(odd, Redactor({}))


def test_no_name_that_scripts_and_old_logs_rely_on_is_gone() -> None:
    assert set(EVENT_TYPES) >= CONTRACT


def test_only_deltas_are_not_durable() -> None:
    assert {name for name, kind in EVENT_TYPES.items() if not kind.durable} == DELTAS


def test_an_event_reads_as_it_was_written() -> None:
    event = Notice(seq=3, ts=1.5, session="s", code="x", text="ü\u2028", data={"n": 1})
    assert parse_event_json(event_json(event, Redactor({}))) == event


@for_each("field", ["v", "seq", "ts", "session", "agent", "type"])
def test_every_event_carries_the_envelope(field: str) -> None:
    assert all(field in {one.name for one in fields(kind)} for kind in EVENT_TYPES.values())


def test_a_result_carries_what_scripts_rely_on() -> None:
    needed = {
        "call_id",
        "name",
        "content",
        "is_error",
        "executed",
        "error",
        "details",
        "duration_ms",
        "approval",
    }
    assert needed <= {one.name for one in fields(ToolResultAdded)}


def test_an_event_of_a_newer_version_is_kept_whole() -> None:
    line = {
        "type": "chart.drawn",
        "v": 9,
        "seq": 1,
        "ts": 2.0,
        "session": "s",
        "agent": "main/2",
        "job": {"id": "j"},
    }
    event = parse_event(line)
    assert isinstance(event, UnknownEvent)
    assert json.loads(event_json(event, Redactor({}))) == line


def test_a_block_of_a_newer_version_is_kept_whole() -> None:
    block = {"type": "chart", "values": [1, 2]}
    result = parse_event(
        {
            "type": "tool.result",
            "seq": 1,
            "ts": 0,
            "session": "s",
            "call_id": "c",
            "name": "x",
            "content": [],
            "is_error": False,
            "executed": True,
            "blocks": [block],
        }
    )
    assert json.loads(event_json(result, Redactor({})))["blocks"] == [block]


def test_nothing_in_an_event_breaks_its_line_for_any_reader() -> None:
    breaks = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029"
    event = Notice(seq=3, ts=1.5, session="s", code="x", text=f"ü{breaks}", data={breaks: breaks})
    line = event_json(event, Redactor({}))
    assert len(line.splitlines()) == 1 and "ü" in line
    assert parse_event_json(line) == event
