"""Dataclasses written as JSON: pydantic reads the same back, and a field of a wrong type is never
written."""

import json
from typing import Any

import pytest

from codeagent.core.dataclass import record
from codeagent.core.display import UnknownBlock
from codeagent.core.event_json import to_json
from codeagent.core.events import MessageAdded, RunFinished, TurnStarted
from codeagent.core.messages import AssistantMessage, ToolCall, Usage
from tests.table import for_each

ENVELOPE: dict[str, Any] = {"seq": 1, "ts": 1.0, "session": "s"}


@for_each(
    ("event", "field"),
    [
        (TurnStarted(**ENVELOPE, turn="1"), "turn"),  # type: ignore[arg-type]  # what is tested
        (TurnStarted(**ENVELOPE, turn=True), "turn"),
        (TurnStarted(**(ENVELOPE | {"agent": None}), turn=1), "agent"),
        (
            RunFinished(
                **ENVELOPE, reason="over", text="", usage=Usage(), turns=1, calls=0, duration_ms=1
            ),
            "reason",
        ),  # type: ignore[arg-type]  # as above
        (
            MessageAdded(**ENVELOPE, message=AssistantMessage(calls=[ToolCall(id="1", name="n")])),
            "calls",
        ),  # type: ignore[arg-type]  # as above
        (MessageAdded(**ENVELOPE, message=Usage()), "message"),  # type: ignore[arg-type]  # as above
    ],
)
def test_a_field_of_a_wrong_type_is_named_and_nothing_is_written(event: object, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        to_json(event)


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        to_json(UnknownBlock(type="x", more={"a": object()}))  # type: ignore[dict-item]  # what is tested


def test_a_field_of_a_type_that_cannot_be_checked_is_refused() -> None:
    @record
    class Pair:
        both: tuple[int, int]

    with pytest.raises(ValueError, match="cannot be written: both"):
        to_json(Pair(both=(1, 2, 3)))  # type: ignore[arg-type]  # what is tested


def test_what_is_nested_too_deeply_to_be_read_again_is_not_written() -> None:
    nested: dict[str, Any] = {}
    for _ in range(195):
        nested = {"a": nested}
    with pytest.raises(ValueError, match="190 levels"):
        to_json(UnknownBlock(type="x", more=nested))


def test_numbers_that_json_lacks_are_written_as_null() -> None:
    block = UnknownBlock(type="x", more={"a": [float("nan"), 1.5, {"b": float("inf")}]})
    assert json.loads(to_json(block)) == {"type": "x", "a": [None, 1.5, {"b": None}]}


def test_lone_surrogates_are_replaced_and_other_text_is_kept() -> None:
    assert json.loads(to_json(ToolCall(id="1", name="\ud800é"))) == {
        "id": "1",
        "name": "?é",
        "arguments": "",
    }
