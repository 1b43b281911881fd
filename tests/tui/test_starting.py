"""What is typed and pressed while codeagent starts is kept, in order and on disk, and done once it
has started."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from codeagent.core.acts import Prompt, RunShell, SetBudget, SetMode, SetModel, Step
from codeagent.core.budget import Budget
from codeagent.tui.pages import chat, conversation
from tests.tui.replay import ReplayApp, settled, until

_KEYS = {" ": "space", "/": "slash", "!": "exclamation_mark", "$": "dollar_sign"}


@asynccontextmanager
async def starting(
    folder: Path, **options: Any
) -> AsyncIterator[tuple[Pilot[None], ReplayApp, asyncio.Event]]:
    starts = asyncio.Event()
    app = ReplayApp([], folder, now=0.0, starts=starts, **options)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        yield pilot, app, starts
    assert app.crash is None


async def enter(pilot: Pilot[None], *lines: str) -> None:
    for line in lines:
        for letter in line:
            pilot.app.post_message(events.Key(_KEYS.get(letter, letter), letter))
        pilot.app.post_message(events.Key("enter", None))
    await pilot.pause()


def lane(app: ReplayApp) -> list[str]:
    return [item.text for item in app.chat.state.queue.items]


def shown(app: ReplayApp) -> str:
    return "\n".join(
        "".join(part.text for part in row) for row in app.screen._compositor.render_strips()
    )


def notice(app: ReplayApp) -> str:
    return app.chat.state.status.now.screen.notice


def on_disk(folder: Path) -> str:
    """Every draft there is."""
    drafts = (
        path for path in sorted((folder / "state/drafts").iterdir()) if path.suffix != ".lock"
    )
    return "\n".join(path.read_text() for path in drafts)


async def test_prompts_keys_and_commands_are_done_in_the_order_they_were_given(
    tmp_path: Path,
) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        await enter(pilot, "/budget $2")
        await pilot.press("shift+tab")
        await enter(pilot, "fix it", "!ls", "/model demo", "/step on")
        assert app.told == []
        assert lane(app) == ["/budget $2", "fix it", "!ls", "/model demo", "/step on"]
        assert app.chat.state.status.now.conversation.mode == "accept-edits"
        starts.set()
        await until(pilot, lambda: Step(True) in app.told)
        assert app.told == [
            SetBudget(Budget.parse("$2")),
            SetMode("accept-edits"),
            Prompt("fix it"),
            RunShell("ls", True),
            SetModel("demo"),
            ("keep", {"model": "demo", "api_base": None}),
            Step(True),
        ]
        assert lane(app) == []


async def test_what_is_sent_after_the_start_stays_behind_what_waits(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        await enter(pilot, "one")
        starts.set()
        await enter(pilot, "two")
        await until(pilot, lambda: len(app.told) == 2)
        assert app.told == [Prompt("one"), Prompt("two")]


async def test_what_was_sent_is_on_disk_before_the_lane_shows_it(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        seen: list[tuple[list[str], str]] = []
        app.chat.state.queue.watch(lambda: seen.append((lane(app), on_disk(tmp_path))))
        await enter(pilot, "one", "!ls")
        assert [(shown, written.splitlines()) for shown, written in seen] == [
            (["one"], ["one"]),
            (["one", "!ls"], ["one", "!ls"]),
        ]
        starts.set()
        await until(pilot, lambda: len(app.told) == 2)
        assert on_disk(tmp_path) == ""


async def test_what_was_never_done_is_one_key_away_at_the_next_start(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await enter(pilot, "one", "two")
    async with starting(tmp_path) as (pilot, app, _):
        assert (app.chat.composer.text, app.chat.state.queue.earlier) == ("", "one\ntwo")
        await pilot.press("up")
        assert (app.chat.composer.text, app.chat.state.queue.earlier) == ("one\ntwo", "")


async def test_a_draft_is_neither_joined_nor_sent_by_what_is_typed_during_the_start(
    tmp_path: Path,
) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await pilot.press(*"stale")
    async with starting(tmp_path) as (pilot, app, starts):
        await enter(pilot, "new")
        starts.set()
        await until(pilot, lambda: bool(app.told))
        assert app.told == [Prompt("new")]
        assert app.chat.state.queue.earlier == "stale"
        assert on_disk(tmp_path) == "stale"


async def test_a_draft_that_nobody_took_back_is_there_at_every_start(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await pilot.press(*"stale")
    for _ in range(2):
        async with starting(tmp_path) as (pilot, app, _):
            assert app.chat.state.queue.earlier == "stale"
            assert "not sent last time" in shown(app) and "“stale”" in shown(app)


async def test_a_draft_taken_back_stays_on_disk_until_it_is_sent(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await pilot.press(*"stale")
    async with starting(tmp_path) as (pilot, app, starts):
        await pilot.press("up")
        assert on_disk(tmp_path) == "stale"
        starts.set()
        await pilot.press("enter")
        await until(pilot, lambda: app.told == [Prompt("stale")])
        await until(pilot, lambda: on_disk(tmp_path) == "")


@pytest.mark.parametrize("line", ["/mcp", "/tools", "/permissions", "/nosuch"])
async def test_a_command_typed_before_the_session_is_open_is_done_once_it_is(
    tmp_path: Path, line: str
) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        await enter(pilot, line)
        assert lane(app) == [line]
        starts.set()
        await until(pilot, lambda: app.screen is not app.chat or not lane(app))
        assert "still starting" not in notice(app)
        if app.screen is not app.chat:
            await pilot.press("escape")
        await until(pilot, lambda: not lane(app))


async def test_esc_esc_takes_back_what_waits_for_the_start(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await enter(pilot, "one", "two")
        await pilot.press("escape")
        assert "Esc again takes back" in app.chat.state.status.now.screen.notice
        assert lane(app) == ["one", "two"]
        await pilot.press("escape")
        assert (lane(app), app.chat.composer.text) == ([], "one\ntwo")


async def test_up_takes_back_the_last_one_that_waits_for_the_start(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        await enter(pilot, "one", "two")
        await pilot.press("up")
        assert (lane(app), app.chat.composer.text) == (["one"], "two")
        starts.set()
        await until(pilot, lambda: bool(app.told))
        assert app.told == [Prompt("one")]


async def test_where_nothing_starts_everything_returns_to_the_composer(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        app.clients[-1].refuses = "not started"
        await enter(pilot, "one", "/budget $2")
        starts.set()
        await until(pilot, lambda: not lane(app))
        assert (app.told, app.chat.composer.text) == ([], "one\n/budget $2")


async def test_a_command_that_needs_no_conversation_does_not_wait_for_one(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await enter(pilot, "/theme paper")
        await until(pilot, lambda: "theme: paper" in app.chat.state.status.now.screen.notice)
        await enter(pilot, "/help")
        await until(pilot, lambda: app.screen is not app.chat)
        assert lane(app) == []


async def test_something_sent_at_once_ends_the_wait_for_further_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "_FIRST_KEYS", 3600.0)
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await enter(pilot, "fix it")
        await until(pilot, lambda: Prompt("fix it") in app.told)


async def test_what_draws_an_answer_is_loaded_once_the_prompt_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with starting(tmp_path) as (pilot, app, starts):
        loaded: list[list[object]] = []
        monkeypatch.setattr(conversation, "warm_up", lambda: loaded.append([*app.told]))
        await enter(pilot, "fix it")
        assert loaded == []
        starts.set()
        await until(pilot, lambda: bool(loaded))
        assert loaded == [[Prompt("fix it")]]
