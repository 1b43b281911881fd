"""Agents that calls start, on the screen: nested, folded, with their state; and their questions,
named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.acts import CancelCall
from codeagent.core.display import TerminalBlock
from codeagent.core.events import KnownEvent
from codeagent.core.messages import Usage
from codeagent.core.notices import AgentStarted
from codeagent.extensions.agents import EXTENSION
from codeagent.tui.recorded import replayed
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from codeagent.tui.transcript.render import printed
from tests.tui.pictures import SIZES, Album
from tests.tui.scenes import Scene
from tests.tui.scripts import Recording
from tests.tui.test_chat import chat, until
from tests.tui.test_screens import app_of, play

CARDS = (EXTENSION.screen.cards,)
PARENT = "20261120-120000-0badcafe"
USED = Usage(input_tokens=18_000, output_tokens=400, cost_usd=0.06)


def delegated() -> Recording:
    """Two agents were started."""
    recording = (
        Recording()
        .run("review the parser, and test it")
        .answer("I hand this to two agents.", usage=USED)
    )
    recording.plan(
        ("c1", "agent", "reviewer: review src/dates.py", "auto"),
        ("c2", "agent", "tester: run it", "auto"),
    )
    for number, name in enumerate(("reviewer", "tester"), start=1):
        recording.start(
            f"c{number}", "agent", f"{name}: {'review src/dates.py' if number == 1 else 'run it'}"
        )
        recording.add(
            AgentStarted,
            text="",
            call_id=f"c{number}",
            child=f"{name}.{number}",
            child_session=f"{PARENT}.{number}",
            parent_session=PARENT,
        )
    return recording


def child(recording: Recording, name: str, its: Recording) -> Recording:
    """The parent's recording, with these events of a child behind what it has."""
    later = recording.now - its.events[0].ts
    recording.events += [
        replace(event, agent=name, session=f"{PARENT}.{name[-1]}", ts=event.ts + later)
        for event in its.events
    ]
    return recording


def reviewing() -> Recording:
    its = Recording().run("review src/dates.py").answer("I read it first.", usage=USED)
    its.plan(("c1", "read", "src/dates.py", "auto"), ("c2", "search", "is_leap", "auto"))
    its.start("c1", "read", "src/dates.py").result("c1", "read", "one\ntwo").start(
        "c2", "search", "is_leap"
    )
    return its


def reviewed() -> Recording:
    its = reviewing().result("c2", "search", details={"matches": 3, "files": 1})
    return (
        its.end_batch(executed=2).answer("The rule for centuries is missing.", usage=USED).finish()
    )


def working() -> Recording:
    recording = child(delegated(), "reviewer.1", reviewing())
    return child(recording, "tester.2", Recording().run("run it").think("which tests are there?"))


def asking() -> Recording:
    its = Recording().run("run it").plan(("c1", "bash", "make test", "prompt"))
    its.ask("c1", "bash", "make test", TerminalBlock(command="make test"))
    return child(child(delegated(), "reviewer.1", reviewed()), "tester.2", its)


def one_done() -> Recording:
    recording = child(working(), "reviewer.1", Recording().run("").finish())
    return recording.result("c1", "agent", "The rule for centuries is missing.", seconds=14)


SCENES = {
    "agents-working": Scene(working),
    "agents-working-full": Scene(after="agents-working", keys=("ctrl+o",)),
    "agent-asking": Scene(asking),
    "agent-done": Scene(one_done),
}


@pytest.fixture(scope="module")
def album() -> Album[Scene]:
    return Album(SCENES, app_of, play)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_agents(
    name: str, size: tuple[int, int], album: Album[Scene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album.of(name, tmp_path), terminal_size=size)


def show(events: list[KnownEvent]) -> UiState:
    state = UiState()
    reducer = Reducer(state, live=True, cards=lambda: CARDS)
    for event in events:
        reducer.apply(event)
    return state


def test_events_of_a_child_are_below_its_call_and_nowhere_else() -> None:
    state = show(working().events)
    shown = printed(state.document.blocks, 100, "normal", working().now)
    lines = [line.strip() for line in shown.splitlines()]
    assert "reviewer.1 · working · 2 calls · 18.4k tokens · $0.060" in lines
    assert any(line.startswith("│") and "read" in line and "src/dates.py" in line for line in lines)
    assert shown.count("▌ you") == 1 and "│ task" in shown
    assert len([block for block in state.document.blocks if type(block).__name__ == "Batch"]) == 1


def test_what_children_use_counts_in_the_session_but_not_in_its_context() -> None:
    now = show(working().events).status.now
    assert (now.usage.input_tokens, now.usage.output_tokens, now.usage.context_tokens) == (
        36_000,
        800,
        18_400,
    )
    assert now.usage.cost_usd == pytest.approx(0.12)


def test_a_question_of_a_child_waits_in_the_same_queue_until_it_is_answered() -> None:
    recording = asking()
    state = show(recording.events)
    (waiting,) = state.approvals.waiting
    assert (waiting.agent, waiting.name, state.status.now.run.phase) == (
        "tester.2",
        "bash",
        "waiting",
    )
    child(recording, "tester.2", Recording().resolve("c1", "once"))
    assert show(recording.events).approvals.waiting == ()


def test_a_child_that_ended_is_folded_to_its_line_and_opens_to_all_of_it() -> None:
    state = show(one_done().events)
    (batch,) = (block for block in state.document.blocks if type(block).__name__ == "Batch")
    folded = printed([batch], 100, "normal", one_done().now)
    opened = printed([batch], 100, "full", one_done().now)
    assert "I read it first." not in folded.split("tester")[0] and "reviewer.1 · 2 calls" in folded
    assert "│ review src/dates.py" in opened and "│ I read it first." in opened


def test_a_child_that_was_cut_short_is_not_shown_as_still_at_work() -> None:
    state, _ = replayed(working().events, lambda: CARDS)
    shown = printed(state.document.blocks, 100, "normal", working().now)
    assert "  tester.2\n" in f"{shown}\n" and "working" not in shown


def test_without_the_room_the_call_of_a_child_is_shown_alone() -> None:
    state, _ = replayed(working().events)
    shown = printed(state.document.blocks, 100, "normal", working().now)
    assert "tester" in shown and "tester.2" not in shown


def test_a_replay_of_the_merged_logs_shows_what_was_shown_live() -> None:
    recording = child(one_done(), "tester.2", Recording().run("").finish())
    live, recorded = show(recording.events), replayed(recording.events, lambda: CARDS)[0]
    assert printed(live.document.blocks, 100, "full", recording.now) == printed(
        recorded.document.blocks, 100, "full", recording.now
    )


async def test_esc_on_the_call_of_a_child_stops_only_that_child(tmp_path: Path) -> None:
    async with chat(tmp_path, working()) as (pilot, app):
        app.chat.view.focus()
        await pilot.pause()
        await pilot.press("n", "n", "escape")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [CancelCall("c2")]
        await pilot.press("p", "p", "escape")
        await until(pilot, lambda: app.focused is app.chat.composer)
        assert app.told == [CancelCall("c2")], "the batch is not the call of an agent"


async def test_a_child_is_stopped_by_its_name(tmp_path: Path) -> None:
    async with chat(tmp_path, working()) as (pilot, app):
        app.chat.composer.text = "/stop tester.2"
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [CancelCall("c2")]


async def test_a_single_call_of_a_child_is_stopped_by_the_names_of_both(tmp_path: Path) -> None:
    async with chat(tmp_path, working()) as (pilot, app):
        app.chat.composer.text = "/stop reviewer.1 search"
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [CancelCall("c2", "reviewer.1")]
