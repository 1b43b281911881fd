"""The states of stepping in and of going back that are kept as pictures."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codeagent.core.approval_events import PlannedCall
from codeagent.core.compaction import ContextCompacted
from codeagent.core.events import BatchPlanned, ToolCallAdded
from tests.tui.replay import ReplayClient
from tests.tui.scenes import Scene
from tests.tui.scripts import Recording, after_failing_tests


def _as_it_is(client: ReplayClient) -> None:
    """Nothing to prepare."""


@dataclass(frozen=True)
class BoundaryScene(Scene):
    prepare: Callable[[ReplayClient], None] = _as_it_is
    """What is changed about the past before the first key."""


COMMAND = "python3 -m pytest -q tests/test_dates.py && git diff --stat"
CALLS = (
    PlannedCall(
        call_id="c5",
        name="edit",
        target="src/dates.py",
        permission="prompt",
        reason="this tool asks",
    ),
    PlannedCall(
        call_id="c6",
        name="bash",
        target=COMMAND,
        permission="auto",
        reason="the rule allow bash(*)",
    ),
    PlannedCall(
        call_id="c7",
        name="write",
        target="/etc/hosts",
        permission="deny",
        reason="/etc/hosts is outside the workspace",
    ),
)
ARGUMENTS: dict[str, dict[str, Any]] = {
    "c5": {"path": "src/dates.py", "old": "y % 4 == 0", "new": "leap(y)"},
    "c6": {"command": COMMAND},
    "c7": {"path": "/etc/hosts", "content": "127.0.0.1 here\n"},
}
PLAN = """# Leap days

1. Read `src/dates.py` and its tests.
2. Teach `days` the rule for full centuries.
3. Add tests for 1900 and 2000.

## Left alone

- The calendar of before 1582.

```sh
# not part of the outline
```
"""


def paused(why: str = "step", calls: Sequence[PlannedCall] = CALLS) -> Recording:
    """A run that waits before its third batch."""
    recording = after_failing_tests()
    for call in calls:
        arguments = ARGUMENTS.get(call.call_id, {})
        recording.add(
            ToolCallAdded, call_id=call.call_id, name=call.name, arguments=json.dumps(arguments)
        )
    recording.add(BatchPlanned, batch=3, calls=tuple(calls))
    ids = [call.call_id for call in calls]
    return recording.notice("run.paused", "paused before batch 3", batch=3, why=why, calls=ids)


def one_skipped() -> Recording:
    return paused().notice("call.marked", "will be skipped: bash", call_id="c6", skipped=True)


def one_edited() -> Recording:
    recording = paused()
    arguments = json.dumps({"command": "pytest -q"})
    return recording.notice(
        "call.edited",
        "edited",
        call_id="c6",
        target="pytest -q",
        arguments=arguments,
        permission="prompt",
    )


def many() -> Recording:
    calls = [
        PlannedCall(call_id=f"m{n}", name="read", target=f"src/part_{n}.py", permission="auto")
        for n in range(14)
    ]
    return paused("asked", calls)


def before_a_request() -> Recording:
    return after_failing_tests().notice("run.paused", "paused", batch=0, why="asked", calls=[])


def budget_used_up() -> Recording:
    recording = after_failing_tests().notice(
        "budget.changed", "", left="$0 of $2 left", budget="$2"
    )
    return recording.notice(
        "run.paused", "the budget of $2 is used up", batch=0, why="budget", calls=[]
    )


def plan_ready() -> Recording:
    recording = Recording().run("plan how leap days get right", mode="plan").answer(PLAN)
    return recording.finish(text=PLAN)


def with_a_question() -> Recording:
    """Something asks although the run is paused."""
    return paused().ask("c5", "edit", "src/dates.py")


def went_back() -> Recording:
    recording = after_failing_tests().finish()
    recording.checkpoint(
        "k1", "prompt", "the date parser fails on leap days, fix it and add a test"
    )
    return recording.restored("k1", "rewind", ["src/dates.py"], conversation=True)


def somebody_edited(client: ReplayClient) -> None:
    client.past.edited = frozenset({"src/dates.py"})
    client.past.agents["src/dates.py"] = "def days(y):\n    return 366\n"
    client.past.left_out = ("data.bin: larger than 20 MiB",)


def no_past(client: ReplayClient) -> None:
    client.past.moments = ()


SUMMARY = """# Done
- `src/dates.py:12` counts leap days; `pytest -k leap` passes
- the user ruled out a table of years

