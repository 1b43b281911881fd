"""What the user does on the chat screen becomes a call on the conversation, and nothing typed is
lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from codeagent.config.checking import checked
from codeagent.config.settings import Settings
from codeagent.core.acts import (
    Answer,
    CancelCall,
    FollowUp,
    Interrupt,
    Pause,
    Prompt,
    Queued,
    Resume,
    RunShell,
    SetEffort,
    SetMode,
    SetModel,
    SetNetwork,
    Steer,
    Stop,
    TakeBack,
)
from codeagent.core.display import TerminalBlock
from codeagent.core.memory import TodoItem
from codeagent.core.model import ModelInUse
from codeagent.core.policy import Decision
from codeagent.tui.launcher import LaunchOptions, Missing
from codeagent.tui.pages.opening import FirstRun
from codeagent.tui.pages.page import Page
from codeagent.tui.pages.permissions import PermissionsScreen
from codeagent.tui.pages.picker import Picker
from codeagent.tui.transcript.blocks import Remark
from tests.table import for_each
from tests.tui.guards import long_enough
from tests.tui.parts.cards import asking, command
from tests.tui.replay import ROWS, ReplayApp, enter, settled, until
from tests.tui.scripts import Recording, asks_to_edit, running_tests

_KEYS = {" ": "space", "!": "exclamation_mark", "/": "slash", "-": "minus"}
QUESTION = replace(
    asking("bash", "c9.1", "rm -rf build", TerminalBlock(command="rm -rf build"), reason=""), ts=0.0
)


@asynccontextmanager
async def chat(
    folder: Path,
    recording: Recording | None = None,
    *,
    keys_file: str = "",
    size: tuple[int, int] = (80, 24),
    **status: Any,
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    recording = recording or Recording()
    if keys_file:
        (folder / "config").mkdir()
        (folder / "config/keys.yaml").write_text(keys_file)
    app = ReplayApp(recording.events, folder, now=recording.now, **status)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot, app
    assert app.crash is None


def shown(app: ReplayApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def write(pilot: Pilot[None], text: str, *keys: str) -> None:
    """Type as fast as a terminal sends it, then press the keys."""
    for letter in text:
        pilot.app.post_message(events.Key(_KEYS.get(letter, letter), letter))
    await pilot.pause()
    await pilot.press(*keys)


async def test_enter_begins_a_run(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "fix it", "enter")
        assert app.told == [Prompt("fix it")]
        assert app.chat.composer.is_blank


async def test_while_it_works_enter_steers_and_alt_enter_waits(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await enter(pilot, "also 1900")
        await write(pilot, "then commit", "alt+enter")
        await write(pilot, "and push", "tab")
        assert app.told == [Steer("also 1900"), FollowUp("then commit"), FollowUp("and push")]


async def test_a_line_for_the_shell_is_shared_with_one_mark_and_not_with_two(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "!ls")
        await enter(pilot, "!!env")
        assert app.told == [RunShell("ls", True), RunShell("env", False)]


async def test_esc_pauses_and_esc_again_stops(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await pilot.press("escape")
        assert app.told == [Pause()]
        await pilot.press("escape")
        assert app.told == [Pause(), Stop()]


async def test_esc_for_a_command_of_the_users_own_leaves_the_run_and_its_card_alone(
    tmp_path: Path,
) -> None:
    recording = asks_to_edit().start(
        "shell-1", "shell", "sleep 600", command="sleep 600", shared=True
    )
    async with chat(tmp_path, recording) as (pilot, app):
        app.clients[0].running = True
        app.chat.composer.focus()
        assert app.chat.state.status.now.work.commands == 1
        await pilot.press("escape", "escape", "escape", "escape")
        assert app.told == [CancelCall("shell-1")]
        assert app.chat.state.approvals.waiting and app.screen is app.chat


async def test_esc_stops_a_command_of_the_users_own_at_once(tmp_path: Path) -> None:
    recording = Recording().start("shell-1", "shell", "sleep 600", command="sleep 600", shared=True)
    async with chat(tmp_path, recording) as (pilot, app):
        await pilot.press("escape")
        assert app.told == [CancelCall("shell-1")]


async def test_esc_does_nothing_where_nothing_runs(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "half a thou", "escape", "escape")
        assert (app.told, app.chat.composer.text) == ([], "half a thou")


async def test_enter_ends_a_pause_with_what_was_written_first(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests(), halt="paused", batch=3) as (pilot, app):
        await enter(pilot, "use the helper")
        assert app.told == [Steer("use the helper"), Resume()]
        app.forget()
        await pilot.press("enter")
        assert app.told == [Resume()]


async def test_what_is_written_before_a_batch_is_said_instead_of_it(tmp_path: Path) -> None:
    async with chat(tmp_path, paused_before_a_batch()) as (pilot, app):
        long_enough()
        await enter(pilot, "use the helper")
        assert app.told == [Interrupt("use the helper"), Resume()]


async def test_enter_alone_runs_the_batch_that_a_pause_is_before(tmp_path: Path) -> None:
    async with chat(tmp_path, paused_before_a_batch()) as (pilot, app):
        long_enough()
        await pilot.press("enter")
        assert app.told == [Resume()]


async def test_what_was_sent_before_a_pause_could_be_seen_steers_and_does_not_end_it(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, paused_before_a_batch()) as (pilot, app):
        await enter(pilot, "also 1900")
        await pilot.press("enter")
        assert app.told == [Steer("also 1900")]
        assert "just paused" in app.chat.state.status.now.screen.notice


def paused_before_a_batch() -> Recording:
    recording = running_tests().plan(("c7", "bash", "make lint", "prompt"))
    return recording.notice(
        "run.paused", "paused before batch 3", why="step", batch=3, calls=["c7"]
    )


async def test_ctrl_c_stops_what_runs_else_clears_and_twice_quits(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await pilot.press("ctrl+c")
        assert app.told == [Stop()]
    (tmp_path / "second").mkdir()
    async with chat(tmp_path / "second") as (pilot, app):
        await write(pilot, "text", "ctrl+c")
        assert app.chat.composer.is_blank and app.is_running
        await pilot.press("ctrl+c")
        await until(pilot, lambda: ("close",) in app.told)


async def test_ctrl_d_quits_only_where_nothing_is_written(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "text", "ctrl+d")
        assert app.told == [] and app.chat.composer.text == "text"
        await pilot.press("ctrl+u", "ctrl+d")
        await until(pilot, lambda: ("close",) in app.told)


async def test_the_draft_of_a_screen_that_went_away_is_there_again(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "half a thought")
        saved = app.folders.drafts
        await until(pilot, lambda: saved.exists() and saved.read_text() == "half a thought")
    async with chat(tmp_path) as (pilot, app):
        assert app.chat.composer.text == ""
        await pilot.press("up")
        assert app.chat.composer.text == "half a thought"


async def test_shift_tab_goes_round_the_modes(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await pilot.press("shift+tab", "shift+tab", "shift+tab")
        assert app.told == [SetMode("accept-edits"), SetMode("plan"), SetMode("ask")]


async def test_ctrl_o_goes_round_the_details(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        seen = []
        for _ in range(3):
            await pilot.press("ctrl+o")
            seen.append(app.chat.view.detail)
        assert seen == ["full", "quiet", "normal"]


async def test_typing_at_full_speed_while_a_question_appears_approves_nothing_and_loses_nothing(
    tmp_path: Path,
) -> None:
    text = "yes and yanay any nay " * 9 + "y!"
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await write(pilot, text[:20])
        app.chat.state.approvals.add(QUESTION)
        await write(pilot, text[20:])
        assert app.told == []
        assert app.chat.composer.text == text


async def test_a_paste_approves_nothing_and_is_not_sent(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        long_enough()
        app.post_message(events.Paste("y\ny\na\n"))
        await pilot.pause()
        assert app.told == []
        assert app.chat.composer.text == "y\ny\na\n"


async def test_alt_y_answers_from_the_composer_and_what_is_written_stays(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        await write(pilot, "and then")
        long_enough()
        await pilot.press("alt+y")
        assert app.told == [Answer("c5.1", Decision("once"))]
        assert app.chat.composer.text == "and then"


async def test_alt_y_counts_right_after_a_message_was_queued_for_a_question_that_was_read(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        long_enough()
        await write(pilot, "also the docs", "enter", "alt+y")
        assert app.told == [Steer("also the docs"), Answer("c5.1", Decision("once"))]


async def test_text_that_comes_back_does_not_restart_the_wait(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        long_enough()
        app.chat.state.queue.add(Queued("q1", "steer", "one"))
        app.chat.state.give_back("two")
        await pilot.pause()
        await pilot.press("alt+y")
        assert app.told == [Answer("c5.1", Decision("once"))]


async def test_a_message_sent_as_the_question_appears_does_not_answer_it_early(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        await write(pilot, "also the docs", "enter", "alt+y")
        assert app.told == [Steer("also the docs")]


async def test_tab_in_an_empty_line_gives_the_keys_to_the_question(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        long_enough()
        await pilot.press("tab", "n")
        assert app.told == [Answer("c5.1", Decision("deny"))]


async def test_up_in_an_empty_line_takes_back_what_was_queued_last(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        app.chat.state.queue.add(Queued("q1", "steer", "one"))
        app.chat.state.queue.add(Queued("q2", "follow_up", "two"))
        await pilot.press("up")
        assert app.told == [TakeBack("q2")]


async def test_what_comes_too_late_says_so(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_to_edit()) as (pilot, app):
        app.chat.state.queue.add(Queued("q1", "steer", "one"))
        app.clients[-1].refusal = "the agent has already read it"
        await pilot.press("up")
        assert app.chat.state.status.now.screen.notice == "the agent has already read it"
        app.clients[-1].refusal = "the question is no longer pending"
        long_enough()
        await pilot.press("alt+y")
        assert app.chat.state.status.now.screen.notice == "the question is no longer pending"


async def test_what_is_given_back_stands_before_what_is_written(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "new")
        app.chat.state.give_back("old")
        assert app.chat.composer.text == "old\nnew"


async def test_a_page_opens_over_the_conversation_and_esc_closes_it(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        for name in ("status", "cost", "context", "config", "tools", "help", "keys"):
            await enter(pilot, f"/{name}")
            await until(pilot, lambda: app.screen is not app.chat, name)
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.chat, name)
            assert app.chat.focused is app.chat.composer, name


async def test_an_unknown_command_is_said_and_is_one_key_away(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "/modle")
        assert "did you mean /mode" in app.chat.state.status.now.screen.notice
        assert (app.told, app.chat.composer.text) == ([], "")
        await pilot.press("up")
        assert app.chat.composer.text == "/modle"


async def test_no_command_that_was_refused_is_joined_by_the_next_text(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        for line in ("/undo", "/redo", "/unod", "/cost me", "/new"):
            await write(pilot, line)
            await pilot.press("enter")
            await until(
                pilot,
                lambda line=line: line.split()[0] in app.chat.state.status.now.screen.notice,
                line,
            )
            assert (app.told, app.chat.composer.text) == ([], ""), line
        await write(pilot, "go on")
        await pilot.press("enter")
        assert app.told == [Steer("go on")]


async def test_a_command_that_is_refused_while_the_agent_works_is_one_key_away(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await enter(pilot, "/new")
        await pilot.pause()
        assert "/new was not run: the agent is working" in app.chat.state.status.now.screen.notice
        assert app.chat.composer.text == ""
        await pilot.press("up")
        assert app.chat.composer.text == "/new"


async def test_a_mode_that_does_not_exist_is_refused_by_its_name(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "/mode paln")
        said = "/mode takes ask, accept-edits, plan, auto, not 'paln'"
        await until(pilot, lambda: app.chat.state.status.now.screen.notice == said)
        await enter(pilot, "/mode")
        said = "mode: ask; /mode ask|accept-edits|plan|auto changes it"
        await until(pilot, lambda: app.chat.state.status.now.screen.notice == said)


async def test_another_model_is_chosen_from_the_list(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "/model")
        await until(pilot, lambda: app.screen is not app.chat)
        await write(pilot, "qwen", "enter")
        await until(pilot, lambda: SetModel("ollama/qwen3", "http://127.0.0.1:11434") in app.told)


@for_each(
    ("typed", "model", "api_base"),
    [
        ("other", "other", "http://127.0.0.1:8080/v1"),
        ("openai/other", "openai/other", "http://127.0.0.1:8080/v1"),
        ("openai/gpt-5.2", "openai/gpt-5.2", "http://127.0.0.1:8080/v1"),
        ("ollama/qwen3", "ollama/qwen3", "http://127.0.0.1:11434"),
        ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", None),
    ],
)
async def test_a_model_by_name_stays_at_its_server_and_both_are_kept_for_the_next_start(
    tmp_path: Path, typed: str, model: str, api_base: str | None
) -> None:
    async with chat(tmp_path) as (pilot, app):
        app.clients[0].agent_shown.model = ModelInUse("openai/qwen", "http://127.0.0.1:8080/v1")
        await enter(pilot, f"/model {typed}")
        await until(pilot, lambda: ("keep", {"model": model, "api_base": api_base}) in app.told)
        assert SetModel(model, api_base) in app.told
        await until(
            pilot, lambda: app.chat.state.status.now.screen.notice == f"model: {typed}; kept"
        )


async def test_how_much_the_model_thinks_is_a_command(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "/effort high")
        await until(pilot, lambda: SetEffort("high") in app.told)
        said = "thinking: high, from the next answer on; kept"
        await until(pilot, lambda: app.chat.state.status.now.screen.notice == said)
        assert ("keep", {"thinking": "high"}) in app.told
        await enter(pilot, "/sandbox none")
        await until(pilot, lambda: SetNetwork("none") in app.told)
        await enter(pilot, "/sandbox wide")
        refused = "/sandbox takes none, allow-list, ask, open, not 'wide'"
        await until(pilot, lambda: app.chat.state.status.now.screen.notice == refused)


async def test_another_session_takes_the_place_of_this_one(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        first = app.chat
        await enter(pilot, "/resume 20261119")
        await until(pilot, lambda: len(app.clients) == 2 and app.clients[1].shown)
        assert app.chat is not first and app.chat.launch_options.resume == "20261119"
        assert app.clients[0].told == [("close",)]
        await write(pilot, "go on", "enter")
        assert app.clients[1].told == [Prompt("go on")]


async def test_a_theme_by_name_is_in_force_at_once(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "/theme paper")
        await until(pilot, lambda: app.theme == "paper")
        await until(pilot, lambda: ("keep", {"theme": "paper"}) in app.told)


async def test_the_theme_of_the_settings_is_in_force_and_one_of_the_command_line_goes_before_it(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app):
        app.chat.state.prefer(checked(Settings, {"theme": "paper", "bell": False}))
        await pilot.pause()
        assert app.theme == "paper"
        app.chat.launch_options = LaunchOptions(theme="paper")
        app.chat.state.prefer(checked(Settings, {"theme": "dusk"}))
        await pilot.pause()
        assert app.theme == "paper"


async def test_the_whole_output_of_a_call_opens_as_a_page(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        app.chat.view.post_message(app.chat.view.OpenOutput("c4"))
        await until(pilot, lambda: app.screen is not app.chat)
        assert "line 1" in shown(app)


async def test_find_marks_what_is_looked_for_and_esc_returns_to_writing(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await pilot.press("ctrl+f")
        await write(pilot, "leap")
        await until(pilot, lambda: "3 of 3" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "2 of 3" in shown(app))
        await pilot.press("escape")
        await pilot.pause()
        assert app.chat.focused is app.chat.composer


async def test_the_conversation_in_focus_shows_its_own_keys(tmp_path: Path) -> None:
    keys = "transcript.output: w\n"
    async with chat(tmp_path, running_tests(), keys_file=keys) as (pilot, app):
        await pilot.press("tab")
        await until(pilot, lambda: app.chat.view.has_focus)
        await pilot.pause()
        last = shown(app).splitlines()[-1]
        assert "Esc back to typing · Enter opens · n p calls · w output" in last
        await pilot.press("escape")
        await until(pilot, lambda: "back to typing" not in shown(app))


async def test_find_finds_what_only_the_screen_says(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await pilot.press("ctrl+f")
        await write(pilot, "88 lines")
        await until(pilot, lambda: "1 of 1" in shown(app))


async def test_the_users_own_keys_are_in_force(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests(), keys_file="chat.detail: alt+e\n") as (pilot, app):
        await pilot.press("alt+e")
        assert app.chat.view.detail == "full"
        await pilot.press("ctrl+o")
        assert app.chat.view.detail == "full"


async def test_a_page_says_the_keys_in_force(tmp_path: Path) -> None:
    async with chat(tmp_path, keys_file="page.close: x\npermissions.revoke: v\n") as (pilot, app):
        await enter(pilot, "/help")
        await until(pilot, lambda: isinstance(app.screen, Page))
        await pilot.pause()
        assert "x closes" in shown(app)
        await pilot.press("x")
        await enter(pilot, "/permissions")
        await until(pilot, lambda: isinstance(app.screen, PermissionsScreen))
        await pilot.pause()
        assert "v revokes" in shown(app)


async def test_a_keys_file_that_is_wrong_is_said_and_changes_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path, keys_file="chat.detial: alt+e\n") as (_, app):
        remarks = [
            block.text for block in app.chat.state.document.blocks if isinstance(block, Remark)
        ]
        assert len(remarks) == 1 and "keys.yaml:1" in remarks[0]


async def test_markup_of_anybody_is_text(tmp_path: Path) -> None:
    hostile = "[@click=app.quit]x[/] [/] [on red]y"
    recording = Recording().run(hostile).answer(hostile)
    async with chat(tmp_path, recording) as (pilot, app):
        await pilot.pause()
        assert shown(app).count("[@click=app.quit]x[/] [/] [on red]y") == 2


@pytest.mark.parametrize(
    ("keys", "resumed"),
    [
        (["enter"], None),
        (["escape"], None),
        (["down", "enter", "enter"], ROWS[0].id),
        (["up", "down", "down", "enter"], "2026"),
    ],
    ids=["new", "esc", "another", "again"],
)
async def test_a_session_that_cannot_be_resumed_leaves_a_choice_and_no_dead_screen(
    tmp_path: Path, keys: list[str], resumed: str | None
) -> None:
    missing = Missing("session", "session 2026 is in use by process 4242")
    app = ReplayApp([], tmp_path, now=0.0, missing=missing, options=LaunchOptions(resume="2026"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press(*keys)
        await until(pilot, lambda: app.chat.outbox.client is not None)
        assert app.chat.launch_options.resume == resumed
        await write(pilot, "go", "enter")
        assert app.told == [Prompt("go")]


async def test_a_key_that_was_refused_is_changed_from_the_list_of_models(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await enter(pilot, "/model")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("up", *["down"] * 9, "enter")
        await until(pilot, lambda: isinstance(app.screen, FirstRun))
        app.post_message(events.Paste("sk-ant-0123456789"))
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.chat)
        await until(pilot, lambda: SetModel("anthropic/claude-sonnet-4-5") in app.told)
        assert ("keep_key", "ANTHROPIC_API_KEY") in app.told


async def test_end_in_an_empty_composer_reads_a_long_question_to_its_end(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        app.chat.state.approvals.add(command("\n".join(f"echo {number}" for number in range(60))))
        await pilot.pause()
        long_enough()
        assert app.chat.card.pane.below > 0
        await pilot.press("end")
        await pilot.pause()
        assert app.chat.card.pane.below == 0 and app.focused is app.chat.composer


async def test_a_finished_run_closes_its_to_do_line(tmp_path: Path) -> None:
    items = (TodoItem(text="parse leap days", state="active"), TodoItem(text="write the test"))
    async with chat(tmp_path, running_tests()) as (pilot, app):
        app.chat.state.status.set(todo=items)
        await until(pilot, lambda: "── todo" in shown(app))
        app.chat.state.status.set(in_run=False)
        await until(pilot, lambda: "── todo" not in shown(app))
