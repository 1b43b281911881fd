"""Choosing a theme shows it at once; Esc brings the one before back."""

from pathlib import Path

import pytest

from codeagent.tui.pages.picker import ThemePicker
from codeagent.tui.parts.line_pane import LinePane
from tests.tui.pages.stand_in import StandIn
from tests.tui.replay import ReplayApp, enter, settled, until
from tests.tui.scripts import START, asks_to_edit


async def test_the_marked_theme_is_in_force_until_esc() -> None:
    app = StandIn("paper")
    async with app.run_test() as pilot:
        app.push_screen(ThemePicker(app.look), app.given.append)
        await pilot.pause()
        assert " ▸ paper" in app.shown
        assert app.rows[-1].strip() == "Enter keeps it · Esc restores paper · Up and Down move"
        await pilot.press("up")
        await pilot.pause()
        assert (app.theme, app.palette) == ("frost", app.themes.get("frost").palette)
        await pilot.press("escape")
        await pilot.pause()
        assert (app.theme, app.look.name, app.given) == ("paper", "paper", [None])


async def test_a_sample_below_the_list_is_drawn_in_the_marked_theme_where_there_is_room() -> None:
    app = StandIn()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(ThemePicker(app.look), app.given.append)
        await pilot.pause()
        at = next(at for at, row in enumerate(app.rows) if "leap = isleap(year)" in row)
        assert "leap = year % 4 == 0" in app.rows[at - 1]
        await pilot.press("down")
        await pilot.pause()
        sample = app.screen.query_one(LinePane)
        grounds = {part.style.bgcolor for part in sample.render_line(2) if part.style}
        added = app.themes.get(app.look.name).palette.diff.added.bgcolor
        assert app.look.name != "ink" and added is not None and added in grounds
    async with (app := StandIn()).run_test(size=(80, 12)) as pilot:
        app.push_screen(ThemePicker(app.look), app.given.append)
        await pilot.pause()
        assert not any("isleap" in row for row in app.rows) and any(
            "ink" in row for row in app.rows
        )


async def test_enter_keeps_it() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(ThemePicker(app.look), app.given.append)
        await pilot.press(*"term", "enter")
        await pilot.pause()
        assert (app.theme, app.given) == ("terminal", ["terminal"])


async def test_a_theme_that_cannot_be_used_says_why_and_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("name: broken\n")
    app = StandIn(folders=(tmp_path,))
    async with app.run_test(size=(140, 40)) as pilot:
        app.push_screen(ThemePicker(app.look), app.given.append)
        await pilot.press(*"broken", "enter")
        await pilot.pause()
        assert "broken.yaml:1: dark: is missing; the theme was not changed" in app.rows[-1]
        assert (app.theme, app.given) == ("ink", [])


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (200, 60)])
async def test_the_conversation_above_the_list_is_drawn_in_each_theme_as_you_move(
    size: tuple[int, int], tmp_path: Path
) -> None:
    app = ReplayApp(asks_to_edit().events, tmp_path, now=START)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await enter(pilot, "/theme")
        await until(pilot, lambda: isinstance(app.screen, ThemePicker))
        seen = []
        for name in app.look.themes.names():
            await until(pilot, lambda name=name: app.look.name == name)
            await pilot.pause()
            seen.append(app.screen._compositor.render_strips()[2])
            await pilot.press("down")
        assert len({tuple(segment.style for segment in strip) for strip in seen}) == len(seen)
        await pilot.press("enter")
        await until(pilot, lambda: ("keep", {"theme": app.look.name}) in app.told)
        assert app.look.name == app.look.themes.names()[-1]