# Next
- the docs"""


def compacting() -> Recording:
    return after_failing_tests().notice(
        "compaction.begun", "compacting the conversation", cause="window"
    )


def summary_ready() -> Recording:
    written = {
        "summary": SUMMARY,
        "usage": {"input_tokens": 9000, "output_tokens": 120, "cost_usd": 0.01},
    }
    return compacting().notice(
        "compaction.summary", "a summary", asked=True, replaces=41, **written
    )


def compacted() -> Recording:
    kept = {"tail": 4, "note": "note", "summary": SUMMARY, "replaced": 41}
    sizes = {"before_tokens": 161_000, "after_tokens": 38_500}
    recording = summary_ready()
    recording.add(ContextCompacted, cause="window", **kept, **sizes)
    return recording


def not_compacted() -> Recording:
    why = "not compacted: the model wrote no summary; the conversation is as it was"
    return compacting().notice("compaction.failed", why, cause="window", level="warning")


SCENES: dict[str, BoundaryScene] = {
    "compacting": BoundaryScene(compacting),
    "summary-ready": BoundaryScene(summary_ready),
    "summary-in-focus": BoundaryScene(summary_ready, keys=("wait", "tab")),
    "compacted": BoundaryScene(compacted),
    "not-compacted": BoundaryScene(not_compacted),
    "step": BoundaryScene(paused, status={"stepping": True}),
    "step-in-focus": BoundaryScene(paused, keys=("wait", "tab", "j"), status={"stepping": True}),
    "step-off": BoundaryScene(lambda: paused("asked")),
    "step-denied-marked": BoundaryScene(paused, keys=("wait", "alt+3")),
    "step-skipped": BoundaryScene(one_skipped, keys=("wait", "alt+2"), status={"stepping": True}),
    "step-edited": BoundaryScene(one_edited, status={"stepping": True}),
    "step-reason": BoundaryScene(
        after="step-denied-marked", keys=("wait", "alt+1", "wait", "alt+X")
    ),
    "step-command": BoundaryScene(
        after="step-reason", keys=("escape", "escape", "wait", "alt+2", "alt+e")
    ),
    "step-many": BoundaryScene(many, keys=("wait", "alt+9")),
    "pause-before-request": BoundaryScene(before_a_request),
    "pause-budget": BoundaryScene(budget_used_up),
    "plan-ready": BoundaryScene(plan_ready),
    "undo-preview": BoundaryScene(keys=(*"/undo", "enter", "wait"), prepare=somebody_edited),
    "undo-two": BoundaryScene(
        after="undo-preview", keys=("escape", *"/undo", "space", "2", "enter", "wait")
    ),
    "rewind": BoundaryScene(after="undo-two", keys=("escape", *"/rewind", "enter", "wait")),
    "rewind-marked": BoundaryScene(
        after="rewind",
        keys=("escape", *"/rewind", "enter", "wait", "up", "up", "wait"),
        prepare=somebody_edited,
    ),
    "rewind-ways": BoundaryScene(
        after="rewind-marked", keys=("enter", "wait"), prepare=somebody_edited
    ),
    "rewind-empty": BoundaryScene(
        after="rewind-ways", keys=("escape", "escape", *"/rewind", "enter", "wait"), prepare=no_past
    ),
    "went-back": BoundaryScene(went_back),
}
