"""A session that leaves its terminal works on as the user has set it now."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.acts import Resume
from codeagent.core.errors import ConfigError
from codeagent.extensions.board import holder, page
from codeagent.tui.pages.chat import ChatScreen
from tests.tui.replay import ReplayApp, ReplayClient, settled, until


async def test_the_session_keeps_the_mode_and_the_steps_that_it_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []

    def started(words: Sequence[str]) -> tuple[bool, str]:
        moved.extend(words)
        return True, "it works elsewhere"

    monkeypatch.setattr(page, "start_held", started)
    monkeypatch.setattr(ReplayApp, "action_quit", lambda app: moved.append("quit"))
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        chat = app.chat
        chat.launch_options = replace(
            chat.launch_options, mode="accept-edits", flags={"network": "none", "tools": ("a", "b")}
        )
        chat.state.status.set(mode="plan", stepping=True, session="s1")
        assert chat.themes.use("paper") == ""
        await page.detach(chat, "")
        assert not chat.state.status.now.conversation.session, "--resume is not offered"
    said = " ".join(moved)
    assert "--mode plan --theme paper --step --network none --tools a,b quit" in said
    assert "accept-edits" not in said and "--detach" in moved


async def test_a_session_that_cannot_be_detached_is_open_again_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "codeagent: the disk is full" >&2\nexit 2\n')
    program.chmod(0o700)
    monkeypatch.setattr(page.sys, "executable", str(program))
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        before = app.chat
        before.composer.set_text("a draft")
        await pilot.pause()  # the screen has heard of it
        await page.detach(before, "")
        await settled(pilot)
        assert app.is_running and app.chat is not before
        assert app.chat.launch_options.resume == "20261120-120000-0badcafe"
        await until(pilot, lambda: app.chat.state.queue.earlier == "a draft")
        assert "not detached: the disk is full; the session is open" in app.chat.view.plain_text()


async def test_a_run_that_ends_before_the_pause_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []
    app = ReplayApp([], tmp_path, now=0.0)

    def start(words: Sequence[str]) -> tuple[bool, str]:
        moved.extend(words)
        return True, "it works elsewhere"

    async def ended(chat: ChatScreen) -> None:
        client = await chat.outbox.ready()
        assert isinstance(client, ReplayClient)
        client.running = False

    monkeypatch.setattr(page, "start_held", start)
    monkeypatch.setattr(page, "_paused", ended)
    async with app.run_test() as pilot:
        await settled(pilot)
        client = await app.chat.outbox.ready()
        assert isinstance(client, ReplayClient)
        client.running = True
        await page.detach(app.chat, "")
    assert moved[moved.index("--detach") + 1] == ""


async def test_a_session_that_is_detached_twice_moves_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Sequence[str]] = []

    def start(words: Sequence[str]) -> tuple[bool, str]:
        started.append(words)
        return True, "it works elsewhere"

    monkeypatch.setattr(page, "start_held", start)
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        await asyncio.gather(page.detach(app.chat, ""), page.detach(app.chat, ""))
    assert len(started) == 1


async def test_a_call_that_became_a_job_before_the_pause_keeps_the_session_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    jobs: dict[str, int] = {}

    async def paused(chat: object) -> None:
        jobs["j1"] = 0

    monkeypatch.setattr(page, "_paused", paused)
    monkeypatch.setattr(page, "start_held", lambda words: pytest.fail("it was detached"))
    async with app.run_test() as pilot:
        await settled(pilot)
        client = await app.chat.outbox.ready()
        assert isinstance(client, ReplayClient)
        client.running = True
        client.lines = jobs
        before = app.chat
        await page.detach(before, "")
        assert app.chat is before and app.is_running
        assert client.told == [Resume()]


def test_a_screen_below_the_lines_of_the_shell_cannot_be_detached_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder.sys, "argv", ["codeagent", "--inline", "--detach", "go"])
    with pytest.raises(ConfigError, match="--inline"), holder.detached(tmp_path, "go"):
        pass
