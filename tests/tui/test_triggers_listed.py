"""Triggers on the screen: listed among the jobs, told of when they fire, and kept after a
resume."""

from codeagent.core.jobs import Trigger, TriggerAdded, TriggerFired, TriggerStopped
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState

TRIGGER = Trigger(
    id="trigger-1", kind="timer", when="every 60 s", prompt="look", at_most=2, every=60.0, due=60.0
)
FIRED = Trigger(
    id="trigger-1",
    kind="timer",
    when="every 60 s",
    prompt="look",
    at_most=2,
    every=60.0,
    due=120.0,
    fired=1,
)


def reduced(*events: TriggerAdded | TriggerFired | TriggerStopped) -> UiState:
    state = UiState()
    reducer = Reducer(state, live=True)
    for event in events:
        reducer.apply(event)
    return state


def row(state: UiState) -> tuple[str, str, int]:
    (one,) = state.jobs.rows
    return one.status, one.title, state.jobs.running


def test_a_trigger_waits_among_the_jobs_and_counts_as_none_that_runs() -> None:
    state = reduced(TriggerAdded(trigger=TRIGGER))
    assert row(state) == ("waiting", "timer every 60 s: look", 0)
    state.jobs.lose()
    assert row(state)[0] == "waiting"


def test_it_is_told_when_it_fires_and_listed_as_over_after_the_last_time() -> None:
    state = reduced(
        TriggerAdded(trigger=TRIGGER), TriggerFired(trigger=FIRED, what="it was due at noon")
    )
    assert row(state)[0] == "waiting"
    line = "trigger-1 fired: timer every 60 s: look · it was due at noon"
    assert list(state.jobs.output("trigger-1").last(5)) == ["look", line]
    last = Trigger(
        id="trigger-1", kind="timer", when="every 60 s", prompt="look", at_most=2, fired=2
    )
    assert (
        row(reduced(TriggerAdded(trigger=TRIGGER), TriggerFired(trigger=last, what="")))[0]
        == "done"
    )


def test_one_that_was_stopped_says_by_whom() -> None:
    state = reduced(TriggerAdded(trigger=TRIGGER), TriggerStopped(trigger=FIRED, by="user"))
    assert row(state)[0] == "stopped"
    assert list(state.jobs.output("trigger-1").last(1)) == ["stopped by the user"]
