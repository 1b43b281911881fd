"""Events survive being written and read, also those of a newer version."""

import json
from dataclasses import fields

from codeagent.core.event_json import event_json, parse_event, parse_event_json
from codeagent.core.events import EVENT_TYPES, Notice, ToolResultAdded, UnknownEvent
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
    "limit.reached",
    "notice",
}
DELTAS = {"text.delta", "reasoning.delta", "tool.updated", "tool.progress", "job.updated"}


def test_the_names_are_those_scripts_rely_on() -> None:
    assert set(EVENT_TYPES) == CONTRACT


def test_only_deltas_are_not_durable() -> None:
    assert {name for name, kind in EVENT_TYPES.items() if not kind.durable} == DELTAS


def test_an_event_reads_as_it_was_written() -> None:
    event = Notice(seq=3, ts=1.5, session="s", code="x", text="ü\u2028", data={"n": 1})
    assert parse_event_json(event_json(event, Redactor({}))) == event


@for_each("field", ["v", "seq", "ts", "session", "agent", "type"])
def test_every_event_carries_the_envelope(field: str) -> None:
    assert all(field in {one.name for one in fields(kind)} for kind in EVENT_TYPES.values())


def test_a_result_carries_what_scripts_rely_on() -> None:
    needed = {"call_id", "name", "content", "is_error", "executed", "error", "details", "duration_ms", "approval"}
    assert needed <= {one.name for one in fields(ToolResultAdded)}


def test_an_event_of_a_newer_version_is_kept_whole() -> None:
    line = {"type": "chart.drawn", "v": 9, "seq": 1, "ts": 2.0, "session": "s", "agent": "main/2", "job": {"id": "j"}}
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
