"""Choosing a theme shows it at once; Esc brings the one before back."""

from pathlib import Path

from codeagent.tui.pages.picker import ThemePicker
from tests.tui.pages.stand_in import StandIn


async def test_the_marked_theme_is_in_force_until_esc() -> None:
    app = StandIn("paper")
    async with app.run_test() as pilot:
        app.push_screen(ThemePicker(app.look), app.given.append)
        await pilot.pause()
        assert " ▸ paper" in app.shown
        await pilot.press("up")
        await pilot.pause()
        assert (app.theme, app.palette) == ("frost", app.themes.get("frost").palette)
        await pilot.press("escape")
        await pilot.pause()
        assert (app.theme, app.look.name, app.given) == ("paper", "paper", [None])


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
