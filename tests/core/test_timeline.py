"""Which points there are, and where /undo and /redo lead, read from events."""

from typing import Any

import pytest

from codeagent.core.errors import CheckpointError
from codeagent.core.events import (
    CheckpointCreated,
    CheckpointRestored,
    KnownEvent,
    MessageAdded,
    RunStarted,
)
from codeagent.core.history import CheckpointTimeline, walk
from codeagent.core.messages import UserMessage, text_of
from tests.table import for_each


class Log:
    """Builds the events of a session; snapshots are named by their content."""

    def __init__(self) -> None:
        self.events: list[KnownEvent] = []

    def _head(self) -> dict[str, Any]:
        return {"seq": len(self.events) + 1, "ts": float(len(self.events)), "session": "s"}

    def say(self, text: str) -> "Log":
        self.events.append(
            RunStarted(
                **self._head(),
                model="m",
                workspace="/w",
                mode="ask",
                strategy="parallel",
                codeagent="1",
            )
        )
        self.events.append(MessageAdded(**self._head(), message=UserMessage.from_text(text)))
        return self

    def point(self, point_id: str, cause: Any, snapshot: str, label: str = "") -> "Log":
        self.events.append(
            CheckpointCreated(
                **self._head(), checkpoint_id=point_id, cause=cause, snapshot=snapshot, label=label
            )
        )
        return self

    def batch(self, number: int, before: str, after: str) -> "Log":
        return self.point(f"b{number}", "batch", before).point(f"a{number}", "after", after)

    def back(self, point_id: str, kind: Any, before: str, *, conversation: bool = False) -> "Log":
        self.events.append(
            CheckpointRestored(
                **self._head(),
                checkpoint_id=point_id,
                kind=kind,
                files=("f",),
                conversation=conversation,
                before=before,
            )
        )
        return self

    def said(self) -> list[str]:
        return [
            text_of(e.message.content)
            for e in walk(self.events).items
            if isinstance(e, MessageAdded)
        ]


def test_undo_leads_before_the_last_batch_that_changed_something() -> None:
    log = Log().batch(1, "s0", "s1").batch(2, "s1", "s1").batch(3, "s1", "s2")
    timeline = CheckpointTimeline(log.events)
    assert timeline.undo_target(1).id == "b3"
    assert timeline.undo_target(2).id == "b1"


def test_undo_after_undo_goes_further_back_and_redo_returns_step_by_step() -> None:
    log = Log().batch(1, "s0", "s1").batch(2, "s1", "s2")
    log.point("r1", "restore", "s2").back("b2", "undo", "r1").point("a3", "after", "s1")
    assert CheckpointTimeline(log.events).undo_target(1).id == "b1"
    log.point("r2", "restore", "s1").back("b1", "undo", "r2").point("a4", "after", "s0")
    timeline = CheckpointTimeline(log.events)
    with pytest.raises(CheckpointError, match="nothing to take back"):
        timeline.undo_target(1)
    assert timeline.redo_target().id == "r2"
    log.point("r3", "restore", "s0").back("r2", "redo", "r3")
    timeline = CheckpointTimeline(log.events)
    assert (timeline.undo_target(1).id, timeline.redo_target().id) == ("b1", "r1")


def test_what_is_done_after_going_back_ends_redo() -> None:
    log = (
        Log()
        .batch(1, "s0", "s1")
        .point("r1", "restore", "s1")
        .back("b1", "undo", "r1")
        .batch(2, "s0", "s3")
    )
    with pytest.raises(CheckpointError, match="nothing to bring back"):
        CheckpointTimeline(log.events).redo_target()


@for_each("count", [0, 2, -1])
def test_more_than_there_is_cannot_be_undone(count: int) -> None:
    with pytest.raises(CheckpointError, match="only 1 of the agent's batches"):
        CheckpointTimeline(Log().batch(1, "s0", "s1").events).undo_target(count)


def test_spans_tell_the_agent_s_changes_from_those_of_others() -> None:
    log = Log().point("p1", "prompt", "s0").batch(1, "s0", "s1").point("p2", "prompt", "s2")
    spans = CheckpointTimeline(log.events).spans("p1")
    assert [(span.before, span.after, span.agents) for span in spans] == [
        ("s0", "s0", False),
        ("s0", "s1", True),
        ("s1", "s2", False),
    ]


def test_points_that_were_gone_back_behind_are_off_the_way() -> None:
    log = (
        Log()
        .say("one")
        .point("p1", "prompt", "s0")
        .batch(1, "s0", "s1")
        .say("two")
        .point("p2", "prompt", "s1")
    )
    log.point("r1", "restore", "s1").back("p1", "rewind", "r1", conversation=True)
    assert [point.id for point in CheckpointTimeline(log.events).points] == ["p1"]


def test_the_conversation_goes_back_to_before_the_prompt_and_returns() -> None:
    log = Log().say("one").point("p1", "prompt", "s0").say("two").point("p2", "prompt", "s0")
    log.point("r1", "restore", "s0").back("p2", "rewind", "r1", conversation=True)
    assert log.said() == ["one"]
    log.point("r2", "restore", "s0").back("r1", "redo", "r2", conversation=True)
    assert log.said() == ["one", "two"]


def test_a_snapshot_that_comes_late_belongs_to_its_prompt() -> None:
    log = Log().say("one")
    log.events.append(MessageAdded(**log._head(), message=UserMessage.from_text("steered")))
    log.point("p1", "prompt", "s0").point("r1", "restore", "s0").back(
        "p1", "rewind", "r1", conversation=True
    )
    assert log.said() == []


def test_an_unknown_point_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="unknown point x"):
        CheckpointTimeline().point("x")
