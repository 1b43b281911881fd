"""/config lists every setting and its origin, and writes only what the user's own file may hold."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from codeagent.config.choices import Choices
from codeagent.config.settings import LimitSettings
from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.pages.picker import ValuePicker
from tests.tui.fake_launcher import FakeLauncher
from tests.tui.replay import ReplayApp, enter, settled, until


class Keeper(FakeLauncher):
    """Notes what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Choices] = []

    def keep(self, choices: Choices) -> str:
        self.written.append(choices)
        return "kept"


@asynccontextmanager
async def typed(line: str, folder: Path) -> AsyncIterator[tuple[Pilot[None], ReplayApp, Keeper]]:
    app, keeper = ReplayApp([], folder, now=0.0), Keeper()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.clients[-1].launcher = keeper
        if line:
            await enter(pilot, line)
        yield pilot, app, keeper
    assert app.crash is None


def notice(app: ReplayApp) -> str:
    return app.chat.state.status.now.screen.notice


async def test_a_setting_is_chosen_checked_on_the_spot_and_kept(tmp_path: Path) -> None:
    async with typed("/config", tmp_path) as (pilot, app, keeper):
        await until(pilot, lambda: isinstance(app.screen, FactsPage))
        await pilot.press("slash", *"max_turns", "enter")
        await until(pilot, lambda: isinstance(app.screen, ValuePicker))
        await pilot.press("0", "enter")
        await until(pilot, lambda: "greater than 0" in app.screen._hints._said)  # type: ignore[attr-defined]  # of the picker
        assert keeper.written == []
        await pilot.press("backspace", "9", "enter")
        await until(pilot, lambda: isinstance(app.screen, FactsPage))
        assert keeper.written == [{"limits.max_turns": 9}]
        assert isinstance(app.screen, FactsPage) and app.screen.list.marked is not None
        assert app.screen.list.marked.cells[0] == "limits.max_turns"  # type: ignore[union-attr]  # a fact


async def test_a_value_can_be_given_with_the_command(tmp_path: Path) -> None:
    async with typed("/config bell false", tmp_path) as (pilot, app, keeper):
        await until(pilot, lambda: notice(app) == "bell: kept, for the next start")
        assert keeper.written == [{"bell": False}]


async def test_a_value_that_does_not_hold_here_is_reported_with_the_one_that_does(
    tmp_path: Path,
) -> None:
    async with typed("", tmp_path) as (pilot, app, keeper):
        tightened = replace(
            keeper.settings(LaunchOptions()),
            limits=LimitSettings(max_turns=3),
            origins={"limits.max_turns": ".codeagent/config.toml"},
        )
        keeper.settings = lambda options: tightened  # type: ignore[method-assign]  # a project's
        await enter(pilot, "/config limits.max_turns 9")
        await until(pilot, lambda: notice(app).startswith("limits.max_turns: kept"))
        assert notice(app).endswith("; here it is 3, from .codeagent/config.toml")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/config mode yolo", "mode: input should be 'ask'"),
        ("/config modle x", "did you mean mode"),
        ("/config hooks []", "hooks cannot be set here"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_the_reason(
    line: str, why: str, tmp_path: Path
) -> None:
    async with typed(line, tmp_path) as (pilot, app, keeper):
        await until(pilot, lambda: why in notice(app))
        assert keeper.written == []
