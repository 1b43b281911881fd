"""At a boundary every key does what the card says, none counts before it could be read, and nothing
written is lost."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from codeagent.core.acts import (
    Act,
    AnswerSummary,
    Compact,
    EditCall,
    Interrupt,
    Pause,
    Pin,
    Prompt,
    Resume,
    SetBudget,
    SetMode,
    SkipCall,
    Steer,
    Step,
    Stop,
    Unpin,
)
from codeagent.core.approval_events import PlannedCall
from codeagent.core.budget import Budget
from codeagent.core.policy import Mode
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import PlanReady, UiState
from tests.tui.boundary_scenes import (
    COMMAND,
    PLAN,
    SUMMARY,
    before_a_request,
    budget_used_up,
    compacting,
    many,
    one_skipped,
    paused,
    plan_ready,
    summary_ready,
    with_a_question,
)
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, enter, settled, until
from tests.tui.scripts import Recording, running_tests

_KEYS = {" ": "space", "/": "slash", "$": "dollar_sign", "-": "minus"}


@asynccontextmanager
async def chat(
    folder: Path,
    recording: Recording,
    *,
    seen: bool = True,
    size: tuple[int, int] = (80, 24),
    **status: Any,
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    app = ReplayApp(recording.events, folder, now=recording.now, **status)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        if seen:
            long_enough()
        yield pilot, app
    assert app.crash is None


async def write(pilot: Pilot[None], text: str, *keys: str) -> None:
    for letter in text:
        pilot.app.post_message(events.Key(_KEYS.get(letter, letter), letter))
    await pilot.pause()
    await pilot.press(*keys)
    await pilot.pause()


async def show(
    pilot: Pilot[None], app: ReplayApp, recording: Recording, *, seen: bool = True
) -> None:
    """The boundary of another recording as one that was just reached, with nothing told so far."""
    app.forget()
    for what in (None, stage_of(recording)):
        app.chat.state.boundary.set(what)
        await pilot.pause()
    if seen:
        long_enough()


def shown(app: ReplayApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def editor(folder: Path, monkeypatch: pytest.MonkeyPatch, writes: str) -> None:
    """An editor that leaves this text behind."""
    (folder / "written").write_text(writes)
    program = folder / "editor"
    program.write_text(f'#!/bin/sh\ncat {folder}/written > "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))


async def test_a_pause_ends_from_where_one_writes(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        for key in ("alt+c", "enter"):
            await show(pilot, app, paused())
            await pilot.press(key)
            await pilot.pause()
            assert app.told == [Resume()], key


async def test_going_on_turns_step_mode_on_or_off(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        for key, on in (("s", True), ("S", False)):
            app.chat.state.status.set(stepping=not on)
            await show(pilot, app, paused())
            app.chat.composer.focus()
            await pilot.press("tab", key)
            await pilot.pause()
            assert app.told == [Step(on), Resume()], key


async def test_a_second_call_is_skipped_right_after_the_first(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("tab", "1", "x", "j", "x")
        await pilot.pause()
        assert app.told == [SkipCall("c5", ""), SkipCall("c6", "")]
        await pilot.press("j", "X")
        await write(pilot, "not now", "enter")
        await pilot.press("1", "x")
        assert app.told[2:] == [SkipCall("c7", "not now"), SkipCall("c5", "")]


async def test_the_marked_call_is_skipped_and_digits_and_arrows_mark(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("tab", "j", "x")
        await pilot.pause()
        await pilot.press("3", "k", "k", "k", "X")
        await write(pilot, "not now", "enter")
        assert app.told == [SkipCall("c6", ""), SkipCall("c5", "not now")]
        assert app.focused is app.chat.card


async def test_a_reason_that_was_begun_is_left_with_esc_and_nothing_is_skipped(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("alt+X")
        await write(pilot, "because", "escape")
        assert app.told == []
        await pilot.press("escape")
        await pilot.pause()
        assert app.focused is app.chat.composer


async def test_what_was_begun_at_a_pause_is_there_again_and_goes_with_the_pause(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("alt+X")
        await write(pilot, "not yet", "escape")
        long_enough()
        await pilot.press("X", "!", "enter")
        await pilot.pause()
        assert app.told == [SkipCall("c5", "not yet!")]
        await show(pilot, app, paused())
        await pilot.press("alt+X", "enter")
        await pilot.pause()
        assert app.told == [SkipCall("c5", "")]


async def test_the_focus_goes_back_where_a_question_comes_before_the_pause(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("tab", "2")
        app.chat.state.approvals.add(with_a_question().events[-1])
        await pilot.pause()
        assert app.focused is app.chat.composer and app.chat.card.scope == "card"
        app.chat.state.approvals.clear()
        await pilot.pause()
        assert "▸ 2" in shown(app)


async def test_a_command_of_one_line_is_edited_in_the_card(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("alt+2", "alt+e")
        await write(pilot, " -v", "enter")
        assert app.told == [EditCall("c6", json.dumps({"command": f"{COMMAND} -v"}))]


async def test_other_arguments_are_edited_as_json_in_the_users_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, '{"path": "a.py"}')
    async with chat(tmp_path, paused()) as (pilot, app):
        monkeypatch.setattr(app, "suspend", nullcontext)  # without a terminal there is none to lend
        await pilot.press("alt+e")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [EditCall("c5", '{"path": "a.py"}')]


async def test_what_does_not_fit_is_said_in_the_card_and_is_there_for_the_next_try(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        app.clients[0].refusal = "command: no such option"
        await pilot.press("alt+2", "alt+e")
        await write(pilot, " -Z", "enter")
        assert "command: no such option" in shown(app)
        long_enough()
        await pilot.press("e", "end")
        assert f"{COMMAND} -Z" in shown(app)


async def test_json_that_is_none_is_said_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, "{path")
    async with chat(tmp_path, paused()) as (pilot, app):
        monkeypatch.setattr(app, "suspend", nullcontext)  # without a terminal there is none to lend
        await pilot.press("alt+e")
        await until(pilot, lambda: "not JSON" in shown(app))
        assert app.told == []


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 60)])
async def test_the_key_that_undoes_a_skip_is_named_where_the_call_is_skipped(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with chat(tmp_path, paused(), size=size) as (pilot, app):
        undone = one_skipped().notice(
            "call.marked", "will run after all", call_id="c6", skipped=False
        )
        for recording, words in ((one_skipped(), "undo skip"), (undone, "  skip")):
            await show(pilot, app, recording)
            await pilot.press("alt+2")
            row = next(row for row in shown(app).splitlines() if "▸ 2" in row)
            assert ("skipped" in row, words in shown(app)) == (recording is not undone, True)
            await pilot.press("alt+x")
            await pilot.pause()
            assert app.told == [SkipCall("c6", on=recording is undone)]


async def test_a_skip_in_an_older_log_is_shown_at_its_pause(tmp_path: Path) -> None:
    settled_at_once = paused().result(
        "c6", "bash", "", error=("skipped", "skipped by user: not now"), executed=False
    )
    async with chat(tmp_path, settled_at_once) as (pilot, app):
        await pilot.press("alt+2")
        assert "undo skip" in shown(app)


async def test_what_is_written_corrects_the_batch(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await enter(pilot, "use the helper")
        assert app.told == [Interrupt("use the helper"), Resume()]


async def test_before_a_request_what_is_written_is_read_first(tmp_path: Path) -> None:
    async with chat(tmp_path, before_a_request()) as (pilot, app):
        await enter(pilot, "be brief")
        assert app.told == [Steer("be brief"), Resume()]


async def test_a_budget_that_is_used_up_is_said_and_plus_goes_on(tmp_path: Path) -> None:
    async with chat(tmp_path, budget_used_up()) as (pilot, app):
        assert "the budget of $2 is used up" in shown(app) and "as much again" in shown(app)
        await pilot.press("tab", "+")
        await pilot.pause()
        assert app.told == [Resume()]


async def test_esc_at_a_pause_stops_and_from_the_card_goes_back_to_writing_first(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("tab", "escape")
        await pilot.pause()
        assert app.told == [] and app.focused is app.chat.composer
        await pilot.press("escape")
        assert app.told == [Stop()]


async def test_no_key_counts_before_the_pause_could_be_seen(tmp_path: Path) -> None:
    async with chat(tmp_path, paused(), seen=False) as (pilot, app):
        for key in ("alt+c", "alt+x", "alt+s", "enter", "escape", "tab"):
            await show(pilot, app, paused(), seen=False)
            await pilot.press(key)
            assert app.told == [], key
            assert app.focused is app.chat.composer, key


async def test_esc_twice_stops_also_where_the_pause_came_in_between(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await pilot.press("escape")
        app.chat.state.status.set(halt="paused")
        app.chat.state.boundary.set(stage_of(paused()))
        await pilot.press("escape")
        assert app.told == [Pause(), Stop()]


async def test_typing_keeps_the_card_from_acting(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await write(pilot, "cxsyz", "alt+x")
        assert app.told == [] and app.chat.composer.text == "cxsyz"


async def test_a_question_goes_before_the_pause(tmp_path: Path) -> None:
    async with chat(tmp_path, with_a_question()) as (pilot, app):
        assert app.chat.card.scope == "card"
        await pilot.press("alt+x")
        assert app.told == []
        app.chat.state.approvals.clear()
        await pilot.pause()
        assert app.chat.card.scope == "boundary"


async def test_the_mark_stays_on_screen_in_a_long_batch(tmp_path: Path) -> None:
    async with chat(tmp_path, many()) as (pilot, app):
        await pilot.press("tab", *["down"] * 20)
        await pilot.pause()
        assert "▸ 14" in shown(app)


async def test_the_focus_goes_back_when_the_pause_ends(tmp_path: Path) -> None:
    async with chat(tmp_path, paused()) as (pilot, app):
        await pilot.press("tab", "c")
        app.chat.state.boundary.set(None)
        await pilot.pause()
        assert app.focused is app.chat.composer


async def test_a_plan_is_started_in_the_mode_of_the_key(tmp_path: Path) -> None:
    async with chat(tmp_path, plan_ready()) as (pilot, app):
        for key, mode in (("p", "ask"), ("P", "accept-edits"), ("a", "accept-edits")):
            await show(pilot, app, plan_ready())
            app.chat.composer.focus()
            await pilot.press("tab", key)
            await pilot.pause()
            assert app.told == started(PLAN, mode), key


async def test_a_plan_is_put_away_and_tab_brings_it_again(tmp_path: Path) -> None:
    async with chat(tmp_path, plan_ready()) as (pilot, app):
        for keys in (("tab", "k"), ("tab", "escape"), ("escape",), ("alt+k",)):
            await show(pilot, app, plan_ready())
            app.chat.composer.focus()
            assert app.chat.card.scope == "plan", keys
            await pilot.press(*keys)
            await pilot.pause()
            assert not app.chat.card.display, keys
            assert isinstance(app.chat.state.boundary.now, PlanReady), keys
            await enter(pilot, "also 1900")
            long_enough()
            await pilot.press("tab")
            await pilot.pause()
            assert app.chat.card.scope == "plan", keys
            assert app.told == [Prompt("also 1900")], keys


async def test_a_summary_is_used_or_the_conversation_kept_by_key_and_by_command(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, summary_ready()) as (pilot, app):
        for key, summary in (("c", SUMMARY), ("enter", SUMMARY), ("k", None)):
            await show(pilot, app, summary_ready())
            app.chat.composer.focus()
            await pilot.press("tab", key)
            await pilot.pause()
            assert app.told == [AnswerSummary(summary, summary)], key
        for line, summary in (("/compact use", SUMMARY), ("/compact keep", None)):
            await show(pilot, app, summary_ready())
            app.chat.composer.focus()
            await says(pilot, app, line, [AnswerSummary(summary, summary)])


@pytest.mark.parametrize(
    ("ready", "key", "told"),
    [
        (plan_ready, "alt+p", [SetMode("ask"), Prompt("Carry out this plan:\n\nonly this")]),
        (summary_ready, "alt+c", [AnswerSummary("only this", SUMMARY)]),
    ],
    ids=["plan", "summary"],
)
async def test_an_edited_text_is_what_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ready: Callable[[], Recording],
    key: str,
    told: list[Act],
) -> None:
    editor(tmp_path, monkeypatch, "only this")
    async with chat(tmp_path, ready()) as (pilot, app):
        monkeypatch.setattr(app, "suspend", nullcontext)  # without a terminal there is none to lend
        await pilot.press("alt+e")
        await until(pilot, lambda: "as you changed it" in shown(app))
        long_enough()
        await pilot.press(key)
        await pilot.pause()
        assert app.told == told


async def test_esc_esc_ends_a_run_whose_summary_is_written_or_waits(tmp_path: Path) -> None:
    for recording in (compacting(), summary_ready()):
        async with chat(tmp_path, recording) as (pilot, app):
            await pilot.press("escape", "escape")
            await pilot.pause()
            assert app.told == [Pause(), Stop()]


async def test_compacting_says_for_how_long(tmp_path: Path) -> None:
    async with chat(tmp_path, compacting()) as (_, app):
        assert re.search(r"compacting \d+ s · ", shown(app))


async def test_compacting_for_a_model_that_refused_the_length_says_so(tmp_path: Path) -> None:
    refused = running_tests().notice("compaction.begun", "compacting", cause="overflow")
    async with chat(tmp_path, refused) as (_, app):
        assert "too long for the model: compacting it" in app.chat.view.plain_text()


async def test_compacting_and_pinning_are_asked_for_by_command(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await says(pilot, app, "/compact cover the ports", [Compact("cover the ports")])
        await says(pilot, app, "/compact", [Compact("")])
        await says(pilot, app, "/pin never touch a.py", [Pin("never touch a.py")])
        await says(pilot, app, "/unpin 1", [Unpin(1)])


async def test_what_keys_do_commands_do(tmp_path: Path) -> None:
    cases: dict[str, list[Act]] = {
        "/step": [Step(True)],
        "/step on": [Step(True)],
        "/step off": [Step(False)],
        "/step go": [Resume()],
        "/step skip 2": [SkipCall("c6", "")],
        "/step skip 2 not now": [SkipCall("c6", "not now")],
        "/step unskip 2": [SkipCall("c6", on=False)],
        "/stop": [Stop()],
        "/budget $2": [SetBudget(Budget.parse("$2"))],
        "/plan": [SetMode("plan")],
        "/plan leap days": [SetMode("plan"), Steer("leap days")],
    }
    async with chat(tmp_path, paused()) as (pilot, app):
        for line, told in cases.items():
            await says(pilot, app, line, told)


async def test_a_plan_is_made_and_started_by_command(tmp_path: Path) -> None:
    async with chat(tmp_path, plan_ready()) as (pilot, app):
        await says(pilot, app, "/plan leap days", [SetMode("plan"), Prompt("leap days")])
        await says(pilot, app, "/plan start", started(PLAN, "ask"))
        await says(pilot, app, "/plan start accept-edits", started(PLAN, "accept-edits"))


def started(plan: str, mode: Mode) -> list[Act]:
    return [SetMode(mode), Prompt(f"Carry out this plan:\n\n{plan}")]


async def says(pilot: Pilot[None], app: ReplayApp, line: str, told: list[Act]) -> None:
    """A command tells the agent this, and nothing else."""
    app.forget()
    await enter(pilot, line)
    await until(pilot, lambda: len(app.told) >= len(told), line)
    assert app.told == told, line


async def test_a_command_that_finds_nothing_to_do_says_so(tmp_path: Path) -> None:
    async with chat(tmp_path, Recording(), seen=False) as (pilot, app):
        await refuses(pilot, app, "/step go", "nothing is paused")
        await refuses(pilot, app, "/step skip 2", "nothing is paused")
        await refuses(
            pilot,
            app,
            "/step maybe",
            "/step takes on, off, go, skip N, unskip N or edit N, not 'maybe'",
        )
        await refuses(pilot, app, "/plan start", "no plan is ready")
        await refuses(pilot, app, "/stop", "nothing is running")


async def refuses(pilot: Pilot[None], app: ReplayApp, line: str, said: str) -> None:
    """A command tells the agent nothing, and says why."""
    app.chat.tell("")
    await enter(pilot, line)
    await until(pilot, lambda: said in app.chat.state.status.now.screen.notice, line)
    assert app.told == [], line


async def test_markup_and_control_characters_of_a_batch_are_text(tmp_path: Path) -> None:
    hostile = "[@click=app.quit]x[/] \x1b[2J \u202egnp.exe"
    calls = [
        PlannedCall(call_id="h1", name="bash", target=hostile, permission="deny", reason=hostile)
    ]
    async with chat(tmp_path, paused("limit", calls)) as (pilot, app):
        await pilot.pause()
        assert (
            "[@click=app.quit]x[/]" in shown(app)
            and "\x1b" not in shown(app)
            and "\u202e" not in shown(app)
        )


def stage_of(recording: Recording) -> Any:
    """What the boundary shows after these events."""
    state = UiState()
    reducer = Reducer(state, live=True)
    for event in recording.events:
        reducer.apply(event)
    return state.boundary.now
