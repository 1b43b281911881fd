"""A whole output opens at once, however long; `/` finds, `c` copies, Esc closes."""

import pytest
from rich.color import Color
from textual.widgets import TextArea

from codeagent.tui.pages.info import OutputScreen
from tests.tui.pages.stand_in import MANNERS, StandIn


async def test_two_hundred_thousand_lines_open_at_once_and_only_what_is_seen_is_drawn() -> None:
    app = StandIn()
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(TextArea).focus()
        app.push_screen(
            OutputScreen("pytest", [f"line {number} of many" for number in range(200_000)])
        )
        await pilot.pause()
        assert "200,000 lines" in app.rows[0]
        await pilot.press("end")
        await pilot.pause()
        assert "line 199999 of many" in app.shown
        await pilot.press("home", "slash", *"99998", "enter", "n")
        await pilot.pause()
        assert "line 199998 of many" in app.shown
        assert "2 of 2" in app.rows[-1]
        await pilot.press("escape")
        await pilot.pause()
        assert "/ finds" in app.rows[-1]
        await pilot.press("escape")
        await pilot.pause()
        assert app.focused is app.query_one(TextArea)
        assert app.query_one(TextArea).text == ""


async def test_colours_are_shown_matches_are_marked_and_wide_rows_are_reached() -> None:
    app = StandIn()
    async with app.run_test(size=(40, 10)) as pilot:
        app.push_screen(OutputScreen("ls", "\x1b[31mred\x1b[0m plain " + "x" * 100 + " the end"))
        await pilot.pause()
        red = next(
            part
            for strip in app.screen._compositor.render_strips()
            for part in strip
            if "red" in part.text
        )
        assert red.style is not None
        assert red.style.color is not None
        assert red.style.color != Color.parse(app.themes.get("ink").textual.foreground or "")
        await pilot.press("slash", *"the end")
        await pilot.pause()
        assert "the end" in app.rows[1]
        await pilot.press("escape", "home")
        await pilot.pause()
        assert app.rows[1].strip().startswith("red plain")
        await pilot.press("slash", *"zz")
        await pilot.pause()
        assert "nothing found for 'zz'" in app.shown


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
async def test_what_was_printed_is_shown_never_obeyed(size: tuple[int, int]) -> None:
    app = StandIn()
    async with app.run_test(size=size) as pilot:
        app.push_screen(OutputScreen(MANNERS, f"{MANNERS}\n\x9b31mcsi\n\ttab"))
        await pilot.pause()
        assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(app.shown)


async def test_everything_is_copied_where_nothing_is_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(OutputScreen("ls", "\x1b[31mabc\x1b[0m\nxyz\n"))
        await pilot.press("c")
        await pilot.pause()
        assert app.copied == "abc\nxyz"
        await pilot.mouse_down(offset=(2, 1))
        await pilot.hover(offset=(2, 2))
        await pilot.mouse_up(offset=(2, 2))
        await pilot.pause()
        await pilot.press("c")
        await pilot.pause()
        assert app.copied == "bc\nxy"
